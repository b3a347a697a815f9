"""Files and logs as they are, whole or a range of them, read from the master a piece at a time, as they are taken.

They leave as attachments that no browser shows: what people put into their files has our origin, too.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, Self
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from web.callers import Shown
from web.hall import Hall
from web.query import FLAG, WHOLE, checked
from wire.errors import BadRequestError, ConflictError, NotFoundError
from wire.message import Message

PIECE = 1 << 20
WAIT_S = 25.0
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class Piece(msgspec.Struct):
    """Of a file, or of a log."""

    data: bytes
    offset: int
    size: int
    mtime_ns: int = 0
    file: str = ""
    ended: bool = True

    def is_of(self, first: Piece, path: str) -> Self:
        """Return it, if it is of the same file as the first piece. Raises ConflictError if another file has taken its
        place, or it has become shorter, so that nobody gets the beginning of one and the end of the other."""
        if self.mtime_ns != first.mtime_ns and self.file != first.file:
            raise ConflictError(Message("file_replaced", path=path))
        if self.mtime_ns != first.mtime_ns and self.size < first.size:
            raise ConflictError(Message("became_shorter", path=path))
        return self


class _Span(NamedTuple):
    """From `begin` up to `end`, without it."""

    begin: int
    end: int


Read = Callable[[int, int], Awaitable[Piece]]
"""Offset and length."""


class _LogRead(Protocol):
    """Likewise, and how long to wait for something to be there."""

    async def __call__(self, offset: int, limit: int, wait_s: float = 0.0) -> Piece: ...


async def file(request: Request, hall: Hall, shown: Shown, path: str, after: str = "") -> Response:
    """A file, or what is in a folder after this name, as JSON."""
    told = msgspec.json.decode(await hall.callers.call(shown, "file.stat", {"path": path}))
    if told["kind"] == "folder":
        params = {"path": path, "after": after}
        listing = await hall.callers.call(shown, "file.list", params)
        return Response(bytes(listing), media_type="application/json", headers={"Cache-Control": "no-store"})

    async def read(offset: int, limit: int) -> Piece:
        params = {"path": path, "offset": offset, "limit": limit}
        return msgspec.json.decode(await hall.callers.call(shown, "file.read", params), type=Piece)

    first = await read(0, 0)

    async def rest(offset: int, limit: int) -> Piece:
        return (await read(offset, limit)).is_of(first, path)

    return _sent(request, rest, first, told["name"], tag_of(first.mtime_ns, first.size))


async def file_tag(hall: Hall, shown: Shown, path: str) -> str | None:
    """The ETag of a file as it is; None where there is none."""
    try:
        raw = await hall.callers.call(shown, "file.read", {"path": path, "offset": 0, "limit": 0})
    except NotFoundError:
        return None
    piece = msgspec.json.decode(raw, type=Piece)
    return tag_of(piece.mtime_ns, piece.size)


def tag_of(mtime_ns: int, size: int) -> str:
    """The ETag of a file."""
    return f'"{mtime_ns:x}-{size:x}"'


async def log(request: Request, hall: Hall, shown: Shown, task: int) -> Response:
    """The log of a task; with `follow=1` all that is added to it until it has ended."""
    asked = checked(request.query_params.multi_items(), {"follow": FLAG, "rank": WHOLE})
    about = {"id": task, "rank": asked.get("rank", 0)}
    read = _log_read(hall, shown, about)
    first = await read(0, 0)
    if not asked.get("follow"):
        return _sent(request, read, first, f"{task}.log", None)
    begin = _wanted(request.headers.get("range"), first.size) or _Span(0, first.size)
    headers = attached(f"{task}.log") | {"X-Accel-Buffering": "no"}
    return StreamingResponse(_followed(read, begin.begin), headers=headers, media_type="text/plain")


async def server_log(request: Request, hall: Hall, shown: Shown) -> Response:
    """The master's own log."""
    read = _log_read(hall, shown, {"server": True})
    return _sent(request, read, await read(0, 0), "server.log", None)


def _log_read(hall: Hall, shown: Shown, about: Mapping[str, Any]) -> _LogRead:
    async def read(offset: int, limit: int, wait_s: float = 0.0) -> Piece:
        params = {**about, "offset": offset, "limit": limit, "wait_s": wait_s}
        return msgspec.json.decode(await hall.callers.call(shown, "log.read", params), type=Piece)

    return read


async def _followed(read: _LogRead, offset: int) -> AsyncIterator[bytes]:
    while True:
        piece = await read(offset, PIECE, wait_s=WAIT_S)
        offset = piece.offset + len(piece.data)
        if piece.data:
            yield piece.data
        elif piece.ended:
            return


def _sent(request: Request, read: Read, first: Piece, name: str, tag: str | None) -> Response:
    headers = attached(name) | {"Accept-Ranges": "bytes", "Cache-Control": "private, no-cache"}
    if tag is not None:
        headers["ETag"] = tag
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
    asked = request.headers.get("range")
    if asked is not None and request.headers.get("if-range", tag) not in (tag, None):
        asked = None
    whole, span = _Span(0, first.size), _wanted(asked, first.size)
    if asked is not None and span is None:
        return Response(status_code=416, headers={**headers, "Content-Range": f"bytes */{first.size}"})
    begin, end = span or whole
    headers["Content-Length"] = str(end - begin)
    if span is not None:
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{first.size}"
    status = 206 if span is not None else 200
    kind = "application/octet-stream"
    if request.method == "HEAD":
        return Response(None, status, headers, kind)
    return StreamingResponse(_read(read, begin, end), status, headers, kind)


async def _read(read: Read, offset: int, end: int) -> AsyncIterator[bytes]:
    """Yield the promised bytes; a file that has become shorter meanwhile ends early."""
    while offset < end:
        piece = await read(offset, min(PIECE, end - offset))
        if not piece.data:
            return
        offset += len(piece.data)
        yield piece.data


def _wanted(said: str | None, size: int) -> _Span | None:
    """The range that is asked for; None for none that there is. Of several none is given: the whole is no answer that
    is wrong. Raises BadRequestError for what is no range."""
    if said is None:
        return None
    found = _RANGE.fullmatch(said.replace(" ", ""))
    if found is None or not any(found.groups()):
        raise BadRequestError(Message("bad_range", said=said))
    first, last = found.groups()
    if not first:
        begin, end = max(0, size - int(last)), size
    else:
        begin, end = int(first), min(size, int(last) + 1) if last else size
    return _Span(begin, end) if begin < end else None


def attached(name: str) -> dict[str, str]:
    """The headers of a download that is called so."""
    safe = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "_" for sign in name)
    return {"Content-Disposition": f"attachment; filename=\"{safe}\"; filename*=UTF-8''{quote(name, safe='')}"}
