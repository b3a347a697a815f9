"""The master as a program that this machine starts: `python -m master …`, from the folder it is installed in."""

from __future__ import annotations

import os
import sys

import client
from client.cli.screen.interrupt import LeftToTheChild

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import BinaryIO

_LISTENS = "0A"
"""The state of a socket that listens, in the kernel's table."""


def command(*words: str) -> list[str]:
    """The command line that runs the master's program with these words."""
    return [sys.executable, "-m", "master", *words]


def folder() -> str:
    """Where the packages lie. `-m` looks in the current folder first, and a lab's folder may well hold a `master`."""
    return os.path.dirname(os.path.dirname(os.path.abspath(client.__file__)))


def environment() -> dict[str, str]:
    """Return the environment that the master is started with: ours, without the caller's token, which a daemon must not
    have."""
    return {name: value for name, value in os.environ.items() if name not in ("MUSTER_TOKEN", "MUSTER_TOKEN_FILE")}


def run(*words: str) -> int:
    """Run it to its end and give its exit code. Ctrl-C reaches it as well; its end is waited for."""
    import subprocess

    sys.stdout.flush()
    with LeftToTheChild():
        code = subprocess.Popen(command(*words), cwd=folder(), env=environment()).wait()
    return 128 - code if code < 0 else code


def append_to(log: str) -> BinaryIO:
    """A log of a program that we start, for its group to read as the master's own log is."""
    return open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o640))


def start(log: str, *words: str) -> subprocess.Popen[bytes]:
    """Start it in a session of its own, with what it prints appended to the file `log`."""
    import subprocess

    with append_to(log) as out:
        return subprocess.Popen(
            command(*words),
            cwd=folder(),
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def listens(pid: int, port: int) -> bool:
    """Does this process of ours listen at the TCP port, by the kernel's word?"""
    held = set()
    try:
        for fd in os.scandir(f"/proc/{pid}/fd"):
            held.add(os.readlink(fd.path))
    except OSError:
        return False  # it has ended, or closed what was just listed: whoever waits asks again
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                lines = [line.split() for line in file]
        except OSError:
            continue
        if any(
            words[3] == _LISTENS and words[1].endswith(f":{port:04X}") and f"socket:[{words[9]}]" in held
            for words in lines
        ):
            return True
    return False
