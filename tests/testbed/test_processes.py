"""Processes are found whatever they do meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.testbed import processes

CHAIN = """
import os
os.read(0, 1)
for _ in range(2000):
    if os.fork():
        os._exit(0)
"""


def test_a_process_that_forks_and_ends_while_it_is_looked_for_does_not_hide_its_child() -> None:
    read, write = os.pipe()
    environment = dict(os.environ, CHAIN=str(os.getpid()))
    mark = f"CHAIN={os.getpid()}".encode()
    words = [sys.executable, "-c", CHAIN]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, pass_fds=[write]) as first:
        os.close(write)
        os.set_blocking(read, False)
        first.communicate(b"go")
    hidden = 0
    while _is_held(read):
        found = processes.alive(lambda pid: mark in processes.environment(pid))
        hidden += not found and _is_held(read)
    os.close(read)
    assert hidden == 0


def _is_held(read: int) -> bool:
    """Does a process have the other end of the pipe?"""
    try:
        return bool(os.read(read, 1))
    except BlockingIOError:
        return True
