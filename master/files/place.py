"""Putting something in its place at one instant: drafts beside the target, renames that take nobody's place.

A draft is a hidden entry `.muster-KIND-XXXX` in the target's own folder, so that one rename puts it there. Owns what
drafts are called and how they become the real thing; what is in them is others' business.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from master.files import tree
from master.files.errors import shown
from master.files.tree import NEW, Tick, sync_folder
from wire.errors import ConflictError, MusterError
from wire.message import Message

DRAFT = re.compile(rb"\.muster-(?:write|copy|upload)-[0-9a-f]{16}")
_NOREPLACE = 1
_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP}
_libc = ctypes.CDLL(None, use_errno=True)


def draft_name(kind: str) -> bytes:
    """A name that nobody uses. `kind`: write, copy or upload."""
    return f".muster-{kind}-{secrets.token_hex(8)}".encode()


@contextmanager
def removed_on_failure(folder: int, name: bytes, tick: Tick = lambda: None) -> Iterator[None]:
    """Delete the entry `name`, whatever it is by then, if the body fails."""
    try:
        yield
    except BaseException:
        with suppress(
            OSError, MusterError
        ):  # the body's error is the one to tell; what stays is a draft, found by its name
            tree.delete(folder, name, "", tick)
        raise


def standing(folder: int, name: bytes) -> os.stat_result | None:
    """Return the status of the entry at `name`, of the link itself if it is one; None if there is none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def check_free(old: os.stat_result, folder: int, name: bytes, path: str, *, overwrite: bool) -> None:
    """Refuse at once what the rename would refuse in the end, perhaps after hours of copying: an entry in the place
    that `old` is to take. `path` is for messages. Raises OSError, ConflictError."""
    info = standing(folder, name)
    if info is None:
        return
    if not overwrite:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if not stat.S_ISDIR(info.st_mode):
        if stat.S_ISDIR(old.st_mode):
            raise ConflictError(Message("replaces_no_folder", path=shown(path)))
    elif not stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    elif not tree.is_empty(folder, name):
        raise ConflictError(Message("replaces_not_empty", path=shown(path)))


def replace_content(folder: int, name: bytes, data: bytes, *, overwrite: bool, mode: int | None = None) -> None:
    """Write a file whole or not at all; durable on return. `mode`: of a new one. Raises OSError; EEXIST without
    `overwrite`."""
    draft = draft_name("write")
    with removed_on_failure(folder, draft):
        fd = os.open(draft, NEW, new_mode(mode), dir_fd=folder)
        try:
            tree.write_at(fd, data)
            settle(fd, standing(folder, name))
        finally:
            os.close(fd)
        put(folder, draft, folder, name, overwrite=overwrite)


def settle(fd: int, old: os.stat_result | None) -> None:
    """Give a draft the rights and, where we may, the owner of the file whose place it takes; make it durable."""
    if old is not None and stat.S_ISREG(old.st_mode):
        os.fchmod(fd, stat.S_IMODE(old.st_mode) & 0o777)
        if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(PermissionError):  # only root may give files away; the content is what matters
                os.fchown(fd, old.st_uid, old.st_gid)
    os.fsync(fd)


def new_mode(mode: int | None) -> int:
    """The rights to make a file with; the umask takes its part."""
    return 0o666 if mode is None else 0o600 | mode & 0o777


def put(source: int, name: bytes, target: int, new_name: bytes, *, overwrite: bool) -> None:
    """Rename, durably. Raises OSError: EEXIST without `overwrite` if something is there, EXDEV between file systems."""
    if overwrite:
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
    else:
        _rename_new(source, name, target, new_name)
    sync_folder(target)
    if source != target:
        sync_folder(source)


def _rename_new(source: int, name: bytes, target: int, new_name: bytes) -> None:
    done: int = _libc.renameat2(source, name, target, new_name, ctypes.c_uint(_NOREPLACE))
    if done == 0:
        return
    number = ctypes.get_errno()
    if number not in _CANNOT:
        raise OSError(number, os.strerror(number))
    # NFS and some others cannot refuse in the same instant: then look first, which somebody may be faster than.
    if standing(target, new_name) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
