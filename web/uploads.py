"""Uploads of files: whole, or in pieces, so that an upload of gigabytes survives a lost connection.

The master keeps what has come of an upload, and the client says which it goes on with (`X-Muster-Upload`): two sessions
may send files of one length to one path at the same time, and an upload can continue over another console. The console
remembers nothing of it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from web import bodies, downloads, shares
from web.callers import Shown
from web.hall import Hall
from wire.errors import BadRequestError, ConflictError
from wire.message import Message
from wire.numbers import whole_number

MOST = 8 << 20
"""Bytes of a request, unless it says beforehand how long it is."""
UPLOAD = "x-muster-upload"
_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18})")


class _Begun(msgspec.Struct):
    upload: str
    received: int
    piece: int


class _Part(NamedTuple):
    """Bytes from `begin` up to `end`, without it, of `size`; none where it only asks how far it came."""

    begin: int
    end: int
    size: int


class Uploads:
    """Of one console."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    async def put(self, request: Request, shown: Shown, path: str) -> Response:
        """`PUT files/{path}`: 201 where there was none, 200 where there was one, 308 while more is to come."""
        there = await downloads.file_tag(self._hall, shown, path)
        overwrite = _check_version(request, there)
        said = request.headers.get("content-range")
        if said is not None:
            return await self._part(request, shown, path, _part(said), there=there, overwrite=overwrite)
        entry = await self._whole(request, shown, path, overwrite=overwrite)
        return await self._done(shown, path, entry, there)

    async def _whole(self, request: Request, shown: Shown, path: str, *, overwrite: bool) -> msgspec.Raw:
        size = whole_number(request.headers.get("content-length", ""))
        if size is None or size <= MOST:
            content = await bodies.read(request, MOST)
            params = {"path": path, "content": content, "overwrite": overwrite}
            await self._hall.callers.call(shown, "file.write", params)
            return await self._hall.callers.call(shown, "file.stat", {"path": path})
        begun = await self._begin(shown, path, size, None, overwrite=overwrite)
        received = await self._take(request, shown, path, begun, 0)
        if received != size:
            raise BadRequestError(Message("body_too_short", said=size, came=received))
        return await self._commit(shown, path, begun.upload, received, overwrite=overwrite)

    async def _part(
        self, request: Request, shown: Shown, path: str, part: _Part, *, there: str | None, overwrite: bool
    ) -> Response:
        upload = request.headers.get(UPLOAD)
        if upload is None and part.begin:
            raise BadRequestError(Message("upload_not_named"))
        begun = await self._begin(shown, path, part.size, upload, overwrite=overwrite)
        received = begun.received
        if part.end and part.begin == received:
            received = await self._take(request, shown, path, begun, received)
        if received < part.size or (part.end == 0 and part.size):
            return _more(begun.upload, received)
        entry = await self._commit(shown, path, begun.upload, part.size, overwrite=overwrite)
        return await self._done(shown, path, entry, there)

    async def _begin(self, shown: Shown, path: str, size: int, upload: str | None, *, overwrite: bool) -> _Begun:
        params: dict[str, Any] = {"path": path, "size": size, "overwrite": overwrite, "upload": upload}
        return msgspec.json.decode(await self._hall.callers.call(shown, "file.upload_begin", params), type=_Begun)

    async def _take(self, request: Request, shown: Shown, path: str, begun: _Begun, offset: int) -> int:
        """Hand on what comes, a piece at a time; how much is there then."""
        kept = bytearray()
        async for data in bodies.pieces(request):
            shares.hold(len(data))
            kept += data
            while len(kept) >= begun.piece:
                offset = await self._piece(shown, path, begun.upload, offset, bytes(kept[: begun.piece]))
                del kept[: begun.piece]
                shares.hold(-begun.piece)
        return await self._piece(shown, path, begun.upload, offset, bytes(kept)) if kept else offset

    async def _piece(self, shown: Shown, path: str, upload: str, offset: int, content: bytes) -> int:
        params = {"path": path, "upload": upload, "offset": offset, "content": content}
        answer = msgspec.json.decode(await self._hall.callers.call(shown, "file.upload_piece", params))
        return int(answer["received"])

    async def _commit(self, shown: Shown, path: str, upload: str, size: int, *, overwrite: bool) -> msgspec.Raw:
        params = {"path": path, "upload": upload, "size": size, "overwrite": overwrite}
        return await self._hall.callers.call(shown, "file.upload_commit", params)

    async def _done(self, shown: Shown, path: str, entry: msgspec.Raw, there: str | None) -> Response:
        tag = await downloads.file_tag(self._hall, shown, path)
        headers = {"Cache-Control": "no-store", **({} if tag is None else {"ETag": tag})}
        return Response(bytes(entry), 201 if there is None else 200, headers, "application/json")


def _more(upload: str, received: int) -> Response:
    """So much is there, more is to come."""
    headers = {"X-Muster-Upload": upload, **({"Range": f"bytes=0-{received - 1}"} if received else {})}
    return Response(status_code=308, headers=headers)


def _check_version(request: Request, there: str | None) -> bool:
    """Return whether an existing file may be overwritten. Raises ConflictError if the file is not in the state that the
    request names."""
    wanted, unwanted = request.headers.get("if-match"), request.headers.get("if-none-match")
    if wanted is not None and (there is None or wanted not in ("*", there)):
        raise ConflictError(Message("file_changed"))
    if unwanted == "*" and there is not None:
        raise ConflictError(Message("file_is_there"))
    return unwanted != "*"


def _part(said: str) -> _Part:
    found = _RANGE.fullmatch(said)
    if found is None:
        raise BadRequestError(Message("bad_range", said=said))
    first, last, size = found.groups()
    if first is None:
        return _Part(0, 0, int(size))
    part = _Part(int(first), int(last) + 1, int(size))
    if not part.begin < part.end <= part.size:
        raise BadRequestError(Message("bad_range", said=said))
    return part
