"""The master as a program that this machine starts: `python -m master …`, from the folder it is installed in."""

from __future__ import annotations

import errno
import os
import stat
import sys

import client
from client.cli.screen.interrupt import LeftToTheChild
from client.refusals import coded_error, not_written

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import BinaryIO

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
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
    """A log of a program that we start, for its group to read as the master's own log is. Raises ConflictError where
    another account may have put it there, StorageError where it cannot be opened."""
    folder = os.stat(os.path.dirname(log) or ".")
    others_write = folder.st_uid not in (0, os.geteuid()) or bool(folder.st_mode & 0o022)
    try:
        fd = os.open(log, _APPEND | (os.O_NOFOLLOW | os.O_NONBLOCK if others_write else 0), 0o640)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_ours(log) from None
        raise not_written(log, error) from None
    found = os.fstat(fd)
    is_ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid in (0, os.geteuid(), folder.st_uid)
    if others_write and not is_ours:
        os.close(fd)
        raise _not_ours(log)
    return os.fdopen(fd, "ab")


def _not_ours(log: str) -> Exception:
    return coded_error("conflict", "log_planted", path=log)


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
