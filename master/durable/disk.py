"""The file operations that durability rests on, and nothing about what is stored.

Owns the calls whose order and failure decide what a power cut leaves behind, as one small interface: `OsDisk` is the
machine's, and the tests have one in memory that forgets what was not synced. It refuses to retry, to buffer and to
know about queues; plain OSErrors pass through, except where a failure has a meaning of its own (the lock, fsync).
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, ClassVar, Protocol

from wire.errors import LockedError, MusterError

if TYPE_CHECKING:
    from pathlib import Path


class SyncFailedError(MusterError):
    """The kernel could not write what it had taken. What is on the disk is now unknown: the process has to end.

    Never retried: after a failed fsync Linux marks the pages clean, and a second one would answer that all is well.
    """

    code: ClassVar[str] = "sync_failed"
    rpc_code: ClassVar[int] = -32012


class Disk(Protocol):
    """What the store asks of a file system. Paths are absolute or relative to the process; sizes are bytes."""

    def make_folder(self, path: Path) -> None:
        """Create the folder and its parents, durably; fine if it is there."""

    def lock(self, path: Path) -> int:
        """Take the lock for this process until the descriptor is closed. Raises LockedError naming the holder."""

    def names(self, folder: Path) -> list[str]:
        """What the folder holds."""

    def read(self, path: Path) -> bytes:
        """The whole file."""

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer only at the end of the file."""

    def create(self, path: Path) -> int:
        """A descriptor of a new, empty file; writes go to its end."""

    def extend(self, path: Path) -> int:
        """A descriptor whose writes go to the end of the file, which is made if it is missing."""

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


class OsDisk:
    """The machine's own file system."""

    def make_folder(self, path: Path) -> None:
        """Create missing folders from the top, syncing each one's parent."""
        if path.is_dir():
            return
        if path.parent != path:
            self.make_folder(path.parent)
        path.mkdir(exist_ok=True)
        self.sync_folder(path.parent)

    def lock(self, path: Path) -> int:
        """Hold flock on the file and write our pid into it, for the message that the second process shows."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise LockedError(
                f"another master (pid {holder}) works on {path.parent}: stop it, or use another task_info"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        return fd

    def names(self, folder: Path) -> list[str]:
        """List the folder, in no order."""
        return [path.name for path in folder.iterdir()]

    def read(self, path: Path) -> bytes:
        """Read it all."""
        return path.read_bytes()

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        """Read a range."""
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def create(self, path: Path) -> int:
        """Open truncated, for appending."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def extend(self, path: Path) -> int:
        """Open for appending."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, fd: int, data: bytes) -> int:
        """One write call."""
        return os.write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        """Cut."""
        os.ftruncate(fd, size)

    def allocate(self, path: Path, size: int) -> None:
        """Reserve real blocks (not through an O_APPEND descriptor: glibc's fallback refuses those)."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
            raise SyncFailedError(f"fdatasync failed: {error}") from error

    def sync_folder(self, folder: Path) -> None:
        """Call fsync on the folder."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            raise SyncFailedError(f"fsync of the folder {folder} failed: {error}") from error
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        """Rename."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Unlink."""
        path.unlink(missing_ok=True)

    def close(self, fd: int) -> None:
        """Close."""
        os.close(fd)

    def free_bytes(self, folder: Path) -> int:
        """What statvfs says is left for an ordinary process."""
        usage = os.statvfs(folder)
        return usage.f_bavail * usage.f_frsize


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Write `data` whole: the kernel takes less than it was given when the disk is nearly full."""
    done = disk.write(fd, data)
    while done < len(data):
        done += disk.write(fd, data[done:])


def publish(disk: Disk, path: Path, data: bytes) -> None:
    """Put `data` in the place of `path`, whole or not at all; the name is durable after `sync_folder`."""
    draft = path.with_name(path.name + ".tmp")
    fd = disk.create(draft)
    try:
        write_all(disk, fd, data)
        disk.sync(fd)
    finally:
        disk.close(fd)
    disk.rename(draft, path)
