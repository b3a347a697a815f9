"""Whose fault it is that a command could not be started: the node's, or the task's. Words only; it changes nothing.

A node that cannot start anything must not be given one task after the other, and a task that can start nowhere must
not set one node after the other aside. So only what no task can bring about is the node's: no process, no memory, a
disk that takes nothing, a folder gone that every machine of the lab has (the launch names those: its `roots`).
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Optional, Sequence

NODE, TASK = "node", "task"
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
FULL_DISK = (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO)
DENIED = (errno.EACCES, errno.EPERM)


class StartError(Exception):
    """The command cannot be started; the message is for the owner of the task. `fault`: whose it is."""

    def __init__(self, text: str, fault: str = TASK) -> None:
        super().__init__(text)
        self.fault = fault


def not_run(program: str, error: Exception) -> StartError:
    """Of a program that the kernel did not run, or whose words or variables it does not take."""
    host = socket.gethostname()
    if isinstance(error, FileNotFoundError):
        if os.path.exists(program):
            return StartError(f"{program} cannot be run on {host}: its interpreter does not exist")
        return StartError(f"the program {program} does not exist on {host}")
    if isinstance(error, OSError):
        return StartError(f"{program} cannot be run on {host}: {error.strerror}", of(error, program, []))
    return StartError(f"{program} cannot be run on {host}: {error}")


def unforeseen(error: BaseException) -> StartError:
    """Of what nobody has words for."""
    exhausted = isinstance(error, MemoryError) or getattr(error, "errno", None) in EXHAUSTED
    return StartError(f"{str(error) or type(error).__name__} on {socket.gethostname()}", NODE if exhausted else TASK)


def of(error: OSError, path: str, roots: Sequence[str]) -> str:
    """`node` or `task`, for a path that could not be used."""
    if error.errno in EXHAUSTED:
        return NODE
    root = outermost(path, roots)
    if root is None:
        return TASK  # a place of the task's own choice
    if not _is_there(root) or (error.errno in FULL_DISK and _on_one_disk(path, root)):
        return NODE  # not what somebody has mounted beneath it, and left to die
    # Nobody chose the name of a log that lies in a folder of the lab itself: that it cannot be made is not the task's.
    unmade = error.errno in DENIED and os.path.dirname(path) in roots and not os.path.lexists(path)
    return NODE if unmade else TASK


def missing_root(path: str, roots: Sequence[str]) -> Optional[str]:
    """The folder above `path` that every machine has and this one does not; it must not be made here."""
    root = outermost(path, roots)
    return root if root is not None and not os.path.isdir(root) else None


def check_root(path: str, roots: Sequence[str]) -> None:
    """Raises StartError for a path in a folder that every machine has and this one does not."""
    root = missing_root(path, roots)
    if root is not None:
        cure = f"mount it there (`mount {root}`)"
        raise StartError(f"the shared folder {root} is not there on {socket.gethostname()}: {cure}", NODE)


def outermost(path: str, roots: Sequence[str]) -> Optional[str]:
    """The shortest of the roots that `path` is or lies beneath."""
    above = [root for root in roots if path == root or path.startswith(root.rstrip("/") + "/")]
    return min(above, key=len, default=None)


def _on_one_disk(path: str, root: str) -> bool:
    """Does `path`, or what there is of it, lie on the root's own file system?"""
    while not os.path.lexists(path) and path != root:
        path = os.path.dirname(path)
    try:
        return os.stat(path).st_dev == os.stat(root).st_dev
    except OSError:
        return False


def _is_there(root: str) -> bool:
    """Is it a folder that somebody may enter, and not just the empty place where a file system is to be mounted?"""
    try:
        return os.access(root, os.X_OK) and bool(os.listdir(root))
    except OSError:
        return False
