"""The WebSocket of a page: the master's JSON-RPC, over a connection that one log-in has opened.

Each message is one request, answer or notification of docs/wire.md, with two differences: the first message shows the
key, and `subscribe` says of what (`stream`), for here one connection tells of tasks and nodes, and since when (`since`)
where somebody was cut off: what is told has a number, `seq`. Calls go on side by side, but none begins before a
subscription that was asked for earlier is in effect: a list that is asked for behind it misses nothing. A page that
does not read is given up, as the master gives up who does not read from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from web import problems, shares
from web.callers import Line, Shown
from web.feeds import Kind, News
from web.hall import Hall
from web.newcomer import KNOWN
from web.session import shown_by
from wire.errors import BadRequestError, LimitError, MusterError, ProtocolError, UnauthenticatedError
from wire.message import Message

FIRST_S = 10.0
MOST_CALLS = 32
"""At a time, of one page; further ones wait to be read."""
UNKNOWN, FOREIGN, SLOW, AGAIN = 4401, 4403, 4408, 1012
"""With what it is closed: no log-in (any more); a page of another origin; one that does not read; the master is away,
come again."""


class _First(msgspec.Struct):
    key: Annotated[str, Meta(max_length=200)]


class _Asked(msgspec.Struct):
    method: str
    params: dict[str, Any] = {}
    id: int | str | None = None


class _Who(msgspec.Struct):
    scopes: list[str]


class _Subscribe(msgspec.Struct, forbid_unknown_fields=True):
    """`since`: the `seq` of the last news that a returning client received of this stream. Unknown parameters are
    refused, because the connection to the master may be shared by all users."""

    stream: Literal["tasks", "nodes"] = "tasks"
    ids: list[int] | None = None
    snapshot: Literal["active", "none"] = "active"
    since: str = ""


class Page:
    """One WebSocket."""

    def __init__(self, socket: WebSocket, hall: Hall, shown: Shown, line: Line) -> None:
        self._socket = socket
        self._hall = hall
        self._shown = shown
        self._line = line
        self._unsent: asyncio.Queue[bytes] = asyncio.Queue()
        self._ticket = shares.present()
        self._kinds: dict[str, Kind] = {}
        self._unhooks: dict[str, Callable[[], object]] = {}
        """How the end of each feed is no longer the page's."""
        self._calls: set[asyncio.Task[None]] = set()
        self._subscribing: asyncio.Task[None] | None = None
        """The subscription that was asked for last; a later call waits until it is in effect, or refused."""
        self._room = asyncio.Semaphore(MOST_CALLS)
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Until either side ends it."""
        self._end_with(self._line.upstream.closed)
        working = [asyncio.create_task(self._listen()), asyncio.create_task(self._send())]
        try:
            code = await self._over
        finally:
            for task in [*working, *self._calls]:
                task.cancel()
            await asyncio.gather(*working, *self._calls, return_exceptions=True)
            for kind in self._kinds.values():
                self._hall.feeds.leave(kind, self)
        if self._socket.application_state is WebSocketState.CONNECTED:
            with suppress(RuntimeError, WebSocketDisconnect):
                await self._socket.close(code)

    def _end_with(self, closed: asyncio.Future[MusterError]) -> Callable[[], object]:
        """End with that. Return what to call so that it does not any more."""

        def end(why: asyncio.Future[MusterError]) -> None:
            self._end(UNKNOWN if isinstance(why.result(), UnauthenticatedError) else AGAIN)

        closed.add_done_callback(end)
        self._over.add_done_callback(lambda _code: closed.remove_done_callback(end))
        return partial(closed.remove_done_callback, end)

    def _end(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    # -- out --------------------------------------------------------------------------------------------------

    def tell(self, frame: bytes) -> None:
        """Send a frame, after those before it."""
        try:
            self._keep(len(frame))
        except LimitError:
            self._end(SLOW)
        else:
            self._unsent.put_nowait(frame)

    def _keep(self, size: int) -> None:
        """So many bytes more are unsent. Raises LimitError if too many are for this user."""
        if self._ticket is not None:
            self._ticket.hold(size)

    async def _send(self) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):
            while True:
                frame = await self._unsent.get()
                await self._socket.send_text(frame.decode())
                self._keep(-len(frame))
                del frame  # it may be megabytes, and the next one may be far away
        self._end(1000)

    # -- in ---------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        with suppress(WebSocketDisconnect):
            while True:
                try:
                    asked = msgspec.json.decode(await self._socket.receive_text(), type=_Asked)
                except KeyError:  # Starlette's, where the message is of bytes
                    self._refuse(None, ProtocolError(Message("bad_frame", said="the message is not text")))
                    continue
                except (msgspec.DecodeError, RecursionError) as error:
                    self._refuse(None, ProtocolError(Message("bad_frame", said=str(error))))
                    continue
                await self._room.acquire()
                call = asyncio.create_task(self._answer(asked, self._subscribing))
                self._calls.add(call)
                call.add_done_callback(self._answered)
                if asked.method == "subscribe":
                    self._subscribing = call
        self._end(1000)

    def _answered(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._room.release()

    async def _answer(self, asked: _Asked, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            # Waited for here, and not where the page is heard: what it sends is read on, so that its end is noticed.
            await asyncio.wait([earlier])
        try:
            if asked.method == "subscribe":
                await self._subscribe(asked)
            else:
                result = await self._line.call(asked.method, asked.params, self._shown)
                self._result(asked, result)
        except MusterError as error:
            self._refuse(asked.id, error)

    def _result(self, asked: _Asked, result: bytes | msgspec.Raw) -> None:
        if asked.id is not None:
            self.tell(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (msgspec.json.encode(asked.id), bytes(result)))

    def _refuse(self, number: int | str | None, error: MusterError) -> None:
        told = problems.body(error)
        data = {"code": error.code, "key": error.key, "args": error.values}
        frame = {
            "jsonrpc": "2.0",
            "id": number,
            "error": {"code": error.rpc_code, "message": told["detail"], "data": data},
        }
        self.tell(msgspec.json.encode(frame))

    # -- what is told unasked ---------------------------------------------------------------------------------

    async def _subscribe(self, asked: _Asked) -> None:
        try:
            wanted = msgspec.convert(asked.params, _Subscribe)
        except msgspec.ValidationError as error:
            raise BadRequestError(Message("bad_subscription", said=str(error))) from None
        feeds = self._hall.feeds
        who = msgspec.json.decode(await self._line.call("auth.whoami", {}, self._shown), type=_Who)
        kind = await feeds.kind(wanted.stream, wanted.ids, self._shown, who.scopes)
        params: dict[str, Any] = {"snapshot": wanted.snapshot}
        if kind.ids is not None:
            params["ids"] = kind.ids
        before = self._kinds.pop(wanted.stream, None)
        if before is not None:
            self._unhooks.pop(wanted.stream, _nothing)()
            feeds.leave(before, self)

        def hear(news: News) -> None:
            self.tell(news.frame)

        missed = feeds.since(kind, self, hear, wanted.since)
        if missed is None:
            joined = await feeds.join(kind, self, hear, params)
            self._result(asked, joined.snapshot)
            joined.begin()
        else:
            self._result(asked, msgspec.json.encode({"seq": wanted.since, "resumed": True}))
            for news in missed:
                hear(news)
        self._kinds[wanted.stream] = kind
        closed = feeds.closed(kind)
        if closed is None:
            self._end(AGAIN)
        else:
            self._unhooks[wanted.stream] = self._end_with(closed)


def _nothing() -> None: ...


async def live(socket: WebSocket, hall: Hall) -> None:
    """`live`: from the handshake to the end."""
    whence = socket.scope["muster"]
    await socket.accept()
    try:
        hall.gate.check_origin(whence, socket.headers, needed="authorization" not in socket.headers)
    except MusterError:
        await socket.close(FOREIGN)
        return
    try:
        shown = await _shown(socket, hall)
        async with hall.callers.line(shown) as line:
            socket.scope.get(KNOWN, _nothing)()
            await Page(socket, hall, shown, line).run()
    except (UnauthenticatedError, BadRequestError):
        await socket.close(UNKNOWN)
    except LimitError:
        await socket.close(1013)
    except MusterError:
        await socket.close(AGAIN)
    except WebSocketDisconnect:
        return


async def _shown(socket: WebSocket, hall: Hall) -> Shown:
    """Return the user, from the first message. Raises UnauthenticatedError, WebSocketDisconnect."""
    try:
        async with asyncio.timeout(FIRST_S):
            first = msgspec.json.decode(await socket.receive_text(), type=_First)
    except (TimeoutError, msgspec.DecodeError, RecursionError, KeyError):
        raise UnauthenticatedError(Message("sign_in_first")) from None
    return shown_by(socket, hall, first.key)
