"""Where the log of a task that runs as its owner lies: in the owner's own folder beneath the lab's, `USER/ID.log`; a
link `ID.log` beside those of everybody leads to it.

Root makes the folder and the link, in `prepare`; the log is made by who has become the owner. Users who may write in
those folders may plant links there: root follows none of them. Where root is nobody, as over NFS, the owner makes the
folder, if all may make some there; where there is none, the log lies where all logs lay before.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import List, NamedTuple, Optional, Tuple

from wire.account import Account

MOST_LINKS = 40
MODE = 0o2750
"""The mode of a user's folder: the user writes, the group of the lab's log folder reads, and the logs get that group,
too."""
LOOK = getattr(os, "O_PATH", 0o10000000) | os.O_CLOEXEC  # PyPy does not name it
"""Looks at what lies there, and opens nothing."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeError(Exception):
    """Somebody has put something in the way; the message says what, and what to do."""


class Place(NamedTuple):
    """`top`: the lab's log folder, open; None: it is not for us. `said`: what the log should begin with."""

    top: Optional[int]
    said: str = ""


def prepare(path: str, owner: Account) -> Place:
    """As root: have a folder of the owner's, and the link at `path`, the log that lies in the lab's log folder."""
    folder, name = os.path.split(path)
    try:
        os.stat(f"{folder}/.")  # what is mounted at its first use is there from now on
        top = open_folder(folder)
    except UnsafeError as error:
        return Place(None, _instead(owner, error))
    except OSError:
        return Place(None)  # whoever opens the log will tell
    try:
        _make_own(top, owner)
    except UnsafeError as error:
        return Place(None, _instead(owner, error))
    except OSError:
        return Place(top)  # root is nobody there; the owner may have a folder all the same
    return Place(top, _lead(top, folder, name, f"{owner.name}/{name}"))


def _instead(owner: Account, error: UnsafeError) -> str:
    return f"muster: this log does not lie in the folder of {owner.name}: {error}\n"


def make_as_owner(top: int, owner: Account) -> None:
    """As the owner: make the owner's folder, if it is missing and everybody may make one."""
    mask = os.umask(~MODE & 0o777)
    try:
        with suppress(OSError):
            os.mkdir(owner.name, dir_fd=top)  # its group is that of the folder above, if that hands it down
    finally:
        os.umask(mask)


def open_own(top: int, owner: Account) -> Optional[int]:
    """As the owner: the owner's folder, open; None where there is none."""
    try:
        own = os.open(owner.name, _FOLDER, dir_fd=top)
    except OSError:
        return None
    if os.fstat(own).st_uid == owner.uid:
        return own
    os.close(own)
    return None


def _make_own(top: int, owner: Account) -> None:
    """Raises OSError where root may not give files away, UnsafeError where something else stands there."""
    is_new = True
    try:
        os.mkdir(owner.name, 0o700, dir_fd=top)
    except FileExistsError:
        is_new = False
    try:
        own = os.open(owner.name, _FOLDER, dir_fd=top)
    except OSError as error:
        if is_new or isinstance(error, PermissionError):
            raise
        raise UnsafeError(f"{owner.name} in the log folder is no folder ({error.strerror}): remove it") from None
    try:
        found = os.fstat(own)
        # One that is root's and empty was made a moment ago, by us or by another launch of the same owner's.
        if found.st_uid == 0 and not os.listdir(own):
            os.fchown(own, owner.uid, os.fstat(top).st_gid)
            os.fchmod(own, MODE)
        elif found.st_uid != owner.uid and is_new:
            raise PermissionError(1, "root is somebody else there")
        elif found.st_uid != owner.uid:
            raise UnsafeError(f"{owner.name} in the log folder belongs to uid {found.st_uid}: remove it")
    except OSError:
        if is_new:
            with suppress(OSError):
                os.rmdir(owner.name, dir_fd=top)
        raise
    finally:
        os.close(own)


def _lead(top: int, folder: str, name: str, target: str) -> str:
    """Make the link; what is said of a log that had to make room for it. Where none can be made there is none: the
    master is told where the log is."""
    said = ""
    with suppress(OSError):
        said = _make_room(top, folder, name, target)
        os.symlink(target, name, dir_fd=top)
    return said


def _make_room(top: int, folder: str, name: str, target: str) -> str:
    """Raises OSError, FileExistsError where the link is there already."""
    try:
        found = os.stat(name, dir_fd=top, follow_symlinks=False)
    except FileNotFoundError:
        return ""
    if stat.S_ISLNK(found.st_mode):
        if os.readlink(name, dir_fd=top) == target:
            raise FileExistsError
        os.unlink(name, dir_fd=top)
        return ""
    if stat.S_ISREG(found.st_mode) and found.st_size == 0:
        os.unlink(name, dir_fd=top)
        return ""
    moved = free_name(name, top)
    os.rename(name, moved, src_dir_fd=top, dst_dir_fd=top)
    return f"muster: an earlier log lay in {folder}; it is {folder}/{moved} now\n"


def free_name(name: str, folder: Optional[int] = None) -> str:
    """Return a free name for a log that is moved aside: NAME.earlier, NAME.earlier2 …"""
    number, free = 1, name + ".earlier"
    while _is_there(free, folder):
        number += 1
        free = f"{name}.earlier{number}"
    return free


def _is_there(name: str, folder: Optional[int]) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def open_folder(path: str, *, make: bool = False) -> int:
    """The folder at an absolute path, by O_PATH. Links on the way count if they are root's, or of who owns the folder
    that is found in the end. `make`: make what is missing, where only links of root's led. Raises OSError,
    UnsafeError."""
    here = os.open("/", LOOK | os.O_DIRECTORY)
    try:
        here, owners = _walk(path, here, make=make)
        _check(path, os.fstat(here), owners)
    except BaseException:
        os.close(here)
        raise
    return here


_CURE = "let the links on the way to the log folder be root's, or its owner's"


def _walk(path: str, here: int, *, make: bool) -> Tuple[int, List[int]]:
    """Return what lies at the path, and the owners of the links on the way. `here`: the root folder, open; its
    descriptor is that of what was found in the end."""
    steps = [step for step in reversed(path.split("/")) if step]
    owners: List[int] = []
    while steps:
        step = steps.pop()
        try:
            found = os.open(step, LOOK | os.O_NOFOLLOW, dir_fd=here)
        except FileNotFoundError:
            if not make:
                raise
            _check_links(path, owners, 0)  # what we make is root's
            with suppress(FileExistsError):
                os.mkdir(step, dir_fd=here)
            found = os.open(step, LOOK | os.O_NOFOLLOW, dir_fd=here)
        info = os.fstat(found)
        if stat.S_ISLNK(info.st_mode):
            owners.append(info.st_uid)
            target = os.readlink("", dir_fd=found)
            steps += [step for step in reversed(target.split("/")) if step]
            os.close(found)
            found = os.open("/", LOOK | os.O_DIRECTORY) if target.startswith("/") else os.dup(here)
        os.dup2(found, here, inheritable=False)
        os.close(found)
        if len(owners) > MOST_LINKS:
            raise UnsafeError(f"too many links on the way to {path}")
    return here, owners


def _check(path: str, found: os.stat_result, owners: List[int]) -> None:
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeError(f"{path}: it is no folder; {_CURE}")
    _check_links(path, owners, found.st_uid)


def _check_links(path: str, owners: List[int], uid: int) -> None:
    """Raises UnsafeError where a link is neither root's nor of `uid`."""
    strangers = [one for one in owners if one not in (0, uid)]
    if strangers:
        raise UnsafeError(f"{path}: a link of uid {strangers[0]} leads there; {_CURE}")
