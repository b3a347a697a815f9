"""The three ports: who comes in, and what they speak.

Each port understands JSON-RPC and the desktop client's dialect. The first complete frame tells which; a desktop client
says nothing on a port that only tells it things, so there its silence does. Until that is known a connection is an
Arrival, under a deadline and a cap per address; then the transport is handed to a session of that dialect for good, so
that finding out costs nothing afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from typing import Any

import msgspec

from master import rpc
from master.config import DesktopClient
from master.desktop.clients import DesktopClients
from master.desktop.session import DesktopSession
from master.engine import Engine
from master.peer import Peer, identify
from master.rpc import NODES, TASKS, Connection
from master.verbs.base import Surroundings
from wire import desktop as desktop_wire

__all__ = ["NODES", "TASKS", "Connection", "Hub", "PortLimits"]

log = logging.getLogger("muster.ports")

SILENT_S = 1.5
"""Who says nothing for so long on a port that tells things, and may be a desktop client, is one."""
TLS_HANDSHAKE = 0x16
"""The first byte of a TLS record that opens a connection; no frame of either dialect begins with it."""


class PortLimits(msgspec.Struct, frozen=True):
    """Caps of a connection, from conf.json: sizes in bytes."""

    frame: int
    frame_unidentified: int
    outbox: int
    handshake_s: float
    unidentified: int


class Hub:
    """All connections, and what they share. `desktop` says who may come in with the desktop client's dialect; without
    it nobody may."""

    def __init__(
        self, engine: Engine, master: Surroundings, limits: PortLimits, desktop: DesktopClient | None = None
    ) -> None:
        self.engine = engine
        self.master = master
        self.limits = limits
        self.connections: set[Arrival | rpc.Connection | DesktopSession] = set()
        self.unidentified: dict[Arrival, None] = {}
        self.streams = rpc.Streams(engine, master)
        self.desktop = DesktopClients(
            engine, master, desktop or DesktopClient(networks=()), frame=limits.frame, outbox=limits.outbox
        )

    @property
    def subscribers(self) -> dict[str, dict[rpc.Connection, None]]:
        """Who is told what, by port."""
        return self.streams.subscribers

    async def listen(self, port_name: str, address: str, port: int, backlog: int) -> asyncio.Server:
        """Open one of the three ports. Raises OSError."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: Arrival(self, port_name), address, port, backlog=backlog)

    def sample(self, node: str, sample: dict[str, Any]) -> None:
        """Pass a sample of a node on."""
        self.streams.sample(node, sample)
        self.desktop.sample(node, sample)

    def admit(self, arrival: Arrival) -> None:
        """A new connection; of too many unidentified ones of an address the oldest is given up."""
        self.connections.add(arrival)
        self.unidentified[arrival] = None
        same = Counter(other.peer.address for other in self.unidentified)[arrival.peer.address]
        if same > self.limits.unidentified:
            oldest = next(other for other in self.unidentified if other.peer.address == arrival.peer.address)
            oldest.give_up(
                f"more than {self.limits.unidentified} connections of {oldest.peer.address} that said nothing"
            )

    def close(self) -> None:
        """Close all connections, sending what is in their buffers."""
        self.desktop.close()
        for connection in list(self.connections):
            connection.transport.close()


class Arrival(asyncio.Protocol):
    """One connection whose dialect is not known yet; afterwards what its session knows of the port it came in by."""

    transport: asyncio.Transport

    def __init__(self, hub: Hub, port: str) -> None:
        self.port = port
        self.peer = Peer("")
        self.at = 0.0
        self._hub = hub
        self._head = b""
        self._limit = hub.limits.frame_unidentified
        self._deadline: asyncio.TimerHandle | None = None
        self._silence: asyncio.TimerHandle | None = None

    # -- the transport's events -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the deadline for the first request, and for the silence that tells a desktop client."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a stream was expected, not {transport!r}")
        self.transport = transport
        name = transport.get_extra_info("peername")
        self.peer = Peer(name[0] if name else "")
        sock: socket.socket = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop = asyncio.get_running_loop()
        self.at = loop.time()
        self._deadline = loop.call_later(self._hub.limits.handshake_s, self._no_request)
        if self.port in self._hub.subscribers and self._hub.desktop.may_come_from(self.peer.address):
            self._silence = loop.call_later(SILENT_S, self._said_nothing)
        self._hub.admit(self)

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget it."""
        self.left(self)

    def data_received(self, data: bytes) -> None:
        """Find out what is spoken."""
        if not self._head:
            self._first_bytes(data)
        head, self._head = self._head, self._head + data
        # Only a newline or a terminator tells; where neither came, looking through all of it again tells no more.
        fresh = self._head[max(0, len(head) - len(desktop_wire.TERMINATOR)) :]
        if b"\n" in data or desktop_wire.TERMINATOR in fresh:
            speaks_desktop = desktop_wire.begins_dialect(self._head)
        else:
            speaks_desktop = None if len(self._head) <= self._limit else False
        if speaks_desktop:
            self._become_desktop_client()
        elif speaks_desktop is False:
            limits = self._hub.limits
            self._hand_over(rpc.Connection(self, self._hub.streams, limit=self._limit, outbox=limits.outbox))

    def _first_bytes(self, data: bytes) -> None:
        """See who speaks: a known peer may send large frames from the beginning."""
        if self._silence is not None:
            self._silence.cancel()
        if data[0] == TLS_HANDSHAKE:
            # The place where TLS begins: before anything was taken from the socket, so by a look at it (MSG_PEEK).
            self.give_up("it speaks TLS, which this master does not")
            return
        self.peer = identify(self.transport.get_extra_info("socket"))
        if self.peer.user is not None:
            self._limit = self._hub.limits.frame
            self.identified()

    # -- what becomes of it -----------------------------------------------------------------------------------

    def _said_nothing(self) -> None:
        if not self.transport.is_closing():
            self._become_desktop_client()

    def _become_desktop_client(self) -> None:
        clients = self._hub.desktop
        if not clients.may_come_from(self.peer.address):
            clients.refuse(self.peer.address)
            self.transport.close()
            return
        self.peer = Peer(self.peer.address, clients.user)
        self.identified()
        self._hand_over(DesktopSession(self, clients))

    def _hand_over(self, session: rpc.Connection | DesktopSession) -> None:
        head, self._head = self._head, b""
        self._hub.connections.discard(self)
        self._hub.connections.add(session)
        self.transport.set_protocol(session)
        session.connection_made(self.transport)
        if head:
            session.data_received(head)

    def identified(self) -> None:
        """It is known who speaks: no deadline any more, and no place among those that are not known."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._hub.unidentified.pop(self, None)

    def give_up(self, why: str) -> None:
        """Close, saying why in the log."""
        log.warning("the connection of %s on %s is closed: %s", self.peer.address, self.port, why)
        self.transport.close()

    def left(self, session: Arrival | rpc.Connection | DesktopSession) -> None:
        """The connection is gone; `session` is what spoke over it at the end."""
        self.identified()
        if self._silence is not None:
            self._silence.cancel()
        self._hub.connections.discard(session)

    def _no_request(self) -> None:
        self._deadline = None
        self.give_up(f"no request within {self._hub.limits.handshake_s:g} s")
