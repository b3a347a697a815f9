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
from .log_place import LOOK, MOST_LINKS, UnsafeError, free_name, open_folder
from .log_place import MODE as FOLDER

MODE = 0o640
"""Its group is the folder's, where the master has set that up."""
_OF_ALL = (errno.ENOSPC, errno.EROFS, errno.EIO)
"""Faults of a disk that concern everybody; a quota or a missing permission concerns its owner only."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NOCTTY
_KEEPS_NOTHING = frozenset(os.makedev(1, minor) for minor in (3, 5, 7))
"""/dev/null, /dev/zero, /dev/full: whoever has them, nobody reads there what was written. In a container that knows
root by no number they belong to nobody."""


def open_log(
    path: str, roots: List[str], *, new: bool = False, said: str = "", own: bool = False, instead_of: str = ""
) -> int:
    """The log, open. `new`: nothing of this task can lie there yet; the launch was claimed, so this happens once.
    `said`: what else stands in it first. `own`: only a file of this account, and through no link: another account has
    the folder, and can lay there what it wants. `instead_of`: see `blame.of_log`. Raises StartError."""
    blame.check_root(path, roots)
    try:
        folder = _folder(path, roots, instead_of)
        try:
            said += _move_aside(path, folder) if new else ""
            log = _opened_own(path, os.geteuid(), folder=folder) if own else _opened(path, folder)
        finally:
            if folder is not None:
                os.close(folder)
    except UnsafeError as error:
        raise StartError(f"the log {path} cannot be opened on {socket.gethostname()}: {error}") from None
    except OSError as error:
        raise _cannot(path, error, roots, instead_of) from None
    if new or _is_made(log):
        with suppress(OSError):  # a file system without rights
            os.fchmod(log, MODE)  # whatever the umask, which is meant for what the task makes
    return _begun(log, said)


def _folder(path: str, roots: List[str], instead_of: str) -> Optional[int]:
    """Make the log's folder where it is missing. As root it is given open, and all else is done in it: who may change
    names above it must lead root nowhere. None where we are another account, which the kernel keeps to its own."""
    above = os.path.dirname(path) or "."
    if os.geteuid() != 0:
        _make(above)
        if os.path.dirname(above) in roots:
            _check_whose(path, above, blame.TASK if instead_of else blame.NODE)
        return None
    with suppress(OSError):
        os.stat(f"{above}/.")  # what is mounted at its first use is there from now on
    return open_folder(above, make=True)


def _is_made(log: int) -> bool:
    found = os.fstat(log)
    return stat.S_ISREG(found.st_mode) and found.st_size == 0 and found.st_uid == os.geteuid()


def _make(folder: str) -> None:
    """A folder in one that hands its group down: that group may read there, as it may the logs, whatever the umask."""
    above = os.path.dirname(folder)
    if os.path.isdir(folder) or not above:
        return
    os.makedirs(above, exist_ok=True)
    hands_down = os.stat(above).st_mode & stat.S_ISGID
    mask = os.umask(~FOLDER & 0o777) if hands_down else None
    try:
        with suppress(FileExistsError):
            os.mkdir(folder)  # a chmod would take the bit away from a folder of a group that is not ours
    finally:
        if mask is not None:
            os.umask(mask)


def _check_whose(path: str, folder: str, fault: str) -> None:
    """Raises StartError, of this fault, if the log's folder lies in one in which all may lay things, and is another
    account's, which would read the log, or a stranger's link. The owner of the folder above may have made it, and no
    link."""
    above = os.stat(os.path.dirname(folder) or ".")
    if not (above.st_mode & stat.S_ISVTX and above.st_mode & _OTHERS_WRITE):
        return
    found = os.lstat(folder)
    is_owners = found.st_uid == above.st_uid and stat.S_ISDIR(found.st_mode)
    if found.st_uid not in (0, os.geteuid()) and not is_owners:
        what = f"uid {found.st_uid} has laid something of its own on {socket.gethostname()}: remove it"
        raise StartError(f"where the folder of the log {path} should be, {what}", fault)


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


def _opened(path: str, folder: Optional[int], links: int = 0) -> int:
    """`folder`: the log's, open, where we are root. `links`: so many at logs' places led here."""
    if folder is not None and _is_anothers(folder):
        return _opened_in_anothers(path, folder)
    name = path if folder is None else os.path.basename(path)
    with suppress(FileExistsError):
        return os.open(name, _FLAGS | os.O_CREAT | os.O_EXCL, MODE, dir_fd=folder)
    above = os.stat(os.path.dirname(path) or ".") if folder is None else os.fstat(folder)
    may_all_lay = above.st_mode & stat.S_ISVTX and above.st_mode & _OTHERS_WRITE
    try:
        if folder is not None or may_all_lay:
            return _opened_as_found(path, folder, above.st_uid, links, is_safe=not may_all_lay)
        return os.open(path, _FLAGS | os.O_CREAT, MODE)
    except PermissionError:
        if not _is_owners_link(name, folder):
            raise
    os.rename(name, free_name(name, folder), src_dir_fd=folder, dst_dir_fd=folder)
    return os.open(name, _FLAGS | os.O_CREAT | os.O_EXCL, MODE, dir_fd=folder)


def _opened_as_found(path: str, folder: Optional[int], folders: int, links: int, *, is_safe: bool) -> int:
    """Open the file that was looked at, whatever lies there by now. Raises StartError for what another account has laid
    there, in a folder where all may write (not `is_safe`): it would read the log in its file, or have us write into
    what its link leads to. A file that the folder's owner (`folders`) makes there counts, but no link: that owner may
    be an account that everybody's tasks have elsewhere."""
    look = os.open(path if folder is None else os.path.basename(path), LOOK | os.O_NOFOLLOW, dir_fd=folder)
    try:
        found = os.fstat(look)
        is_link = stat.S_ISLNK(found.st_mode)
        if found.st_uid not in (0, os.geteuid()) and (is_link or (found.st_uid != folders and not is_safe)):
            what = f"uid {found.st_uid} has laid something of its own on {socket.gethostname()}: remove it"
            raise StartError(f"where the log {path} should be, {what}")
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1 and not is_safe:
            raise StartError(f"the log {path} is a file by another name, too, on {socket.gethostname()}: remove it")
        if not is_link:
            return os.open(f"/proc/self/fd/{look}", _FLAGS)
        leads = os.path.join(os.path.dirname(path), os.readlink("", dir_fd=look))
    finally:
        os.close(look)
    return os.open(leads, _FLAGS | os.O_CREAT, MODE) if folder is None else _opened_where_led(leads, links + 1)


def _opened_where_led(path: str, links: int) -> int:
    """As root, the log to which a link leads: its folder is another one, with strangers' links above it, perhaps."""
    if links > MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    folder = open_folder(os.path.dirname(path))
    try:
        return _opened(path, folder, links)
    finally:
        os.close(folder)


def _is_anothers(folder: int) -> bool:
    """Do others change whatever they like in the folder, which is open? If so, root follows nothing that lies there."""
    found = os.fstat(folder)
    return found.st_uid != 0 or bool(found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX)


def _opened_in_anothers(path: str, folder: int) -> int:
    """As root, in a folder of another account's, which is open: its own files and ours are gone on with, a third one's
    are moved aside."""
    owners, name = (os.fstat(folder).st_uid, 0), os.path.basename(path)
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode) and found.st_uid not in owners:
            os.rename(name, free_name(name, folder), src_dir_fd=folder, dst_dir_fd=folder)
    return _opened_own(path, *owners, folder=folder)


def _opened_own(path: str, *owners: int, folder: Optional[int] = None) -> int:
    """`folder`: the log's, where that is open."""
    name = path if folder is None else os.path.basename(path)
    with suppress(FileExistsError):
        return os.open(name, _FLAGS | os.O_CREAT | os.O_EXCL, MODE, dir_fd=folder)
    if _is_owners_link(name, folder):
        os.rename(name, free_name(name, folder), src_dir_fd=folder, dst_dir_fd=folder)
        return os.open(name, _FLAGS | os.O_CREAT | os.O_EXCL, MODE, dir_fd=folder)
    try:
        log = os.open(name, _FLAGS | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except BlockingIOError:  # no lack of anything
        raise StartError(f"somebody has a lease on the log {path} on {socket.gethostname()}: remove it") from None
    found = os.fstat(log)
    is_own_file = stat.S_ISREG(found.st_mode) and found.st_uid in owners and found.st_nlink == 1
    if is_own_file or (stat.S_ISCHR(found.st_mode) and found.st_rdev in _KEEPS_NOTHING):
        return log
    os.close(log)
    where = f"where the log {path} should be on {socket.gethostname()}"
    raise StartError(f"{where}, there is no file of the task's owner (but of uid {found.st_uid}): remove it")


def _is_owners_link(path: str, folder: Optional[int] = None) -> bool:
    """Is it what an earlier attempt left that ran as the task's owner, and leads to a folder that is not ours?"""
    try:
        above, name = os.path.split(os.readlink(path, dir_fd=folder))
    except OSError:
        return False  # no link
    return bool(above) and "/" not in above and name == os.path.basename(path)


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
