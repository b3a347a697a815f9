"""A file system in memory that forgets what was not synced, for tests of what a power cut leaves behind.

It keeps, for each file, the content that was synced and the writes since; and for the names, those that were synced
and the changes since. `crash` chooses among the unsynced: all dropped, all kept, or a random part, where a write may
keep any of its 512-byte sectors and any change of a name may be lost while a later one is kept.
"""

from __future__ import annotations

import errno
import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SECTOR = 512
Fate = Literal["dropped", "kept", "torn"]


@dataclass
class Content:
    """A file: what it reads as, what of it is safe, and the steps (offset and data, or a cut) between the two."""

    now: bytes = b""
    safe: bytes = b""
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)

    def write(self, data: bytes) -> None:
        self.unsynced.append((len(self.now), data))
        self.now += data

    def write_at(self, offset: int, data: bytes) -> None:
        self.unsynced.append((offset, data))
        self.now = self.now[:offset] + data + self.now[offset + len(data) :]

    def truncate(self, size: int) -> None:
        self.unsynced.append((size, None))
        self.now = self.now[:size]

    def after(self, fate: Fate, chance: random.Random) -> bytes:
        if fate == "dropped":
            return self.safe
        if fate == "kept":
            return self.now
        content = bytearray(self.safe)
        for offset, data in self.unsynced[: chance.randint(0, len(self.unsynced))]:
            if data is None:
                del content[offset:]
            else:
                _tear(content, offset, data, chance)
        return bytes(content)


def _tear(content: bytearray, offset: int, data: bytes, chance: random.Random) -> None:
    """Apply some of the sectors of one write; a lost one in the middle reads as zeros."""
    end = offset + len(data)
    start = offset
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        if chance.random() < 0.6:
            if len(content) < start:
                content.extend(bytes(start - len(content)))
            content[start:stop] = data[start - offset : stop - offset]
        start = stop


@dataclass
class NameChange:
    """`gone` stops naming anything and `target` names `content`, both or neither."""

    gone: Path | None
    target: Path | None
    content: Content | None


class SimulatedDisk:
    """Implements `master.durable.disk.Disk`. `after_each` is called after every operation that changes something.

    `capacity` in bytes makes it full; `read_only` makes it refuse; `broken_sync` makes the next sync fail.
    Each one is a boot of its machine.
    """

    _boots = itertools.count(1)

    def __init__(self, image: dict[Path, bytes] | None = None) -> None:
        self.files = {path: Content(data, data) for path, data in (image or {}).items()}
        self.safe_names = dict(self.files)
        self.folders: set[Path] = {path.parent for path in self.files}
        self.unsynced: list[NameChange] = []
        self.log: list[str] = []
        self.after_each: Callable[[], None] = lambda: None
        self.capacity: int | None = None
        self.read_only = False
        self.broken_sync = False
        self._open: dict[int, Content | None] = {}
        self._next_fd = 100
        self._boot = f"boot-{next(self._boots)}"

    def boot(self) -> str:
        return self._boot

    def crash(self, fate: Fate, chance: random.Random) -> dict[Path, bytes]:
        """What is on the disk if the power goes now."""
        names = dict(self.safe_names if fate != "kept" else self.files)
        for change in self.unsynced if fate == "torn" else []:
            if chance.random() < 0.5:
                _rename(names, change)
        return {path: content.after(fate, chance) for path, content in names.items()}

    @property
    def open_files(self) -> int:
        """How many descriptors were not closed."""
        return len(self._open)

    def make_folder(self, path: Path) -> None:
        self.folders.add(path)

    def lock(self, path: Path) -> tuple[int, ...]:
        self._change(NameChange(None, path, Content()))
        return (self._descriptor(None),)

    def names(self, folder: Path) -> list[str]:
        return [path.name for path in self.files if path.parent == folder]

    def read(self, path: Path) -> bytes:
        return self._content(path).now

    def read_own(self, path: Path) -> bytes:
        """Nobody else is here."""
        return self.read(path)

    def put_own(self, path: Path, data: bytes) -> int:
        from master.durable.disk import publish_open  # noqa: PLC0415  (keeps this file free of the product elsewhere)

        fd = publish_open(self, path, data)
        self.sync_folder(path.parent)
        return fd

    def read_at(self, path: Path, offset: int, size: int) -> bytes:
        return self._content(path).now[offset : offset + size]

    def read_open(self, fd: int, offset: int, size: int) -> bytes:
        return self._of(fd).now[offset : offset + size]

    def length_at(self, fd: int, path: Path) -> int | None:
        return len(self._of(fd).now) if self.files.get(path) is self._of(fd) else None

    def is_in_place(self, folder: Path) -> bool:
        return folder in self.folders

    def share_a_disk(self, one: Path, other: Path) -> bool:
        return one in self.folders and other in self.folders

    def size(self, path: Path) -> int:
        return len(self._content(path).now)

    def create(self, path: Path) -> int:
        self._writable()
        content = Content()
        self._change(NameChange(None, path, content))
        return self._descriptor(content)

    def draft(self, path: Path) -> int:
        return self.create(path)

    def write_at(self, fd: int, offset: int, data: bytes) -> int:
        self._writable()
        self._of(fd).write_at(offset, data)
        self._done(f"write {len(data)} at {offset}")
        return len(data)

    def extend(self, path: Path) -> int:
        self._writable()
        if path not in self.files:
            return self.create(path)
        return self._descriptor(self.files[path])

    def write(self, fd: int, data: bytes) -> int:
        self._writable()
        taken = data[: self._room()]
        if data and not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._of(fd).write(taken)
        self._done(f"write {len(taken)}")
        return len(taken)

    def truncate(self, fd: int, size: int) -> None:
        self._writable()
        self._of(fd).truncate(size)
        self._done(f"truncate {size}")

    def allocate(self, path: Path, size: int) -> None:
        fd = self.extend(path)
        missing = size - len(self._of(fd).now)
        try:
            if missing > self._room():
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if missing > 0:
                self._of(fd).write(bytes(missing))
                self._done(f"allocate {size}")
        finally:
            self.close(fd)

    def sync(self, fd: int) -> None:
        from master.durable.disk import SyncFailedError  # noqa: PLC0415  (keeps this file free of the product elsewhere)
        from wire.message import Message  # noqa: PLC0415  (see above)

        if self.broken_sync:
            raise SyncFailedError(Message("sync_failed", detail="simulated"))
        content = self._of(fd)
        content.safe = content.now
        content.unsynced.clear()
        self._done("sync")

    def sync_folder(self, folder: Path) -> None:
        for change in self.unsynced:
            path = change.target or change.gone
            if path is not None and path.parent == folder:
                _rename(self.safe_names, change)
        self.unsynced = [c for c in self.unsynced if (c.target or c.gone or folder).parent != folder]
        self._done(f"sync {folder.name}/")

    def rename(self, source: Path, target: Path) -> None:
        self._writable()
        self._change(NameChange(source, target, self._content(source)))

    def remove(self, path: Path) -> None:
        self._writable()
        if path in self.files:
            self._change(NameChange(path, None, None))

    def close(self, fd: int) -> None:
        del self._open[fd]

    def free_bytes(self, folder: Path) -> int:  # noqa: ARG002
        return self._room()

    def _room(self) -> int:
        if self.capacity is None:
            return 1 << 40
        return max(0, self.capacity - sum(len(content.now) for content in self.files.values()))

    def _writable(self) -> None:
        if self.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def _content(self, path: Path) -> Content:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self.files[path]

    def _of(self, fd: int) -> Content:
        content = self._open[fd]
        assert content is not None
        return content

    def _descriptor(self, content: Content | None) -> int:
        self._next_fd += 1
        self._open[self._next_fd] = content
        return self._next_fd

    def _change(self, change: NameChange) -> None:
        _rename(self.files, change)
        self.unsynced.append(change)
        self._done(f"name {change.gone} -> {change.target}")

    def _done(self, what: str) -> None:
        self.log.append(what)
        self.after_each()


def _rename(names: dict[Path, Content], change: NameChange) -> None:
    if change.gone is not None:
        names.pop(change.gone, None)
    if change.target is not None and change.content is not None:
        names[change.target] = change.content
