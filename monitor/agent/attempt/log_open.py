"""Opening the log of a command; what lies there of an earlier life is moved aside. Each call may hang with the log's
file system, so whoever calls has something to hang."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from typing import List, Optional

from . import blame
from .blame import StartError
from .log_place import free_name

MODE = 0o640
"""Its group is the folder's, where the master has set that up."""
_OF_ALL = (errno.ENOSPC, errno.EROFS, errno.EIO)
"""What befalls a disk for everybody; its owner's quota, and what he may, is his own matter."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY


def open_log(
    path: str, roots: List[str], *, new: bool = False, said: str = "", own: bool = False, instead_of: str = ""
) -> int:
    """The log, open. `new`: nothing of this task can lie there yet; the launch was claimed, so this happens once.
    `said`: what else stands in it first. `own`: only a file of this account, and through no link: another account has
    the folder, and can lay there what it wants. `instead_of`: see `blame.of_log`. Raises StartError."""
    blame.check_root(path, roots)
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        said += _move_aside(path) if new else ""
        log = _opened_own(path) if own else _opened(path)
    except OSError as error:
        raise _cannot(path, error, roots, instead_of) from None
    if new:
        with suppress(OSError):  # a file system without rights
            os.fchmod(log, MODE)  # whatever the umask, which is meant for what the task makes
    return _begun(log, said)


def open_log_in(folder: int, path: str, roots: List[str], *, new: bool, said: str) -> int:
    """The same of the log at `path` in its owner's folder, which is open: no link is followed. Raises StartError."""
    name = os.path.basename(path)
    try:
        said += _move_aside(path, folder) if new else ""
        try:
            log = os.open(name, _FLAGS | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, MODE, dir_fd=folder)
        except FileExistsError:
            log = os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        raise _cannot(path, error, roots if error.errno in _OF_ALL else []) from None
    if not stat.S_ISREG(os.fstat(log).st_mode):
        raise StartError(f"the log {path} is no file on {socket.gethostname()}: remove it")
    with suppress(OSError):
        os.fchmod(log, MODE)
    return _begun(log, said)


def _opened(path: str) -> int:
    with suppress(FileExistsError):
        return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, MODE)
    _check_not_planted(path)
    try:
        return os.open(path, _FLAGS | os.O_CREAT, MODE)
    except PermissionError:
        if not _is_owners_link(path):
            raise
    os.rename(path, free_name(path))
    return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, MODE)


def _opened_own(path: str) -> int:
    with suppress(FileExistsError):
        return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, MODE)
    if _is_owners_link(path):
        os.rename(path, free_name(path))
        return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, MODE)
    try:
        log = os.open(path, _FLAGS | os.O_NOFOLLOW | os.O_NONBLOCK)
    except BlockingIOError:  # no lack of anything
        raise StartError(f"somebody has a lease on the log {path} on {socket.gethostname()}: remove it") from None
    found = os.fstat(log)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1:
        return log
    os.close(log)
    where = f"where the log {path} should be on {socket.gethostname()}"
    raise StartError(f"{where}, there is no file of the task's owner (but of uid {found.st_uid}): remove it")


def _check_not_planted(path: str) -> None:
    """Raise StartError for what another account has laid there, in a folder where all may write: he would read the log
    in his file, or have us write into what his link leads to. Whose it is stays so: there nobody moves what is
    another's (the kernel forbids the same, where `fs.protected_regular` and `fs.protected_symlinks` are set)."""
    folder = os.stat(os.path.dirname(path) or ".")
    if not (folder.st_mode & stat.S_ISVTX and folder.st_mode & _OTHERS_WRITE):
        return
    found = os.lstat(path)
    if found.st_uid not in (0, os.geteuid(), folder.st_uid):
        raise StartError(
            f"where the log {path} should be, uid {found.st_uid} has laid something of his on {socket.gethostname()}: "
            "remove it"
        )
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        raise StartError(f"the log {path} is a file by another name, too, on {socket.gethostname()}: remove it")


def _is_owners_link(path: str) -> bool:
    """Is it what an earlier attempt left that ran as the task's owner, and leads to a folder that is not ours?"""
    folder, name = os.path.split(os.readlink(path)) if os.path.islink(path) else ("", "")
    return bool(folder) and "/" not in folder and name == os.path.basename(path)


def _cannot(path: str, error: OSError, roots: List[str], instead_of: str = "") -> StartError:
    text = f"the log {path} cannot be opened on {socket.gethostname()}: {error.strerror}"
    return StartError(text, blame.of_log(error, path, roots, instead_of))


def take(log: int) -> None:
    """Make it stdout and stderr of this process."""
    os.dup2(log, 1)
    os.dup2(log, 2)


def _begun(log: int, said: str) -> int:
    if said:
        os.write(log, said.encode("utf-8", "surrogateescape"))
    return log


def _move_aside(path: str, folder: Optional[int] = None) -> str:
    """Give a log of an earlier life another name; the line that tells so, empty where there was none. `folder`: its
    own, where that is open."""
    name = path if folder is None else os.path.basename(path)
    try:
        info = os.lstat(name, dir_fd=folder)
        if stat.S_ISREG(info.st_mode) and info.st_size == 0:
            return ""
    except FileNotFoundError:
        return ""
    free = free_name(name, folder)
    try:
        os.rename(name, free, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        return f"muster: what stands above is of an earlier task; it could not be moved aside: {error.strerror}\n"
    return f"muster: a log of an earlier task lay here; it is {path}{free[len(name) :]} now\n"
