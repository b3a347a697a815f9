"""The blame for a command that could not be started: the node's, or the task's. Words only; it changes nothing.

A node that cannot start anything must not be given one task after the other, and a task that can start nowhere must
not set one node after the other aside. So only what no task can bring about is the node's: no process, no memory, a
disk that takes nothing, a folder gone that every machine of the lab has (the launch names those: its `roots`).
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Optional, Sequence

from .log_place import LOOK

NODE, TASK = "node", "task"
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
FULL_DISK = (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO)
DENIED = (errno.EACCES, errno.EPERM)
MISNAMED = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)
"""The reasons for which a path that is wrong on every machine is refused."""


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
        fault = NODE if error.errno in EXHAUSTED else TASK
        return StartError(f"{program} cannot be run on {host}: {error.strerror}", fault)
    return StartError(f"{program} cannot be run on {host}: {error}")


def unforeseen(error: BaseException) -> StartError:
    """Of what nobody has words for."""
    exhausted = isinstance(error, MemoryError) or getattr(error, "errno", None) in EXHAUSTED
    return StartError(f"{str(error) or type(error).__name__} on {socket.gethostname()}", NODE if exhausted else TASK)


def of_log(error: OSError, path: str, roots: Sequence[str], instead_of: str = "") -> str:
    """`node` or `task`, for a log that could not be opened. `instead_of`: the lab's folder of logs, where somebody has
    placed this one elsewhere."""
    if instead_of:
        fault = of_chosen(error, path, roots)
        is_disks = fault == NODE and error.errno in FULL_DISK and os.path.isdir(instead_of)
        return fault if not is_disks or _takes_nothing(instead_of) else TASK
    if error.errno in EXHAUSTED or of_chosen(error, path, roots) == NODE:
        return NODE
    # Nobody chose the name of a log that lies in a folder of the lab itself, or in its account's folder there: that it
    # cannot be made is not the task's.
    missing = path if os.path.lexists(os.path.dirname(path)) else os.path.dirname(path)
    unmade = error.errno in DENIED and os.path.dirname(missing) in roots and not os.path.lexists(missing)
    return NODE if unmade else TASK


def of_chosen(error: OSError, path: str, roots: Sequence[str]) -> str:
    """`node` or `task`, for a path that somebody chose and that could not be used."""
    if error.errno in EXHAUSTED:  # a file system of a user's own can say that, too, as often as it likes
        return NODE if _is_used_up() else TASK
    root = outermost(path, roots)
    if root is None or error.errno in MISNAMED:
        return TASK
    # Not what somebody has mounted beneath it, and left to die.
    return NODE if not _is_there(root) or (error.errno in FULL_DISK and _on_one_disk(path, root)) else TASK


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


def _is_used_up() -> bool:
    """Can this process open nothing at all?"""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return True
    return False


def _takes_nothing(folder: str) -> bool:
    """Can no file be made in it because of its disk?"""
    name = f".muster-{os.urandom(8).hex()}"
    try:
        held = os.open(folder, LOOK | os.O_DIRECTORY)  # it is removed where it was made, whatever is renamed meanwhile
        try:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=held))
            os.unlink(name, dir_fd=held)
        finally:
            os.close(held)
    except OSError as error:
        return error.errno in FULL_DISK
    return False


def _on_one_disk(path: str, root: str) -> bool:
    """Does `path`, or what there is of it, lie on the root's own file system? Not where that cannot be seen."""
    while path != root:
        try:
            os.lstat(path)
            break
        except (FileNotFoundError, NotADirectoryError):
            path = os.path.dirname(path)
        except OSError:
            return False
    try:
        return os.stat(path).st_dev == os.stat(root).st_dev
    except OSError:
        return False


def _is_there(root: str) -> bool:
    """Is it a folder that somebody may enter, and not just the empty place where a file system is to be mounted?"""
    try:
        return os.access(root, os.X_OK) and bool(os.listdir(root))
    except PermissionError:
        return True  # one that may be entered, and not read
    except OSError:
        return False
