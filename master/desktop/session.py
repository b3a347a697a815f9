"""One connection of a desktop client: its requests are answered one after the other, in order.

Owns order and patience. A broken request is dropped, or refused if its kind can be recognised; a slow one delays
only the next request of this client. Requests that arrived before the client left are still carried out.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections import deque
from types import ModuleType

from master.desktop.clients import DesktopClients, Subscription
from master.desktop.send_queue import SendQueue
from master.sessions.session import Connection, Session
from master.verbs.call import Calls
from wire import desktop as wire
from wire.errors import ForbiddenError

log = logging.getLogger("muster.desktop")

MOST_REQUESTS = 64
"""Beyond so many that wait for their turn, or as many bytes as one may have, nothing more is read from the client until
all of them were answered."""
TOGETHER_S = 0.5
"""The client sends requests that belong together 0.1 s apart."""
MOST_TOGETHER = 1000
_MODE = re.compile(rb'\s*\{\s*"mode"\s*:\s*"(\w{1,30})"(?:\s*,\s*"ui"\s*:\s*"(\w{1,30})")?')
"""How a request begins that the client has written, whatever is wrong with it further on."""


def _requests() -> ModuleType:
    """Return the module that answers requests. It is loaded at a client's first request, for most labs have none."""
    from master.desktop import requests  # noqa: PLC0415  (see above)

    return requests


class DesktopSession(Session):
    """The protocol of a connection once it is known that a desktop client is at its other end."""

    transport: asyncio.Transport

    def __init__(self, connection: Connection, calls: Calls, clients: DesktopClients) -> None:
        self.peer = connection.peer
        self._connection = connection
        self._calls = calls
        self._clients = clients
        self._decoder = wire.Decoder(clients.frame, from_start=True)
        self._waiting: deque[wire.Request | wire.Broken] = deque()
        self._taken = 0
        """Bytes that came in since nothing waited."""
        self._at_work = 0
        """Bytes, at most, of the request that is being answered."""
        self._begun = False
        self._asks = False
        """It has asked for something on the port that answers."""
        self._worker: asyncio.Task[None] | None = None
        self._subscription: Subscription | None = None
        self._gone = False

    # -- the transport's events -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to push what the port is for."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a stream was expected, not {transport!r}")
        self.transport = transport
        sock: socket.socket = transport.get_extra_info("socket")
        # The client says nothing for days; one whose machine was switched off should not be kept for ever.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._send_queue = SendQueue(transport, limit=lambda: self._clients.outbox, changed=self._hold)
        self._calls.watch(self.look_again)
        try:
            self._subscription = self._clients.join(
                self._connection.port, self._calls, self._send_queue, self._connection.at
            )
        except ForbiddenError as error:
            self._connection.cut(str(error))

    def connection_lost(self, _error: Exception | None) -> None:
        """Only this connection is gone; the same client's others are their own business."""
        self._gone = True
        if self._subscription is not None:
            self._subscription.end()
        self._send_queue.close()
        self._calls.close()
        if self._asks:
            self._clients.went(self.peer)
        self._connection.left()

    def data_received(self, data: bytes) -> None:
        """Take the requests; drop other data. A connection that begins in another protocol is no desktop client."""
        if self.transport.is_closing():
            return
        self._taken += len(data)
        self._decoder.let(self._clients.frame)
        for event in self._decoder.feed(data):
            if isinstance(event, wire.Closing):
                self.transport.close()
                break
            if isinstance(event, wire.Broken) and event.is_foreign:
                self._waiting.clear()
                self._connection.cut(f"no desktop client begins so: {event.why}")
                return
            if isinstance(event, wire.Broken) and not self._begun:
                self._note(event)
                continue
            self._begin()
            self._waiting.append(event)
        if not self._hold():
            self._waiting.clear()
            return
        if len(self._waiting) > MOST_REQUESTS or (self._waiting and self._taken > self._clients.frame):
            self.transport.pause_reading()
        if self._waiting and self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())

    def look_again(self) -> None:
        """Something changed of the people that there are."""
        if self._gone or self.transport.is_closing():
            return
        if not self._calls.look_again():
            self._connection.cut("its user may not connect any more")

    def finish(self) -> None:
        """Close the connection; what was written to it before is still sent."""
        self.transport.close()

    def _begin(self) -> None:
        self._begun = True
        if self._subscription is not None:
            return
        self._clients.asked(self.peer.address)
        if not self._asks:
            self._asks = True
            self._clients.came(self.peer)
            self._connection.asks()

    def keeps(self) -> int:
        """Return how many bytes are kept for it now."""
        waiting = self._taken if self._waiting else self._decoder.pending
        return waiting + self._at_work + self.unread()

    def unread(self) -> int:
        """Return how many bytes of answers are kept for it."""
        return self._send_queue.size

    def _hold(self) -> bool:
        return self._connection.hold(self.keeps())

    # -- requests ---------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Answer what waits, in order."""
        try:
            while self._waiting:
                event = self._next()
                if isinstance(event, wire.Broken):
                    self._drop(event)
                else:
                    await self._answer(event)
                self._at_work = 0
                self._hold()
                await self._send_queue.free.wait()
        finally:
            self._worker = None

    def _next(self) -> wire.Request | wire.Broken:
        event = self._waiting.popleft()
        if not self._waiting and not self._gone:
            self._at_work = self._taken
            self._taken = self._decoder.pending
            self.transport.resume_reading()
        return event

    async def _answer(self, request: wire.Request) -> None:
        answers = _requests()
        kind = answers.REQUESTS.get(request.mode)
        if kind is None:
            log.debug("a desktop client at %s asked for %.40r", self.peer.address, request.mode)
        elif kind.changes or not self._gone:
            requests = [request]
            if kind.begins is not None and kind.begins(self._calls, request.info):
                requests += await self._right_behind(request.mode)
            # All begin in the same turn of the loop, and no task is started in the midst of it.
            replies = await asyncio.gather(*(answers.answer(kind, self._calls, one.info) for one in requests))
            for one, (mode, info) in zip(requests, replies, strict=True):
                self._send_queue.reply(wire.encode(mode, info, one.ui))

    async def _right_behind(self, mode: str) -> list[wire.Request]:
        """The requests of this mode that come next, until none came for TOGETHER_S."""
        found: list[wire.Request] = []
        before = -1
        while before < len(found) < MOST_TOGETHER:
            before = len(found)
            await asyncio.sleep(TOGETHER_S)
            while self._waiting and isinstance(one := self._waiting[0], wire.Request) and one.mode == mode:
                self._next()
                found.append(one)
        return found

    def _note(self, broken: wire.Broken) -> None:
        if self._clients.seldom(self.peer.address):
            log.warning("a desktop client at %s sent what is no request: %s", self.peer.address, broken.why)

    def _drop(self, broken: wire.Broken) -> None:
        self._note(broken)
        found = _MODE.match(broken.head)
        kind = _requests().REQUESTS.get(found[1].decode()) if found else None
        if found is not None and kind is not None:
            from master.desktop.chinese import words_in_chinese  # noqa: PLC0415  (a start has no use for it)

            mode, info = kind.refuse(None, words_in_chinese(f"the request could not be read: {broken.why}"))
            self._send_queue.reply(wire.encode(mode, info, (found[2] or b"main").decode()))
