"""A folder as one ZIP, made while it is sent: nothing of it is kept, here or on a disk.

Each name and each byte is requested from the master in the name of the user who downloads, so nobody gets files that
they could not read one by one, and no link leads out of the visible folders. A list in the archive, beside the folder,
names the files that are left out.
"""

from __future__ import annotations

import asyncio
import io
import time
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from web.callers import Shown
from web.downloads import PIECE, Piece, attached
from web.hall import Hall
from wire.errors import BadRequestError, ConflictError, ForbiddenError, LimitError, NotFoundError
from wire.message import Message

MOST_ENTRIES = 50_000
MOST_BYTES = 64 << 30
LOOK_S = 60.0
SEND_S = 6 * 3600.0
AT_ONCE, AT_ONCE_OF_ONE = 8, 3
"""Archives that are being sent, of all users together and of one."""
_FIRST_YEAR, _LAST_YEAR = 1980, 2107
_LARGE = 1 << 30
_UNREADABLE = (NotFoundError, ForbiddenError, BadRequestError, ConflictError)
"""The errors for which a file is left out."""


class _Entry(msgspec.Struct):
    name: str
    kind: str
    size: int
    mtime: float
    mode: int
    link: bool


class _Listing(msgspec.Struct):
    entries: list[_Entry]
    truncated: bool


class _Found(NamedTuple):
    """The content of the folder: each `path` from its name on, with its entry; and the paths that are left out."""

    entries: list[tuple[str, _Entry]]
    left_out: list[str]


class Archives:
    """Of one console."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._under_way: Counter[str] = Counter()

    async def of(self, shown: Shown, path: str) -> Response:
        """The folder as a download. Raises LimitError for one that is too large, and what the master answers."""
        user = await self._hall.callers.user(shown)
        if self._under_way[user] >= AT_ONCE_OF_ONE:
            raise LimitError(Message("archives_full", most=AT_ONCE_OF_ONE))
        if self._under_way.total() >= AT_ONCE:
            raise LimitError(Message("archives_full", most=AT_ONCE))
        self._under_way[user] += 1
        try:
            try:
                async with asyncio.timeout(LOOK_S):
                    found = await self._found(shown, path)
            except TimeoutError:
                raise LimitError(Message("archive_too_slow", seconds=LOOK_S)) from None
        except BaseException:
            self._sent(user)
            raise
        name = path.strip("/").rpartition("/")[2]
        return _Sent(self._pieces(shown, path, found), partial(self._sent, user), attached(f"{name}.zip"))

    def _sent(self, user: str) -> None:
        self._under_way[user] -= 1
        if not self._under_way[user]:
            del self._under_way[user]

    async def _found(self, shown: Shown, path: str) -> _Found:
        """All that is beneath the folder. A link to a folder is not gone into: what it leads to is there once, or
        belongs to another folder."""
        found, total = _Found([], []), 0
        todo = [""]
        while todo:
            folder = todo.pop()
            async for entry in self._listed(shown, f"{path}/{folder}".rstrip("/")):
                inner = f"{folder}/{entry.name}" if folder else entry.name
                if entry.kind == "other" or (entry.kind == "folder" and entry.link):
                    found.left_out.append(inner)
                    continue
                found.entries.append((inner, entry))
                if entry.kind == "folder":
                    todo.append(inner)
                total += entry.size
                if len(found.entries) > MOST_ENTRIES or total > MOST_BYTES:
                    raise LimitError(Message("archive_too_large", entries=MOST_ENTRIES, bytes=MOST_BYTES))
        return found

    async def _listed(self, shown: Shown, path: str) -> AsyncIterator[_Entry]:
        after, is_more = "", True
        while is_more:
            raw = await self._hall.callers.call(shown, "file.list", {"path": path, "after": after})
            listing = msgspec.json.decode(raw, type=_Listing)
            for entry in listing.entries:
                yield entry
            is_more = listing.truncated and bool(listing.entries)
            after = listing.entries[-1].name if listing.entries else ""

    async def _pieces(self, shown: Shown, path: str, found: _Found) -> AsyncIterator[bytes]:
        """Yield the bytes of the archive. Files that can no longer be read are left out. An archive that takes too long
        breaks off without the end of a complete archive."""
        name = path.strip("/").rpartition("/")[2]
        sink, until = _Sink(), time.monotonic() + SEND_S
        # Stored as it is: to press it would hold up all who use the console, and models get no smaller by it.
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
            for inner, entry in found.entries:
                if time.monotonic() > until:
                    raise LimitError(Message("archive_too_slow", seconds=SEND_S))
                info = _info(f"{name}/{inner}", entry)
                if entry.kind == "folder":
                    archive.writestr(info, b"")
                    continue
                try:
                    first = await self._piece(shown, f"{path}/{inner}", 0, PIECE)
                except _UNREADABLE:
                    found.left_out.append(inner)
                    continue
                with archive.open(info, "w", force_zip64=first.size > _LARGE) as member:
                    try:
                        async for data in self._content(shown, f"{path}/{inner}", first):
                            member.write(data)
                            yield sink.taken()
                    except _UNREADABLE:
                        found.left_out.append(inner)
            if found.left_out:
                text = "".join(f"{inner}\n" for inner in found.left_out)
                archive.writestr(f"{name}.left-out.txt", text)
        yield sink.taken()

    async def _content(self, shown: Shown, path: str, first: Piece) -> AsyncIterator[bytes]:
        """Yield as much as there was when the first piece was read: a file that is written to has no end. Raises
        ConflictError if another file takes its place."""
        data, offset = first.data, 0
        while data:
            yield data
            offset += len(data)
            if offset >= first.size:
                return
            piece = await self._piece(shown, path, offset, min(PIECE, first.size - offset))
            data = piece.is_of(first, path).data

    async def _piece(self, shown: Shown, path: str, offset: int, limit: int) -> Piece:
        params = {"path": path, "offset": offset, "limit": limit}
        return msgspec.json.decode(await self._hall.callers.call(shown, "file.read", params), type=Piece)


class _Sent(StreamingResponse):
    """Calls `ended` when nothing of it is sent any more, whoever ended it."""

    def __init__(self, pieces: AsyncIterator[bytes], ended: Callable[[], None], headers: dict[str, str]) -> None:
        super().__init__(pieces, media_type="application/zip", headers={**headers, "Cache-Control": "no-store"})
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


class _Sink(io.RawIOBase):
    """A file to be written to that keeps nothing longer than until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._kept = bytearray()

    def writable(self) -> bool:
        """It is for nothing else."""
        return True

    def write(self, data: object) -> int:
        """Keep it."""
        before = len(self._kept)
        self._kept += data  # type: ignore[arg-type]
        return len(self._kept) - before

    def taken(self) -> bytes:
        """Return the bytes written since the last call."""
        data = bytes(self._kept)
        self._kept.clear()
        return data


def _info(name: str, entry: _Entry) -> zipfile.ZipInfo:
    """A backslash is a name's letter here, and elsewhere leads into other folders."""
    when = time.localtime(entry.mtime)
    date = (min(max(when.tm_year, _FIRST_YEAR), _LAST_YEAR), *when[1:6])
    ending = "/" if entry.kind == "folder" else ""
    info = zipfile.ZipInfo(name.replace("\\", "_") + ending, date)
    info.external_attr = (entry.mode & 0o777) << 16
    return info
