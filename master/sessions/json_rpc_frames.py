"""JSON-RPC's frames: a line to a request, and answers, errors and notifications to lines."""

from __future__ import annotations

from typing import Any

import msgspec

from master.verbs.base import Pieces
from wire.client import Request
from wire.errors import MusterError, ProtocolError
from wire.framing import MAX_DEPTH, MOST_VALUES, FrameError, has_more_values, strict_loads
from wire.message import Message

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Request).decode


def parse(frame: bytes) -> Request:
    """The request that a line holds. Raises ProtocolError."""
    if len(frame) > MOST_VALUES and has_more_values(frame, MOST_VALUES):  # a call saved, for each of many submits
        raise ProtocolError(Message("no_request", said=f"more than {MOST_VALUES:,} values in one request"))
    request = _read_plainly(frame) or _read_strictly(frame)
    if request.jsonrpc != "2.0":
        raise ProtocolError(Message("no_jsonrpc", found=request.jsonrpc))
    return request


def _read_plainly(frame: bytes) -> Request | None:
    """The request, where it makes the very same line again, spaces aside: then no key stood twice in it, nothing was
    out of range, and nothing was read otherwise than it was written. So it is mostly, and this takes half as long.
    None for all else, be it good or bad."""
    if frame.count(b"[") + frame.count(b"{") > MAX_DEPTH:
        return None
    try:
        request = _decode(frame)
        line = _encode(request)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return None
    return request if line == frame or line.replace(b" ", b"") == frame.replace(b" ", b"") else None


def _read_strictly(frame: bytes) -> Request:
    try:
        return msgspec.convert(strict_loads(frame), Request)
    except (FrameError, msgspec.ValidationError) as error:
        raise ProtocolError(Message("no_request", said=str(error))) from None


def answer(request_id: int | str, result: Any) -> list[bytes]:
    """A result, in pieces that follow each other."""
    if isinstance(result, Pieces):
        return [b'{"jsonrpc":"2.0","id":%b,"result":' % _encode(request_id), *result.parts, b"}\n"]
    return [_encode({"jsonrpc": "2.0", "id": request_id, "result": result}) + b"\n"]


def refusal(error: MusterError, request_id: int | str | None = None) -> bytes:
    """Return the frame of an error; without an id, of a peer that has asked for nothing yet."""
    data: dict[str, Any] = {"code": error.code}
    if error.key is not None:
        data |= {"key": error.key, "args": error.values}
    told = {"code": error.rpc_code, "message": str(error), "data": data}
    return _encode({"jsonrpc": "2.0", "id": request_id, "error": told}) + b"\n"


def notification(method: str, params: dict[str, Any]) -> bytes:
    """Return the frame of a notification, which answers no request."""
    return _encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n"
