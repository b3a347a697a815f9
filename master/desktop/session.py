"""One connection of a desktop client: its requests one after the other, each answered in its turn.

Owns order and patience. A request that is broken is dropped, or refused where it can be told what it was; one that
takes long delays this client's next one and nothing else. What was asked for before the client left still happens.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections import deque
from typing import Any, Protocol

from master.desktop.calls import Kind, Reply
from master.desktop.clients import DesktopClients, Subscription
from master.desktop.outbox import Outbox
from master.desktop.requests import REQUESTS, answer
from master.peer import Peer
from wire import desktop as wire
from wire.errors import LimitError

log = logging.getLogger("muster.desktop")

MOST_REQUESTS = 64
"""Beyond so many that wait for their turn, or as many bytes as one may have, nothing more is read from the client until
all of them were answered."""
TOGETHER_S = 0.5
"""What belongs together the client asks for 0.1 s apart."""
MOST_TOGETHER = 1000
_MODE = re.compile(rb'\s*\{\s*"mode"\s*:\s*"(\w{1,30})"(?:\s*,\s*"ui"\s*:\s*"(\w{1,30})")?')
"""How a request begins that the client has written, whatever is wrong with it further on."""


class Door(Protocol):
    """The connection as `master.ports.hub` sees it. `at`: the loop's time when it came in."""

    port: str
    peer: Peer
    at: float

    def left(self, session: DesktopSession) -> None:
        """It is gone."""


class DesktopSession(asyncio.Protocol):
    """The protocol of a connection once it is known that a desktop client is at its other end."""

    transport: asyncio.Transport

    def __init__(self, door: Door, clients: DesktopClients) -> None:
        self.peer = door.peer
        self._door = door
        self._clients = clients
        self._decoder = wire.Decoder(clients.frame)
        self._waiting: deque[wire.Request | wire.Broken] = deque()
        self._taken = 0
        """Bytes that came in since nothing waited."""
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
        self._outbox = Outbox(transport, limit=self._clients.outbox)
        self._subscription = self._clients.join(self._door.port, self._outbox, self._door.at)

    def connection_lost(self, _error: Exception | None) -> None:
        """Only this connection is gone; the same client's others are their own business."""
        self._gone = True
        if self._subscription is not None:
            self._subscription.end()
        self._outbox.close()
        self._door.left(self)

    def data_received(self, data: bytes) -> None:
        """Take the requests; drop what is none."""
        self._taken += len(data)
        for event in self._decoder.feed(data):
            if isinstance(event, wire.Closing):
                self.transport.close()
                break
            self._waiting.append(event)
        if len(self._waiting) > MOST_REQUESTS or (self._waiting and self._taken > self._clients.frame):
            self.transport.pause_reading()
        if self._waiting and self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())

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
                await self._outbox.free.wait()
        finally:
            self._worker = None

    def _next(self) -> wire.Request | wire.Broken:
        event = self._waiting.popleft()
        if not self._waiting and not self._gone:
            self._taken = 0
            self.transport.resume_reading()
        return event

    async def _answer(self, request: wire.Request) -> None:
        kind = REQUESTS.get(request.mode)
        if kind is None:
            log.debug("a desktop client at %s asked for %.40r", self.peer.address, request.mode)
        elif kind.changes or not self._gone:
            requests = [request]
            if kind.begins is not None and kind.begins(self._clients.context(self.peer), request.info):
                requests += await self._right_behind(request.mode)
            # All begin in the same turn of the loop, and no task is started in the midst of it.
            replies = await asyncio.gather(*(self._reply(kind, one.info) for one in requests))
            for one, (mode, info) in zip(requests, replies, strict=True):
                self._outbox.reply(wire.encode(mode, info, one.ui))

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

    async def _reply(self, kind: Kind, info: Any) -> Reply:
        try:
            self._clients.rates.check(kind.rated, self.peer.address)
        except LimitError as error:
            return kind.refuse(info, str(error))
        return await answer(kind, self._clients.context(self.peer), info)

    def _drop(self, broken: wire.Broken) -> None:
        if self._clients.seldom(self.peer.address):
            log.warning("a desktop client at %s sent what is no request: %s", self.peer.address, broken.why)
        found = _MODE.match(broken.head)
        kind = REQUESTS.get(found[1].decode()) if found else None
        if found is not None and kind is not None:
            mode, info = kind.refuse(None, f"the request could not be read: {broken.why}")
            self._outbox.reply(wire.encode(mode, info, (found[2] or b"main").decode()))
