"""Whole folders through descriptors: copy and delete, without following a link and without a path that could change.

Both go through a folder entry by entry and call `tick` at each step, so that who waits sees that it goes on. Owns no
decision about what may be touched.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

import msgspec

from master.files.errors import about, shown
from master.files.owners import Sight
from master.files.walk import Found
from wire.errors import BadRequestError, LimitError, NotFoundError
from wire.message import Message
from wire.names import to_text

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
PIECE = 4 << 20
MAX_DEPTH = 200
"""Folders in folders; each level holds two descriptors while it is worked on."""
MAX_ENTRIES = 1_000_000
MAX_SKIPPED = 100
_NOT_SO = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}

Tick = Callable[[], None]


class Tally(msgspec.Struct):
    """The result of a copy: numbers, bytes, and the first of the entries that are neither file, folder nor link."""

    files: int = 0
    folders: int = 0
    links: int = 0
    bytes: int = 0
    skipped: list[str] = []


def open_regular(folder: int, name: bytes, flags: int, path: str) -> int:
    """Open a regular file, and nothing that only looks like one. Raises OSError, BadRequestError."""
    check_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
    # A FIFO that took its place meanwhile must not block us, nor may a link lead elsewhere.
    fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=folder)
    try:
        check_regular(os.fstat(fd), path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def sync_folder(folder: int) -> None:
    """Make the names in an open folder durable, where the file system can."""
    try:
        fd = os.open(b".", FOLDER, dir_fd=folder)
    except PermissionError:
        return  # a folder that may be written and not read: the kernel gives no way
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(fd)


class TreeCopy:
    """One copy of a file, a link or a folder with all in it. `path` is for messages. The caller removes partial
    results. `synced`: each file is on the disk before the next one begins. `sight`: of a caller who may not see all of
    it; hidden files are left out, as in lists."""

    def __init__(self, path: str, tick: Tick, *, synced: bool = False, sight: Sight | None = None) -> None:
        self.tally = Tally()
        self._path = path
        self._tick = tick
        self._synced = synced
        self._sight = sight
        self._own: tuple[int, int] | None = None

    def copy(self, old: Found, new: Found) -> Tally:
        """Copy `old` to `new`, which must not exist. Raises OSError, LimitError, BadRequestError."""
        if not self._entry(old, new, self._path, 0):
            raise BadRequestError(Message("neither_file_nor_folder", path=shown(self._path)))
        return self.tally

    def _entry(self, old: Found, new: Found, path: str, depth: int) -> bool:
        self._tick()
        if self.tally.files + self.tally.folders + self.tally.links >= MAX_ENTRIES:
            raise LimitError(Message("copy_in_parts", path=shown(self._path), most=MAX_ENTRIES))
        with about(path):
            info = os.stat(old.name, dir_fd=old.folder, follow_symlinks=False)
        if (info.st_dev, info.st_ino) == self._own:
            return True
        if self._sight is not None and not self._sight.has(old.place):
            return True
        if stat.S_ISLNK(info.st_mode):
            with about(path):
                target = os.readlink(old.name, dir_fd=old.folder)
            os.symlink(target, new.name, dir_fd=new.folder)
            self.tally.links += 1
        elif stat.S_ISREG(info.st_mode):
            self._file(old, new, path)
        elif stat.S_ISDIR(info.st_mode):
            self._folder(old, new, path, depth)
        else:
            return False
        return True

    def _folder(self, old: Found, new: Found, path: str, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise LimitError(Message("copy_too_deep", path=shown(path[:200]), most=MAX_DEPTH))
        with about(path):
            inside = os.open(old.name, FOLDER, dir_fd=old.folder)
        try:
            info = os.fstat(inside)
            os.mkdir(new.name, 0o700, dir_fd=new.folder)
            made = os.open(new.name, FOLDER, dir_fd=new.folder)
            try:
                # A folder copied into itself (through a link: the paths did not show it) would never end.
                own = os.fstat(made)
                self._own = self._own or (own.st_dev, own.st_ino)
                self.tally.folders += 1
                self._inside(old, inside, made, path, depth)
                os.fchmod(made, stat.S_IMODE(info.st_mode))
                os.utime(made, ns=(info.st_atime_ns, info.st_mtime_ns))
                if self._synced:
                    sync_folder(made)
            finally:
                os.close(made)
        finally:
            os.close(inside)

    def _inside(self, old: Found, inside: int, made: int, path: str, depth: int) -> None:
        with os.scandir(inside) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                path_there = f"{path}/{to_text(name)}"
                # A file that a running task deletes meanwhile cannot be copied. Errors of other files name their path.
                with suppress(NotFoundError):
                    if not self._entry(old.inside(inside, name), Found(made, name), path_there, depth + 1):
                        self.tally.skipped = [*self.tally.skipped, path_there][:MAX_SKIPPED]

    def _file(self, old: Found, new: Found, path: str) -> None:
        with about(path):
            source = open_regular(old.folder, old.name, os.O_RDONLY, path)
        try:
            info = os.fstat(source)
            target = os.open(new.name, NEW, 0o600, dir_fd=new.folder)
            try:
                self.tally.bytes += _pour(source, target, self._tick)
                os.fchmod(target, stat.S_IMODE(info.st_mode) & 0o777)
                os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))
                if self._synced:
                    os.fsync(target)
            finally:
                os.close(target)
        finally:
            os.close(source)
        self.tally.files += 1


def delete(folder: int, name: bytes, path: str, tick: Tick, *, depth: int = 0) -> int:
    """Delete `name` in `folder` with all in it; how many entries went. Links go, not what they lead to. Raises
    MusterErrors that name the entry."""
    tick()
    with about(path):
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISDIR(info.st_mode):
            os.unlink(name, dir_fd=folder)
            return 1
        if depth >= MAX_DEPTH:
            raise LimitError(Message("delete_too_deep", path=shown(path[:200]), most=MAX_DEPTH))
        inside = os.open(name, FOLDER, dir_fd=folder)
        gone = 0
        try:
            # By the batch: some file systems lose their place in a folder that changes while it is read.
            while names := _first(inside):
                for inner in names:
                    gone += _delete_inner(inside, inner, path, tick, depth)
        finally:
            os.close(inside)
        os.rmdir(name, dir_fd=folder)
    return gone + 1


def _delete_inner(inside: int, name: bytes, path: str, tick: Tick, depth: int) -> int:
    with suppress(NotFoundError):  # somebody was faster
        return delete(inside, name, f"{path}/{to_text(name)}", tick, depth=depth + 1)
    return 0


def is_empty(folder: int, name: bytes) -> bool:
    """Whether nothing lies in the folder `name` in `folder`. Raises OSError."""
    inside = os.open(name, FOLDER, dir_fd=folder)
    try:
        return not _first(inside, 1)
    finally:
        os.close(inside)


def _first(folder: int, count: int = 1000) -> list[bytes]:
    with os.scandir(folder) as entries:
        return [os.fsencode(entry.name) for entry, _ in zip(entries, range(count), strict=False)]


def _pour(old: int, new: int, tick: Tick) -> int:
    """Copy the content, as long as it is now, and leave holes holes; the number of bytes."""
    size, at = os.fstat(old).st_size, 0
    while at < size:
        at, end = _filled(old, at, size)
        while at < end and (count := _piece(old, new, at, min(PIECE, end - at))):
            at += count
            tick()
        if at < end:
            break
    size = min(size, os.fstat(old).st_size)  # it may have become shorter meanwhile
    os.ftruncate(new, size)
    return size


def _filled(fd: int, at: int, size: int) -> tuple[int, int]:
    """Where the next content begins, and where it ends; all of it, where the file system knows nothing of holes."""
    try:
        begin = os.lseek(fd, at, os.SEEK_DATA)
        return begin, min(os.lseek(fd, begin, os.SEEK_HOLE), size)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size, size  # only a hole is left
        if error.errno not in _NOT_SO:
            raise
        return at, size


def _piece(old: int, new: int, at: int, count: int) -> int:
    """Copy at most `count` bytes at `at`, by the kernel where it can; how many."""
    try:
        done = os.copy_file_range(old, new, count, at, at)
    except OSError as error:
        if error.errno not in _NOT_SO:
            raise
        done = 0
    if done:
        return done
    # Some file systems of the kernel (FUSE) answer nothing here and have content all the same.
    data = os.pread(old, count, at)
    write_at(new, data, at)
    return len(data)


def write_at(fd: int, data: bytes, offset: int = 0) -> None:
    """Write all of it. Raises OSError."""
    rest = memoryview(data)
    while rest:
        count = os.pwrite(fd, rest, offset)
        rest, offset = rest[count:], offset + count


def check_regular(info: os.stat_result, path: str) -> None:
    """Refuse what is not a regular file. Raises BadRequestError."""
    if stat.S_ISDIR(info.st_mode):
        raise BadRequestError(Message("is_folder", path=shown(path)))
    if not stat.S_ISREG(info.st_mode):
        raise BadRequestError(Message("no_regular_file", path=shown(path)))
