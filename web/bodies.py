"""The bodies of requests, with an end to what is kept of them, and to how long is waited for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request

from web import shares
from wire.client import MAX_FRAME
from wire.errors import BadRequestError
from wire.message import Message
from wire.numbers import whole_number

MOST_JSON = MAX_FRAME - 4096
"""As much as the master takes, with what stands around it."""

PATIENCE_S = 30.0
SLOWEST = 1024
"""Bytes a second: a client that sends more slowly has PATIENCE_S and no more. Time that the master takes does not count
against the client."""


async def pieces(request: Request) -> AsyncIterator[bytes]:
    """Yield the pieces of the body as they arrive. Raises BadRequestError if the client sends too slowly."""
    loop = asyncio.get_running_loop()
    stream = aiter(request.stream())
    left = PATIENCE_S
    while True:
        begun = loop.time()
        try:
            async with asyncio.timeout(left):
                data = await anext(stream, None)
        except TimeoutError:
            raise BadRequestError(Message("slow_body", slowest=SLOWEST)) from None
        if data is None:
            return
        left = min(PATIENCE_S, left - (loop.time() - begun) + len(data) / SLOWEST)
        yield data


async def read(request: Request, most: int) -> bytes:
    """The whole body, which is kept until the request is over. Raises BadRequestError for more than `most` bytes, and
    LimitError if too much is kept for this user."""
    said = request.headers.get("content-length", "")
    if (whole_number(said) or 0) > most:
        raise BadRequestError(Message("body_too_large", most=most))
    data = bytearray()
    async for piece in pieces(request):
        shares.hold(len(piece))
        data += piece
        if len(data) > most:
            raise BadRequestError(Message("body_too_large", most=most))
    return bytes(data)


async def read_json(request: Request) -> dict[str, Any]:
    """Return the body, an object; an empty body is one without keys. Raises BadRequestError, also if the content type
    is not JSON, since a form of any page may send such a body."""
    data = await read(request, MOST_JSON)
    if not data:
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadRequestError(Message("json_wanted"))
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadRequestError(Message("bad_body", said=str(error))) from None
