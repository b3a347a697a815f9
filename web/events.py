"""Server-sent events for scripts, which any program that reads lines can follow.

Each event has an id; a client that returns with its last id (`Last-Event-ID`, or `since` in the query) gets what came
since, as long as that is still known here, and else a snapshot, like a new client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from web.callers import Shown
from web.feeds import Kind, News
from web.hall import Hall
from web.query import TEXT, checked
from web.session import shown_by
from wire.errors import BadRequestError
from wire.message import Message

ALIVE_S = 15.0
"""A line that says nothing is sent so often, for whoever stands between."""
MOST_UNREAD = 10_000
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


async def events(request: Request, hall: Hall) -> Response:
    """`GET events?stream=tasks|nodes&since=ID`."""
    asked = checked(request.query_params.multi_items(), {"stream": TEXT, "since": TEXT})
    stream = asked.get("stream", "tasks")
    if stream not in ("tasks", "nodes"):
        raise BadRequestError(Message("bad_subscription", said=stream))
    shown = shown_by(request, hall)
    who: dict[str, Any] = msgspec.json.decode(await hall.callers.call(shown, "auth.whoami", {}))
    kind = await hall.feeds.kind(stream, None, shown, who["scopes"])
    reader = _Reader(hall, kind)
    await reader.begin(request.headers.get("last-event-id") or asked.get("since", ""))
    return StreamingResponse(_told_to(shown, hall, reader), media_type="text/event-stream", headers=HEADERS)


async def _told_to(shown: Shown, hall: Hall, reader: _Reader) -> AsyncIterator[bytes]:
    """Until the log-in ends: the user's own connection ends with it, whoever owns the feed."""
    try:
        async with hall.callers.line(shown) as line:
            async for event in reader.lines(line.upstream.closed):
                yield event
    finally:
        reader.end()


class _Reader:
    """One who follows."""

    def __init__(self, hall: Hall, kind: Kind) -> None:
        self._feeds = hall.feeds
        self._kind = kind
        self._news: asyncio.Queue[News] = asyncio.Queue(MOST_UNREAD)
        self._is_slow = asyncio.Event()
        self._first = b""

    async def begin(self, last: str) -> None:
        """Be told from now on. Raises what the master answers."""
        missed = self._feeds.since(self._kind, self, self._hear, last)
        if missed is not None:
            for news in missed:
                self._hear(news)
            return
        joined = await self._feeds.join(self._kind, self, self._hear, {})
        self._first = _event("snapshot", joined.seq, joined.snapshot)
        joined.begin()

    def _hear(self, news: News) -> None:
        try:
            self._news.put_nowait(news)
        except asyncio.QueueFull:
            self._is_slow.set()

    async def lines(self, over: asyncio.Future[Any]) -> AsyncIterator[bytes]:
        """Yield the lines to send, until the log-in ends or the client reads too slowly."""
        if self._first:
            yield self._taken()
        # Kept over the pauses: what a wait that is given up was just handed would be lost.
        getting = asyncio.ensure_future(self._news.get())
        try:
            while not self._is_slow.is_set():
                await asyncio.wait([getting, over], timeout=ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                if over.done():
                    return
                if not getting.done():
                    yield b":\n\n"
                    continue
                news, getting = getting.result(), asyncio.ensure_future(self._news.get())
                yield _event(news.method, news.seq, news.params)
        finally:
            getting.cancel()

    def _taken(self) -> bytes:
        """Return the snapshot, which may be megabytes, and keep it no longer."""
        first, self._first = self._first, b""
        return first

    def end(self) -> None:
        """Be told nothing more."""
        self._feeds.leave(self._kind, self)


def _event(kind: str, number: str, data: bytes) -> bytes:
    return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), number.encode(), data)
