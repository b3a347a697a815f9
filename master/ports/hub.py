"""The three ports: who comes in, and what they speak.

Each port understands JSON-RPC and the desktop client's dialect, and the agents that dial in. The first byte tells TLS
from plain text, the first complete frame the dialect; a desktop client says nothing on a port that only tells it
things, so there its silence does. Until that is known a connection is an Arrival, under a deadline and a cap per
address; then the transport is handed to a session of that dialect for good, so that finding out costs nothing
afterwards. From other machines plain text is taken from desktop clients only, who know nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from contextlib import suppress

import msgspec

from master.config import DesktopClient
from master.core.heard import Passed
from master.desktop.clients import DesktopClients
from master.desktop.pushes import FIRST_S
from master.desktop.session import DesktopSession
from master.drivers.report import CALL, Desk
from master.engine import Engine
from master.peer import Peer, identify
from master.ports.rpc import Connection
from master.ports.streams import NODES, TASKS, Streams
from master.rates import Rates
from master.tls.entrance import TLS_HANDSHAKE, Listener, first_byte, listen
from master.tls.policy import HANDSHAKE_S, SHUTDOWN_S, Tls, is_loopback
from master.verbs.base import Surroundings
from wire import desktop as desktop_wire
from wire.errors import ConfigError

__all__ = ["NODES", "TASKS", "Connection", "Hub", "PortLimits"]

log = logging.getLogger("muster.ports")

SILENT_S = 1.5
"""Who says nothing for so long on a port that tells things, and may be a desktop client, is one."""
PLAIN_REFUSAL = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32004,"message":"plain text is not accepted from other machines: '
    b'this master speaks TLS (conf.json: tls)","data":{"code":"unauthenticated"}}}\n'
)
FULL_REFUSAL = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32006,"message":"the master has as many connections as conf.json '
    b'allows (limits.connections): close some, or raise it","data":{"code":"limit"}}}\n'
)


class PortLimits(msgspec.Struct, frozen=True):
    """Caps of a connection, from conf.json: sizes in bytes."""

    frame: int
    frame_unidentified: int
    outbox: int
    handshake_s: float
    unidentified: int


class Hub:
    """All connections, and what they share. `desktop` says who may come in with the desktop client's dialect, `tls`
    who must speak TLS, and `desk` receives agents that dial in; without one of these nobody may, or must."""

    def __init__(
        self,
        engine: Engine,
        master: Surroundings,
        limits: PortLimits,
        desktop: DesktopClient | None = None,
        *,
        tls: Tls | None = None,
        desk: Desk | None = None,
    ) -> None:
        self.engine = engine
        self.master = master
        self.limits = limits
        self.tls = tls
        self.desk = desk
        self.connections: set[Arrival | Connection | DesktopSession] = set()
        self.unidentified: dict[Arrival, None] = {}
        self.most = master.config.limits.connections
        self.rates = Rates(master.config.limits)
        self.streams = Streams(engine, master, self.rates)
        access = desktop or DesktopClient(networks=())
        self.desktop = DesktopClients(engine, master, access, self.rates, frame=limits.frame, outbox=limits.outbox)

    async def listen(self, port_name: str, address: str, port: int, backlog: int) -> Listener:
        """Open one of the three ports. Raises OSError."""
        return await listen(address, port, backlog, lambda sock: self._receive(port_name, sock))

    def _receive(self, port_name: str, sock: socket.socket) -> None:
        try:
            address = str(sock.getpeername()[0])
        except OSError:
            sock.close()  # it is gone again
        else:
            Arrival(self, port_name, sock, address).wait()

    def sample(self, node: str, sample: Passed) -> None:
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
        if len(self.connections) > self.most:
            self._make_room(arrival)

    def _make_room(self, arrival: Arrival) -> None:
        """Of too many connections the oldest is given up that is not known; where all are, the new one is refused."""
        oldest = next(iter(self.unidentified))
        if oldest is arrival:
            arrival.is_refused = True
        else:
            oldest.give_up(f"more than {self.most} connections (conf.json: limits.connections), and it said nothing")

    def expect_desktop_clients(self, address: str) -> None:
        """A desktop client has spoken: its other connections, opened just before, will not."""
        for arrival in self.unidentified:
            if arrival.peer.address == address:
                arrival.wait_no_longer()

    def close(self) -> None:
        """Close all connections, sending what is in their buffers."""
        self.desktop.close()
        for connection in list(self.connections):
            if isinstance(connection, Arrival):
                connection.close()
            else:
                connection.transport.close()


class Arrival(asyncio.Protocol):
    """One connection whose dialect is not known yet; afterwards what its session knows of the port it came in by."""

    def __init__(self, hub: Hub, port: str, sock: socket.socket, address: str) -> None:
        self.port = port
        self.peer = Peer(address)
        self._hub = hub
        self._sock = sock
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._is_waiting = False
        self._is_plain = True
        self._is_silent = False
        self.is_refused = False
        self._head = b""
        self._limit = hub.limits.frame_unidentified
        self._silence: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.at = self._loop.time()
        self._deadline: asyncio.TimerHandle | None = self._loop.call_later(hub.limits.handshake_s, self._no_request)

    @property
    def transport(self) -> asyncio.Transport:
        """The connection, once it is open."""
        if self._transport is None:
            raise RuntimeError("the connection is not open yet")
        return self._transport

    # -- the first byte ---------------------------------------------------------------------------------------

    def wait(self) -> None:
        """For the first byte, or for the silence that tells a desktop client."""
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.port in self._hub.streams.subscribers and self._hub.desktop.may_come_from(self.peer.address):
            self._silence = self._loop.call_later(SILENT_S, self._said_nothing)
        self._is_waiting = True
        self._loop.add_reader(self._sock, self._look)
        self._hub.admit(self)

    def _stop_waiting(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_reader(self._sock)

    def _look(self) -> None:
        first = first_byte(self._sock)
        if first is None:
            return
        if first < 0:
            self.close()
        elif self.is_refused:
            self._refuse(first)
        elif first != TLS_HANDSHAKE:
            self._open(None)
        elif self._hub.tls is None or not self._hub.tls.is_on:
            self.give_up("it speaks TLS, which this master does not (conf.json: tls)")
        else:
            try:
                self._open(self._hub.tls.context())
            except ConfigError as error:
                self.give_up(f"it speaks TLS, and there is no certificate: {error}")

    def _open(self, context: ssl.SSLContext | None) -> None:
        self._stop_waiting()
        self._is_plain = context is None
        self._opening = self._loop.create_task(self._connect(context))
        self._opening.add_done_callback(self._opened)

    async def _connect(self, context: ssl.SSLContext | None) -> None:
        await self._loop.connect_accepted_socket(
            lambda: self,
            self._sock,
            ssl=context,
            ssl_handshake_timeout=None if context is None else HANDSHAKE_S,
            ssl_shutdown_timeout=None if context is None else SHUTDOWN_S,
        )

    def _opened(self, opening: asyncio.Task[None]) -> None:
        self._opening = None
        error = None if opening.cancelled() else opening.exception()
        if error is not None:  # a time-out is among them, and what is no TLS after its first byte
            self.give_up(f"no TLS came about: {getattr(error, 'reason', None) or error}")
        elif opening.cancelled():
            self.close()

    # -- the transport's events -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open, and what it says is heard."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a stream was expected, not {transport!r}")
        self._transport = transport
        if self._is_silent:
            self._become_desktop_client()

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget it."""
        self.left(self)

    def data_received(self, data: bytes) -> None:
        """Find out what is spoken."""
        if not self._head and not data.startswith(CALL):  # an agent has a token, whoever runs it
            self._first_bytes()
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
            self._become_one_of_ours()

    def _first_bytes(self) -> None:
        """See who speaks: a known peer may send large frames from the beginning."""
        self.peer = identify(self.transport.get_extra_info("socket"))
        if self.peer.user is not None:
            self._limit = self._hub.limits.frame
            self.identified()

    # -- what becomes of it -----------------------------------------------------------------------------------

    def _said_nothing(self) -> None:
        if self.is_refused:
            self._refuse(None)
            return
        self._is_silent = True
        self._open(None)

    def wait_no_longer(self) -> None:
        """Take silence for what it is likely to be, once the client can hear what it is told."""
        if self._silence is not None and self._opening is None and self._transport is None:
            self._silence.cancel()
            self._silence = self._loop.call_at(max(self._loop.time(), self.at + FIRST_S), self._said_nothing)

    def _refuse(self, first: int | None) -> None:
        if first not in (None, TLS_HANDSHAKE):
            with suppress(OSError):
                # What is left unread turns the close into a reset, which takes the answer away from its reader.
                self._sock.recv(self._limit)
                self._sock.send(FULL_REFUSAL)
        self.give_up(f"there are {self._hub.most} others, all known (conf.json: limits.connections)")

    def _become_one_of_ours(self) -> None:
        hub = self._hub
        if self._is_plain and hub.tls is not None and hub.tls.is_on and not is_loopback(self.peer.address):
            self.transport.write(PLAIN_REFUSAL)
            self.give_up("plain text is not accepted from other machines (conf.json: tls)")
        elif hub.desk is not None and self._head.startswith(CALL) and b"\n" in self._head:
            self.identified()
            hub.connections.discard(self)
            hub.desk.receive(self.transport, self._head, self.peer.address, is_plain=self._is_plain)
        else:
            self._hand_over(Connection(self, hub.streams, limit=self._limit, outbox=hub.limits.outbox))

    def _become_desktop_client(self) -> None:
        clients = self._hub.desktop
        if not clients.lets_in(self._sock, self.peer.address):
            self.transport.close()
            return
        self.peer = Peer(self.peer.address, clients.user)
        self.identified()
        if not self._is_silent:
            self._hub.expect_desktop_clients(self.peer.address)
        self._hand_over(DesktopSession(self, clients))

    def _hand_over(self, session: Connection | DesktopSession) -> None:
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
        self.close()

    def close(self) -> None:
        """Close, at whatever stage it is."""
        if self._transport is not None:
            self._transport.close()
        elif self._opening is not None:
            self._opening.cancel()
        else:
            self._stop_waiting()
            with suppress(OSError):
                self._sock.recv(self._limit)  # to close on what is unread would be a reset
            self._sock.close()
            self.left(self)

    def left(self, session: Arrival | Connection | DesktopSession) -> None:
        """The connection is gone; `session` is what spoke over it at the end."""
        self.identified()
        self._hub.connections.discard(session)

    def _no_request(self) -> None:
        self._deadline = None
        self.give_up(f"no request within {self._hub.limits.handshake_s:g} s")
