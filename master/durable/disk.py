"""The file operations that durability rests on, and nothing about what is stored.

Owns the calls whose order and failure decide what a power cut leaves behind, as one small interface: `OsDisk` is the
machine's, and the tests have one in memory that forgets what was not synced. It refuses to retry, to buffer and to
know about queues; plain OSErrors pass through, except where a failure has a meaning of its own (the lock, fsync).
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Protocol, TypeAlias

from master.edited_files.ownership import open_folder
from wire.errors import LockedError, MusterError
from wire.message import Message

log = logging.getLogger("muster.store")

LOCKS = Path("/proc/locks")
BOOT = Path("/proc/sys/kernel/random/boot_id")

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
PRIVATE = 0o600
"""The rights of what is made: commands, variables and addresses of everybody stand in it."""


class SyncFailedError(MusterError):
    """The kernel could not write what it had taken. The content of the disk is now unknown: the process has to end.

    Never retried: after a failed fsync Linux marks the pages clean, and a second one would answer that all is well.
    """

    code: ClassVar[str] = "sync_failed"
    rpc_code: ClassVar[int] = -32012


class Disk(Protocol):
    """The operations of a file system that the store needs. Paths are absolute or relative to the process; sizes are
    bytes."""

    def boot(self) -> str:
        """Names this run of the machine: as long as it is the same, also what was not synced is there. "": unknown."""

    def make_folder(self, path: Path) -> None:
        """Create the folder and its parents, durably; fine if it is there."""

    def lock(self, path: Path) -> tuple[int, ...]:
        """Take the folder that `path` lies in for this process, until the descriptors are closed; `path` tells others
        our pid. From then on the folder can be synced without a new descriptor. Raises LockedError naming the holder.
        """

    def names(self, folder: Path) -> list[str]:
        """Return the names in the folder."""

    def read(self, path: Path) -> bytes:
        """The whole file."""

    def read_own(self, path: Path) -> bytes:
        """The whole of a regular file of ours, or root's, in a folder where others may write. Raises OSError for what
        somebody else put there."""

    def put_own(self, path: Path, data: bytes) -> int:
        """Put `data` in the place of such a file, durably, whole or not at all, through nothing that somebody else put
        there; a descriptor of it, for `write_at`. Raises OSError, SyncFailedError."""

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer only at the end of the file."""

    def read_open(self, fd: int, offset: int, size: int) -> bytes:
        """As `read_at`, of an open file, whatever became of its name."""

    def length_at(self, fd: int, path: Path) -> int | None:
        """The length of the open file if `path` is its name, else None."""

    def is_in_place(self, folder: Path) -> bool:
        """Is the folder that was locked still what this name leads to?"""

    def share_a_disk(self, one: Path, other: Path) -> bool:
        """Do these two folders lie on one file system? False if that cannot be found out."""

    def create(self, path: Path) -> int:
        """A descriptor of a new, empty file; writes go to its end."""

    def draft(self, path: Path) -> int:
        """A descriptor of a new, empty file, whatever had this name before. `write_at` changes parts of it."""

    def extend(self, path: Path) -> int:
        """A descriptor whose writes go to the end of the file, which is made if it is missing."""

    def write_at(self, fd: int, offset: int, data: bytes) -> int:
        """Write once over what a `draft` holds from `offset` on; how many bytes were taken."""

    def write(self, fd: int, data: bytes) -> int:
        """Write once; how many bytes were taken."""

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to `size` bytes."""

    def allocate(self, path: Path, size: int) -> None:
        """Make the file, new or old, occupy at least `size` bytes of the disk."""

    def size(self, path: Path) -> int:
        """The file's length."""

    def sync(self, fd: int) -> None:
        """Return when the file's content is on the disk. Raises SyncFailedError."""

    def sync_folder(self, folder: Path) -> None:
        """Return when the folder's names are on the disk. Raises SyncFailedError."""

    def rename(self, source: Path, target: Path) -> None:
        """Rename, taking the place of what `target` named."""

    def remove(self, path: Path) -> None:
        """Remove the file; fine if it is gone."""

    def close(self, fd: int) -> None:
        """Close the descriptor."""

    def free_bytes(self, folder: Path) -> int:
        """How much an ordinary process may still write there."""


Identity: TypeAlias = tuple[int, int]
"""Which file it is, whatever its name: its device and its number there."""


class OsDisk:
    """The machine's own file system. A folder that was locked stays open: syncing it must not fail for want of a
    descriptor, since what was renamed in it has already taken effect."""

    def __init__(self) -> None:
        self._folders: dict[str, int] = {}
        self._identities: dict[int, Identity] = {}
        """The identity of the file behind a descriptor, once somebody asked: it stays the same while the descriptor is
        open."""

    def boot(self) -> str:
        """Ask the kernel."""
        with suppress(OSError):
            return BOOT.read_text(encoding="ascii").strip()
        return ""

    def make_folder(self, path: Path) -> None:
        """Create missing folders from the top, syncing each one's parent; the last is for our eyes only."""
        if path.is_dir():
            return
        for folder in reversed([above for above in path.parents if not above.exists()]):
            folder.mkdir(exist_ok=True)
            self.sync_folder(folder.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        self.sync_folder(path.parent)

    def lock(self, path: Path) -> tuple[int, ...]:
        """Hold flock on the folder itself, which nobody removes by mistake, and on the file, where our pid stands and
        which is all that an earlier master locks. Where a folder cannot be locked (NFS), the file has to do.
        """
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        file = -1
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            _flock(folder, path)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(file, 0)
            os.pwrite(file, b"%d\n" % os.getpid(), 0)
        except BaseException as error:
            held = _held(path.parent, folder, file) if isinstance(error, BlockingIOError) else None
            for fd in (folder, file):
                if fd >= 0:
                    os.close(fd)
            if held is not None:
                raise LockedError(held) from None
            raise
        self._folders[str(path.parent)] = folder
        return folder, file

    def names(self, folder: Path) -> list[str]:
        """List the folder, in no order."""
        return [path.name for path in folder.iterdir()]

    def read(self, path: Path) -> bytes:
        """Read it all."""
        return path.read_bytes()

    def read_own(self, path: Path) -> bytes:
        """Read it all, through no link."""
        folder = open_folder(path.parent)
        try:
            fd = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or found.st_uid not in (0, os.geteuid()):
                raise PermissionError(errno.EPERM, "it is somebody else's, or no regular file", str(path))
            return file.read()

    def put_own(self, path: Path, data: bytes) -> int:
        """By a draft beside it that was not there."""
        draft = f"{path.name}.tmp"
        folder = open_folder(path.parent)
        try:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)  # of one who ended before it was in place
            fd = os.open(draft, _NEW, PRIVATE, dir_fd=folder)
            try:
                write_all(self, fd, data)
                self.sync(fd)
                os.rename(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
                self.sync_folder(Path(f"/proc/self/fd/{folder}"))
            except BaseException:
                os.close(fd)
                raise
            return fd
        finally:
            os.close(folder)

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        """Read a range."""
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def read_open(self, fd: int, offset: int, size: int) -> bytes:
        """Read a range."""
        return os.pread(fd, size, offset)

    def length_at(self, fd: int, path: Path) -> int | None:
        """Compare what stat says of both."""
        try:
            found = os.stat(str(path))  # noqa: PTH116  (asked at every commit, and a Path is taken slower)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if (found.st_dev, found.st_ino) != (self._identities.get(fd) or self._identity_of(fd)):
            return None
        return found.st_size

    def is_in_place(self, folder: Path) -> bool:
        """Compare what stat says of both."""
        found = _stat(folder)
        return found is not None and _identity(found) == self._identity_of(self._folders[str(folder)])

    def share_a_disk(self, one: Path, other: Path) -> bool:
        """Compare the devices that stat names."""
        first, second = _stat(one), _stat(other)
        return first is not None and second is not None and first.st_dev == second.st_dev

    def _identity_of(self, fd: int) -> Identity:
        identity = self._identities.get(fd)
        if identity is None:
            identity = self._identities[fd] = _identity(os.fstat(fd))
        return identity

    def create(self, path: Path) -> int:
        """Open truncated, for appending."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, PRIVATE)

    def draft(self, path: Path) -> int:
        """Make it, through no link. A file of that name was left by a start that was killed, or laid there."""
        try:
            return _new_file(path)
        except FileExistsError:
            path.unlink()
            return _new_file(path)

    def extend(self, path: Path) -> int:
        """Open for appending."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, PRIVATE)

    def write(self, fd: int, data: bytes) -> int:
        """One write call."""
        return os.write(fd, data)

    def write_at(self, fd: int, offset: int, data: bytes) -> int:
        """One pwrite call."""
        return os.pwrite(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        """Cut."""
        os.ftruncate(fd, size)

    def allocate(self, path: Path, size: int) -> None:
        """Reserve real blocks (not through an O_APPEND descriptor: glibc's fallback refuses those)."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            os.posix_fallocate(fd, 0, size)
        finally:
            os.close(fd)

    def size(self, path: Path) -> int:
        """Ask stat."""
        return path.stat().st_size

    def sync(self, fd: int) -> None:
        """Call fdatasync: it covers the size, and no other metadata matters to us."""
        try:
            os.fdatasync(fd)
        except OSError as error:
            raise SyncFailedError(Message("sync_failed", detail=str(error))) from error

    def sync_folder(self, folder: Path) -> None:
        """Call fsync on the folder."""
        held = self._folders.get(str(folder))
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if held is None else held
        try:
            os.fsync(fd)
        except OSError as error:
            raise SyncFailedError(Message("folder_sync_failed", folder=str(folder), detail=str(error))) from error
        finally:
            if held is None:
                os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        """Rename."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Unlink."""
        path.unlink(missing_ok=True)

    def close(self, fd: int) -> None:
        """Close."""
        self._folders = {folder: held for folder, held in self._folders.items() if held != fd}
        self._identities.pop(fd, None)
        os.close(fd)

    def free_bytes(self, folder: Path) -> int:
        """Return the bytes that statvfs says are left for an ordinary process."""
        usage = os.statvfs(folder)
        return usage.f_bavail * usage.f_frsize


def _new_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)


def _stat(path: Path) -> os.stat_result | None:
    """None: nothing is there."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _flock(folder: int, path: Path) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        log.warning("%s cannot be locked (%s); only %s keeps a second master away", path.parent, error.strerror, path)


def _held(path: Path, folder: int, file: int) -> Message:
    if pid := _holder(folder, file):
        return Message("folder_held", folder=str(path), pid=pid)
    return Message("folder_held_by_unknown", folder=str(path))


def _holder(folder: int, file: int) -> str:
    """Return the id of the process that has one of the locks: by the kernel's list, for the file that names its owner
    may have been removed. "" if neither tells."""
    inodes = {str(os.fstat(fd).st_ino) for fd in (folder, file) if fd >= 0}
    with suppress(OSError):
        for line in LOCKS.read_text(encoding="ascii").splitlines():
            # number, kind, mode, access, pid, major:minor:inode, first and last byte; one that waits has an arrow
            words = line.split()
            if words[1] == "FLOCK" and words[5].rpartition(":")[2] in inodes and words[4] != "0":
                return words[4]
    return os.pread(file, 32, 0).decode("ascii", "replace").strip()


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Write `data` whole: the kernel takes less than it was given when the disk is nearly full."""
    done = disk.write(fd, data)
    while done < len(data):
        done += disk.write(fd, data[done:])


def publish(disk: Disk, path: Path, data: bytes) -> None:
    """Put `data` in the place of `path`, whole or not at all; the name is durable after `sync_folder`."""
    disk.close(publish_open(disk, path, data))


def publish_open(disk: Disk, path: Path, data: bytes) -> int:
    """Do the same; a descriptor of the file, for `write_at`. Opened by its name it might be another one by then."""
    draft = path.with_name(path.name + ".tmp")
    fd = disk.draft(draft)
    try:
        write_all(disk, fd, data)
        disk.sync(fd)
        disk.rename(draft, path)
    except BaseException:
        disk.close(fd)
        raise
    return fd
