"""Replaces a file that people edit: one writer at a time, whole or not at all, without losing anybody's edits, and with
the mode and the owner that it had. The callers know what the file holds."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wire.errors import ConflictError, StorageError
from wire.file_fault import fault
from wire.message import Message

LOCK_S = 10.0
"""How long another program may hold the file."""

_LOOK_S = 0.02
Change = Callable[[bytes], bytes]
"""Returns the new content of a file, given the old."""


def rewrite(path: Path, change: Change, *, cure: Message, keep: Callable[[bytes], None]) -> None:
    """Change a whole file; `keep` is given what stood there before. Raises what `change` raises, StorageError, and as
    `alone` and `replace` do."""
    path = Path(os.path.realpath(path))
    try:
        with alone(path, cure):
            before = path.read_bytes()
            after = change(before)
            if after != before:
                keep(before)
                replace(path, before, after)
    except OSError as error:
        raise StorageError(Message("registry_not_written", path=str(path), said=error.strerror)) from None


@contextmanager
def alone(path: Path, cure: Message) -> Iterator[None]:
    """The lock of the file itself: none is left behind, and it works where the folder is on NFS. Raises ConfigError
    where there is no such file, with `cure`, and ConflictError where another program keeps it locked."""
    deadline = time.monotonic() + LOCK_S
    while True:
        fd = _open(path, cure)
        try:
            if _try_lock(fd) and _is_still(path, fd):
                yield
                return
        finally:
            os.close(fd)
        if time.monotonic() > deadline:
            raise ConflictError(Message("registry_locked", path=str(path)))
        time.sleep(_LOOK_S)


def _open(path: Path, cure: Message) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise fault(path, Message("file_missing", cure=cure)) from None
    except OSError:
        # A file that nobody may write into can be replaced all the same, where its folder takes new files.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(path: Path, fd: int) -> bool:
    """Whether who had the lock before us replaced the file: then ours is the lock of a file that is gone."""
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(fd))
    return False


def replace(path: Path, before: bytes, after: bytes) -> None:
    """Put `after` in the place of `before`, whole or not at all, with its mode and owner. Raises ConflictError if the
    file has changed since, StorageError if the file would become ours, OSError."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    try:
        _write(beside, path, after)
        if path.read_bytes() != before:
            raise ConflictError(Message("registry_changed", path=str(path)))
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _write(draft: Path, path: Path, data: bytes) -> None:
    like = path.stat()
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        _give_away(fd, like, path)
        os.fchmod(fd, stat.S_IMODE(like.st_mode))
        file.write(data)
        file.flush()
        os.fsync(fd)


def _give_away(fd: int, like: os.stat_result, path: Path) -> None:
    own = os.fstat(fd)
    if (own.st_uid, own.st_gid) == (like.st_uid, like.st_gid):
        return
    try:
        os.fchown(fd, like.st_uid, like.st_gid)
    except PermissionError:
        raise StorageError(Message("registry_not_ours", path=str(path), user=like.st_uid, group=like.st_gid)) from None


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
