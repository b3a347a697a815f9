"""Processes are found whatever they do meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.testbed import processes

CHAIN = """
import os, sys
os.read(0, 1)
for _ in range(2000):
    if os.fork():
        os._exit(0)
os.write(int(sys.argv[1]), b"x")
os.read(0, 1)
"""
"""The last one says that it is there, and stays: one that ends shows nothing of itself for a moment."""


def test_a_process_that_forks_and_ends_while_it_is_looked_for_does_not_hide_its_child() -> None:
    read, write = os.pipe()
    environment = dict(os.environ, CHAIN=str(os.getpid()))
    mark = f"CHAIN={os.getpid()}".encode()
    words = [sys.executable, "-c", CHAIN, str(write)]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, pass_fds=[write]) as first:
        os.close(write)
        os.set_blocking(read, False)
        assert first.stdin is not None
        first.stdin.write(b"g")
        first.stdin.flush()
        seen = []
        while not _has_said(read):
            seen.append(bool(processes.alive(lambda pid: processes.carries(pid, mark))))
    os.set_blocking(read, True)
    assert os.read(read, 1) == b"", "all have ended"
    os.close(read)
    assert all(seen)


def _has_said(read: int) -> bool:
    try:
        return bool(os.read(read, 1))
    except BlockingIOError:
        return False
