"""Files beneath the visible folders, for people who may touch no others: list, read, write, make, move, copy, delete.

Every path begins with a visible folder. Owns what each operation means and how much of it is allowed; how a place is
found without leaving is `beneath`'s. All calls block, on a dead NFS for ever: the master makes them in threads
(`files.Files`). Every one raises MusterErrors that name the path, and no others.
"""

from __future__ import annotations

import errno
import heapq
import os
import stat
from collections.abc import Iterable, Iterator
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec

from master.files import place, tree
from master.files.beneath import Beneath
from master.files.drafts import Drafts
from master.files.errors import about, shown
from master.files.needed import Needed, check_not_needed
from master.files.owners import Sight
from master.files.tree import Tally, Tick, TreeCopy, open_regular
from master.files.walk import ITSELF, Found, Spot
from wire.errors import BadRequestError, ConflictError, ForbiddenError, LimitError, MusterError, NotFoundError
from wire.message import Message
from wire.names import to_bytes, to_text

MAX_ENTRIES = 10_000
MAX_SCANNED = 1_000_000
MAX_READ = 1 << 20
MAX_WRITE = 8 << 20
"""Bytes of one write; what is larger is uploaded in pieces."""

Kind = Literal["file", "folder", "other"]


class Entry(msgspec.Struct, frozen=True):
    """Something in a folder. `size` in bytes (0 but for files), `mtime` in seconds since the epoch, `mode` its rights.

    Of a link these are its target's; `other` is a device, pipe or socket, or a link that leads nowhere or out.
    """

    name: str
    kind: Kind
    size: int
    mtime: float
    mode: int
    link: bool
    hidden: bool


class Listing(msgspec.Struct, frozen=True):
    """A folder's entries in the order of their names. `truncated`: there are more; ask for those `after` the last."""

    path: str
    entries: list[Entry]
    truncated: bool


class Piece(msgspec.Struct, frozen=True):
    """Bytes of a file from `offset`; `size`, `mtime_ns` and `mode` are the file's when they were read. `file`: another
    one once another file has taken its place."""

    offset: int
    data: bytes
    size: int
    mtime_ns: int
    mode: int
    file: str


def _no_tick() -> None:
    """Nobody watches."""


class Jail:
    """The files beneath `root` in the folders `visible` (see `Beneath`, also for `by_kernel`). `drafts`: the list of
    unfinished files, so that those of a killed master are found. `needed`: places that the master itself uses."""

    def __init__(
        self,
        root: Path,
        visible: tuple[str, ...],
        *,
        by_kernel: bool | None = None,
        drafts: Drafts | None = None,
        needed: tuple[Needed, ...] = (),
    ) -> None:
        self.beneath = Beneath(root, visible, by_kernel=by_kernel)
        self.drafts = drafts or Drafts(None)
        self._needed = (*(Needed(f"{root}/{name}", Message("visible_itself")) for name in visible), *needed)

    def seen_by(self, sight: Sight) -> Jail:
        """The same files, for somebody who may not see and change all of them."""
        jail = copy(self)
        jail.beneath = self.beneath.seen_by(sight)
        return jail

    # -- looking ----------------------------------------------------------------------------------------------

    def roots(self) -> list[tuple[str, bool]]:
        """The visible folders, and whether each is there."""
        root = self.beneath.root
        return [(name, os.path.isdir(root / name)) for name in self.beneath.visible]  # noqa: PTH112  (never raises)

    def list(self, path: str, *, after: str = "", limit: int = MAX_ENTRIES) -> Listing:
        """List a folder: at most `limit` entries whose names come after `after`."""
        spot = self.beneath.spot(path)
        with self.beneath.find(spot, follow=True) as found:
            _check_folder(found, spot)
            fd = os.open(found.name, tree.FOLDER, dir_fd=found.folder)
            try:
                with os.scandir(fd) as entries:
                    there = self._seen(found, (os.fsencode(entry.name) for entry in islice(entries, MAX_SCANNED)))
                    names = (to_text(name) for name in there)
                    chosen = heapq.nsmallest(limit + 1, (name for name in names if name > after))
                    if next(entries, None) is not None:
                        raise LimitError(Message("too_many_entries", path=shown(spot.text), most=MAX_SCANNED))
                shown_here = [self._entry(spot, fd, name) for name in chosen[:limit]]
            finally:
                os.close(fd)
        return Listing(spot.text, [entry for entry in shown_here if entry is not None], len(chosen) > limit)

    def stat(self, path: str) -> Entry:
        """Return the entry that a path leads to."""
        spot = self.beneath.spot(path)
        with self.beneath.find(spot, follow=True) as found:
            info = os.stat(found.name, dir_fd=found.folder, follow_symlinks=False)
        return _entry(spot.text.rpartition("/")[2], info, link=False)

    def read(self, path: str, offset: int = 0, limit: int = MAX_READ) -> bytes:
        """At most `limit` bytes (1 MiB) of a file from `offset`; a negative one counts from the end."""
        return self.read_piece(path, offset, limit).data

    def read_piece(self, path: str, offset: int = 0, limit: int = MAX_READ) -> Piece:
        """The same, with where it lies in the file."""
        spot = self.beneath.spot(path)
        with self.beneath.find(spot, follow=True) as found:
            fd = open_regular(found.folder, found.name, os.O_RDONLY, spot.text)
            try:
                info = os.fstat(fd)
                start = max(info.st_size + offset, 0) if offset < 0 else offset
                data = os.pread(fd, max(0, min(limit, MAX_READ)), start) if start < info.st_size else b""
                file = f"{info.st_dev:x}-{info.st_ino:x}"
                return Piece(start, data, info.st_size, info.st_mtime_ns, stat.S_IMODE(info.st_mode), file)
            finally:
                os.close(fd)

    # -- changing ---------------------------------------------------------------------------------------------

    def write(
        self, path: str, data: bytes, *, overwrite: bool = True, create: bool = True, mode: int | None = None
    ) -> None:
        """Write a file whole: readers see the old content or the new, never a part. Rights stay, links are followed.

        `mode`: the rights of a file that is new, less what the master's umask takes away.
        """
        if len(data) > MAX_WRITE:
            raise LimitError(Message("write_in_pieces", path=shown(path), bytes=len(data), most=MAX_WRITE))
        spot = self.beneath.spot(path)
        with self.beneath.find(spot, follow=True) as found:
            check_target(found, spot, overwrite=overwrite)
            if not create and place.standing(found.folder, found.name) is None:
                raise NotFoundError(Message("no_file", path=shown(spot.text)))
            place.replace_content(found.folder, found.name, data, overwrite=overwrite, mode=mode)

    def make_folder(self, path: str, *, parents: bool = False) -> None:
        """Make a folder. `parents`: with those above it, and one that is there already is fine."""
        spot = self.beneath.spot(path)
        above = [_above(spot, count) for count in range(1, len(spot.names))] if parents else []
        for folder in above:
            # Nobody can create a folder that they may not see, but it may contain something shared.
            if self.beneath.sight is None or self.beneath.sight.has(folder.place):
                self._make_folder(folder, exist_ok=True)
        self._make_folder(spot, exist_ok=parents)

    def make_file(self, path: str) -> None:
        """Make an empty file. An existing entry is left alone, and the call is refused."""
        spot = self.beneath.spot(path)
        with self.beneath.find(spot, follow=False) as found:
            _not_itself(found, spot, errno.EEXIST)
            os.close(os.open(found.name, tree.NEW, 0o666, dir_fd=found.folder))
            tree.sync_folder(found.folder)

    def move(
        self,
        source: str,
        target: str,
        *,
        overwrite: bool = False,
        tick: Tick = _no_tick,
        needed: Iterable[Needed] = (),
    ) -> None:
        """Give a file, link or folder another name, also in another folder or on another file system. An entry that is
        `needed` where it is stays there."""
        old, new = self._pair(source, target)
        with self.beneath.find(old, follow=False) as here, self.beneath.find(new, follow=False) as there:
            _not_itself(here, old)
            _not_itself(there, new, errno.EEXIST)
            self._check_nobodys(here, old)
            self._check_nobodys(there, new)
            info = _check_there(here, old)
            check_not_needed(info, old, self._standing(info, needed))
            place.check_free(info, there.folder, there.name, new.text, overwrite=overwrite)
            self._check_not_replaced(there, new, needed)
            try:
                place.put(here.folder, here.name, there.folder, there.name, overwrite=overwrite)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
            else:
                return
            tally = self._copy((here, old), (there, new), overwrite=overwrite, tick=tick, synced=True)
            if tally.skipped:
                raise ConflictError(
                    Message("copied_not_deleted", path=shown(old.text), to=shown(new.text), odd=shown(tally.skipped[0]))
                )
            tree.delete(here.folder, here.name, old.text, tick)

    def copy(
        self,
        source: str,
        target: str,
        *,
        overwrite: bool = False,
        tick: Tick = _no_tick,
        needed: Iterable[Needed] = (),
    ) -> Tally:
        """Copy a file or a folder with all visible files in it; it appears under its new name when it is complete.
        Links in it are copied as links. An empty folder that is `needed` is not replaced."""
        old, new = self._pair(source, target)
        with self.beneath.find(old, follow=True) as here, self.beneath.find(new, follow=False) as there:
            _not_itself(there, new, errno.EEXIST)
            self._check_nobodys(there, new)
            self._check_not_replaced(there, new, needed)
            return self._copy((here, old), (there, new), overwrite=overwrite, tick=tick, synced=False)

    def delete(
        self,
        path: str,
        recursive: bool = True,  # noqa: FBT001, FBT002
        *,
        tick: Tick = _no_tick,
        needed: Iterable[Needed] = (),
    ) -> int:
        """Delete a file, a link (not what it leads to) or a folder; how many entries went. Without `recursive` a folder
        must be empty. An entry that is `needed` stays, empty or not."""
        spot = self.beneath.spot(path)
        with self.beneath.find(spot, follow=False) as found:
            _not_itself(found, spot)
            self._check_nobodys(found, spot)
            info = os.stat(found.name, dir_fd=found.folder, follow_symlinks=False)
            check_not_needed(info, spot, self._standing(info, needed))
            if recursive:
                return tree.delete(found.folder, found.name, spot.text, tick)
            remove = os.rmdir if stat.S_ISDIR(info.st_mode) else os.unlink
            remove(found.name, dir_fd=found.folder)
            return 1

    # -- how ------------------------------------------------------------------------------------------------------

    def _seen(self, folder: Found, names: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the visible names in a folder."""
        sight = self.beneath.sight
        if sight is None or not sight.may_differ_in(folder.place):
            return names
        return (name for name in names if sight.has((*folder.place, name)))

    def _check_nobodys(self, found: Found, spot: Spot) -> None:
        """Refuse to take away or to replace what may hold folders of others, whether it does or not."""
        if self.beneath.sight is not None and self.beneath.sight.may_differ_in(found.place):
            raise ForbiddenError(Message("holds_others", path=shown(spot.text)))

    def _entry(self, folder: Spot, fd: int, name: str) -> Entry | None:
        """An entry of an open folder; None if it is gone meanwhile."""
        try:
            info = os.stat(to_bytes(name), dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISLNK(info.st_mode):
            return _entry(name, info, link=False)
        spot = Spot(folder.visible, (*folder.names, to_bytes(name)), f"{folder.text}/{name}")
        try:
            with self.beneath.find(spot, follow=True) as found:
                target = os.stat(found.name, dir_fd=found.folder, follow_symlinks=False)
        except MusterError:
            return Entry(name, "other", 0, info.st_mtime, 0, link=True, hidden=name.startswith("."))
        return _entry(name, target, link=True)

    def _standing(self, info: os.stat_result, needed: Iterable[Needed]) -> Iterator[Needed]:
        """Yield the needed places that might be taken away with the entry of `info`. Places that tasks need matter only
        if they can lie beneath the visible folders: to look elsewhere might hang on a storage that the call is not
        about."""
        yield from self._needed
        if stat.S_ISREG(info.st_mode):
            return
        folders = (f"{self.beneath.root}/{name}" for name in self.beneath.visible)
        within = tuple(f"{place}/" for name in folders for place in (name, os.path.realpath(name)))
        yield from (place for place in needed if place.path.startswith(within))

    def _check_not_replaced(self, there: Found, new: Spot, needed: Iterable[Needed]) -> None:
        """A process in an empty folder would continue in one without a name, and lose what it writes."""
        info = place.standing(there.folder, there.name)
        if info is not None and stat.S_ISDIR(info.st_mode):
            check_not_needed(info, new, self._standing(info, needed))

    def _make_folder(self, spot: Spot, *, exist_ok: bool) -> None:
        with self.beneath.find(spot, follow=exist_ok) as found:
            info = place.standing(found.folder, found.name)
            if info is not None and exist_ok and stat.S_ISDIR(info.st_mode):
                return
            _not_itself(found, spot, errno.EEXIST)
            os.mkdir(found.name, dir_fd=found.folder)
            tree.sync_folder(found.folder)

    def _pair(self, source: str, target: str) -> tuple[Spot, Spot]:
        old, new = self.beneath.spot(source), self.beneath.spot(target)
        if new.text == old.text or new.text.startswith(f"{old.text}/"):
            raise BadRequestError(Message("into_itself", path=shown(old.text), to=shown(new.text)))
        return old, new

    def _copy(
        self, old: tuple[Found, Spot], new: tuple[Found, Spot], *, overwrite: bool, tick: Tick, synced: bool
    ) -> Tally:
        (here, source), (there, target) = old, new
        place.check_free(_check_there(here, source), there.folder, there.name, target.text, overwrite=overwrite)
        draft = place.draft_name("copy")
        with self.drafts.noted(target.text, draft), place.removed_on_failure(there.folder, draft, tick):
            work = TreeCopy(source.text, tick, synced=synced, sight=self.beneath.sight)
            tally = work.copy(here, Found(there.folder, draft))
            place.put(there.folder, draft, there.folder, there.name, overwrite=overwrite)
        return tally


def check_target(found: Found, spot: Spot, *, overwrite: bool) -> None:
    """Refuse to write where something else than a regular file stands, or anything without `overwrite`."""
    info = place.standing(found.folder, found.name)
    if info is None:
        return
    tree.check_regular(info, spot.text)
    if not overwrite:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def _above(spot: Spot, count: int) -> Spot:
    """The first `count` names of a spot."""
    names = spot.text.split("/")
    return Spot(spot.visible, spot.names[:count], "/".join(names[: len(names) - len(spot.names) + count]))


def _not_itself(found: Found, spot: Spot, number: int | None = None) -> None:
    """A visible folder is the admin's: it is neither moved nor deleted nor made here."""
    if found.name == ITSELF:
        if number is not None:
            raise OSError(number, os.strerror(number))
        raise BadRequestError(Message("is_visible_folder", path=shown(spot.text)))


def _check_folder(found: Found, spot: Spot) -> None:
    if not stat.S_ISDIR(os.stat(found.name, dir_fd=found.folder, follow_symlinks=False).st_mode):
        raise BadRequestError(Message("not_a_folder", path=shown(spot.text)))


def _check_there(found: Found, spot: Spot) -> os.stat_result:
    with about(spot.text):
        return os.stat(found.name, dir_fd=found.folder, follow_symlinks=False)


def _entry(name: str, info: os.stat_result, *, link: bool) -> Entry:
    kind: Kind = "folder" if stat.S_ISDIR(info.st_mode) else "file" if stat.S_ISREG(info.st_mode) else "other"
    size = info.st_size if kind == "file" else 0
    return Entry(name, kind, size, info.st_mtime, stat.S_IMODE(info.st_mode), link=link, hidden=name.startswith("."))
