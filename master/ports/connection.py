"""A connection that was accepted: first it finds out what is spoken, then a session speaks over it.

Owns finding out: the first byte tells TLS from plain text, the first complete frame the dialect. Until then it is under
a deadline and holds little; then the transport is handed to a session of that dialect for good, so that finding out
costs nothing afterwards. A connection that breaks every dialect, as a browser's request does, is closed before any of
it is obeyed: a stranger's page must not speak through the browser of somebody with access.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, Protocol

from master.callers.peer import Peer
from master.desktop.pushes import FIRST_S
from master.desktop.session import DesktopSession
from master.people.desktop_names import is_admins
from master.sessions.json_rpc import JsonRpcSession
from master.sessions.json_rpc_frames import refusal
from master.sessions.session import Connection, Session
from master.tls.entrance import TLS_HANDSHAKE, first_byte
from master.tls.policy import HANDSHAKE_S, SHUTDOWN_S, is_loopback
from master.verbs.access import Caller, by_desktop_client, whence_of
from master.verbs.base import Told
from master.verbs.call import Calls
from wire import desktop as desktop_wire
from wire.errors import ConfigError, LimitError, MusterError, ProtocolError, UnauthenticatedError
from wire.framing import FrameError, strict_loads
from wire.message import Message

if TYPE_CHECKING:
    from master.ports.port_server import PortServer

log = logging.getLogger("muster.ports")

AGENT = b'{"op":'
"""The beginning of the first line of an agent that dials in, and of a machine that fetches what an agent needs."""
NO_OBJECT = Message("no_object")
PLAIN = Message("no_plain_text")
DESKTOP_ONLY = Message("desktop_clients_only")
NOT_DESKTOP = "conf.json's desktop_client.ports says that desktop clients have ports of their own"

TASKS, NODES = "train_state_port", "monitor_port"
TELLS: dict[str, Told] = {TASKS: "tasks", NODES: "nodes"}
"""The news of the ports that have any: what JSON-RPC sessions there can subscribe to, and what desktop clients wait for
in silence."""

Speaks = Literal["both", "ours", "desktop"]
"""The dialects that a port understands."""


class AgentReception(Protocol):
    """Where agents that dial in are received."""

    def receive(self, transport: asyncio.Transport, line: bytes, address: str, *, whence: str, is_plain: bool) -> None:
        """The connection is its from here on, with the first line that came over it. `whence`: with whose others it is
        counted."""


class AcceptedConnection(asyncio.Protocol):
    """One connection. `peer`: who is there, as far as the kernel knows; `at`: the loop's time when it came."""

    def __init__(self, server: PortServer, port: str, speaks: Speaks, sock: socket.socket, peer: Peer) -> None:
        self.port = port
        self.peer = peer
        self.session: Session | None = None
        """Its session, once it is known what is spoken."""
        self._server = server
        self._speaks = speaks
        self._sock = sock
        self._fd = sock.fileno()
        self._transport: asyncio.Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._is_waiting = False
        self._is_plain = True
        self._is_silent = False
        self._is_over = False
        self._refused: Message | None = None
        self._head = b""
        # A known peer may send large frames from the beginning.
        self._limit = server.limits.frame_bytes_unidentified if peer.user is None else server.limits.frame_bytes
        self._silence: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.at = self._loop.time()
        self._patience_s = server.limits.handshake_s
        self._deadline: asyncio.TimerHandle | None = self._loop.call_later(self._patience_s, self._no_request)

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
        tells = self.port in TELLS and self._speaks != "ours"
        if tells and self._server.desktop.may_come_from(self.peer.address):
            self._silence = self._loop.call_later(self._server.desktop.silent_s, self._said_nothing)
        if self._server.loop is not None and not self.peer.is_ours:
            self._server.loop.behind(self._fd)
        self._is_waiting = True
        self._loop.add_reader(self._sock, self._look)
        self._refused = self._server.admit(self)

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
        elif self._refused is not None:
            self._refuse(self._refused)
        elif first != TLS_HANDSHAKE:
            self._open(None)
        elif self._speaks == "desktop":
            self.give_up(f"it speaks TLS: {DESKTOP_ONLY}")
        elif self._server.tls is None or not self._server.tls.is_on:
            self.give_up("it speaks TLS, which this master does not (conf.json: tls)")
        else:
            try:
                self._open(self._server.tls.context())
            except ConfigError as error:
                self.give_up(f"it speaks TLS, and there is no certificate: {error}")

    def _refuse(self, why: Message) -> None:
        with suppress(OSError):
            # Unread bytes turn the close into a reset, which takes the answer away from its reader.
            said = self._sock.recv(self._limit)
            if said[:1] == b"{" and b"\n" in said:
                self._sock.send(refusal(LimitError(why)))
        self.give_up(str(why))

    def _open(self, context: ssl.SSLContext | None) -> None:
        self._stop_waiting()
        self._is_plain = context is None
        self._opening = self._loop.create_task(self._connect(context))
        self._opening.add_done_callback(self._opened)

    async def _connect(self, context: ssl.SSLContext | None) -> None:
        self.peer = await self._server.looked_up(self.peer)
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
        """Begin to read from the connection."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a stream was expected, not {transport!r}")
        self._transport = transport
        if self._is_silent:
            self._become_desktop_client()

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget it."""
        self.left()

    def data_received(self, data: bytes) -> None:
        """Find out what is spoken."""
        if self._is_over:
            return
        head = self._head
        self._head = (head + data).lstrip(b" \t\r\n") if not head else head + data
        if not self.hold(len(self._head)):
            return
        if self._head.startswith(AGENT):  # an agent has a token, whoever runs it
            self._limit = self._server.limits.frame_bytes_unidentified
        # Only a newline or a terminator tells; where neither came, looking through all of it again tells no more.
        fresh = self._head[max(0, len(head) - len(desktop_wire.TERMINATOR)) :]
        tells = b"\n" in data or desktop_wire.TERMINATOR in fresh
        speaks_desktop = desktop_wire.begins_dialect(self._head) if tells and self._head else None
        if speaks_desktop:
            self._become_desktop_client()
        elif self._head[:1] not in (b"{", b""):
            self._hear_no_object()
        elif speaks_desktop is False or len(self._head) > self._limit:
            self._become_one_of_ours()

    def _hear_no_object(self) -> None:
        """It began with what begins no request of ours, nor one of the desktop client's."""
        head = self._head
        if desktop_wire.HTTP.match(head):
            self.cut("what it says looks like HTTP")
        elif self._may_be_desktop_clients():
            # A broken frame of theirs is dropped and the next one answered, so its end is waited for.
            if desktop_wire.TERMINATOR in head:
                self._become_desktop_client()
            elif desktop_wire.is_foreign(head, len(head)):
                self.cut("no desktop client begins so, and no other client of ours")
        elif b"\n" in head or len(head) > desktop_wire.NO_FRAME or not head[:1].isalpha():
            self._refuse_aloud(ProtocolError(NO_OBJECT))

    def _may_be_desktop_clients(self) -> bool:
        """Tell whether bytes that begin no request may be a broken frame of a desktop client. A line of JSON is none on
        a port that others use, too."""
        if self._speaks == "ours" or not self._is_plain or self._server.desktop.objection(self.peer) is not None:
            return False
        line, newline, _ = self._head.partition(b"\n")
        return not newline or self._speaks == "desktop" or desktop_wire.TERMINATOR in line or not _is_json(line)

    # -- what becomes of it -----------------------------------------------------------------------------------

    def _said_nothing(self) -> None:
        """From where a desktop client asks, silence is a desktop client's. Elsewhere the peer may still speak."""
        if not self._server.desktop.is_at(self.peer.address):
            return
        if self._refused is not None:
            self.give_up(str(self._refused))
            return
        self._is_silent = True
        self._open(None)

    def wait_no_longer(self) -> None:
        """Take silence for what it is likely to be, once the client can receive answers."""
        if self._silence is not None and self._opening is None and self._transport is None:
            self._silence.cancel()
            self._silence = self._loop.call_at(max(self._loop.time(), self.at + FIRST_S), self._said_nothing)

    def _become_one_of_ours(self) -> None:
        server = self._server
        why = self._why_none_of_ours()
        if why is not None:
            self._refuse_aloud(why)
        elif server.reports is not None and self._head.startswith(AGENT) and b"\n" in self._head:
            self._become_agent(server.reports)
        else:
            self._become_client(Calls(server.dispatcher, server.identify(self.peer)))

    def _why_none_of_ours(self) -> MusterError | None:
        """Return why no dialect of ours is spoken with this peer, None if one is."""
        tls = self._server.tls
        if self._speaks == "desktop":
            return ProtocolError(DESKTOP_ONLY)
        if self._is_plain and tls is not None and tls.is_on and not is_loopback(self.peer.address):
            return UnauthenticatedError(PLAIN)
        return None

    def _become_agent(self, reports: AgentReception) -> None:
        self._known()
        self._come_forward()
        self._server.places.leave(self)
        self._server.connections.discard(self)
        self._is_over = True
        reports.receive(
            self.transport, self._head, self.peer.address, whence=whence_of(self.peer), is_plain=self._is_plain
        )

    def _become_client(self, calls: Calls) -> None:
        # An unidentified peer holds one of the places for unidentified peers.
        why = None if calls.caller.user is None else self.settle(calls.caller)
        if why is not None:
            self._refuse_aloud(LimitError(why))
        else:
            self._hand_over(self._json_rpc(self, calls))

    def _json_rpc(self, connection: Connection, calls: Calls) -> JsonRpcSession:
        """Return a session that deals with this connection, by itself or in a dialect around JSON-RPC."""
        limit = self._limit
        is_agent = self._head.startswith(AGENT)
        return JsonRpcSession(
            connection,
            calls,
            self._server.streams,
            tells=TELLS.get(self.port),
            limit=limit,
            known_limit=(lambda: limit) if is_agent else (lambda: self._server.limits.frame_bytes),
            patience_s=self._server.limits.handshake_s,
            room=lambda: self._server.limits.outbox_bytes,
        )

    def _become_desktop_client(self) -> None:
        clients = self._server.desktop
        why = (
            NOT_DESKTOP if self._speaks == "ours" else clients.objection(self.peer) or self._server.places.settle(self)
        )
        if why is not None:
            if clients.seldom(self.peer.address):
                log.warning("a desktop client at %s was not let in: %s", self.peer.address, why)
            self.abort()
            return
        self._come_forward()
        name = clients.user_at(self.peer.address)
        calls = Calls(self._server.dispatcher, by_desktop_client(self.peer.address, name))
        if calls.caller.user is None:
            is_closed = is_admins(name, self._server.engine.core.people)
            why = "an admin, whom desktop clients cannot be" if is_closed else "no user that may come in"
            self.cut(f"it would be {name} (conf.json: desktop_client), who is {why} (`muster users list`)")
            return
        self._hand_over(DesktopSession(self, calls, clients))

    def _hand_over(self, session: Session) -> None:
        self._known()
        head, self._head = self._head, b""
        self.session = session
        self.transport.set_protocol(session)
        session.connection_made(self.transport)
        if head:
            session.data_received(head)

    def _known(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse_aloud(self, error: MusterError) -> None:
        """Tell what is wrong, and close."""
        self._is_over = True
        self.transport.write(refusal(error))
        self.give_up(str(error))

    # -- what its session asks of it, and what is asked of its session ----------------------------------------------

    def settle(self, caller: Caller) -> Message | None:
        """We know who is there; why they cannot stay, if they cannot."""
        is_service = caller.via == "service"
        is_relayed = caller.is_relayed and caller.user is not None
        why = self._server.places.settle(self, caller.counted_as, is_service=is_service, is_relayed=is_relayed)
        if why is None:
            self._come_forward()
        return why

    def _come_forward(self) -> None:
        """Strangers stand behind it from now on; or it is over."""
        if self._server.loop is not None:
            self._server.loop.before(self._fd)

    def hold(self, size: int) -> bool:
        """So many bytes are kept for it. False: that is too much, and it was given up."""
        return self._server.places.hold(self, size)

    def keeps(self) -> int:
        """Return how many bytes are kept for it now."""
        return len(self._head) if self.session is None else self.session.keeps()

    def unread(self) -> int:
        """Return how many bytes it has not read."""
        return 0 if self.session is None else self.session.unread()

    def asks(self) -> None:
        """A desktop client begins to ask for things: its other connections, opened just before, will say nothing."""
        self._server.expect_desktop_clients(self.peer.address)

    def look_again(self) -> None:
        """Users or tokens changed: end the connection if its user may not connect any more."""
        if self.session is not None:
            self.session.look_again()

    def finish(self) -> None:
        """The master ends: send what is ready to be sent, and close."""
        if self.session is not None:
            self.session.finish()
        else:
            self.close()

    def give_up(self, why: str) -> None:
        """Close, saying why in the log; what was to be sent still is."""
        log.warning("the connection of %s on %s is closed: %s", self.peer.address, self.port, why)
        self.close()

    def cut(self, why: str) -> None:
        """Close at once, saying why in the log and nothing to the other side."""
        log.warning("the connection of %s on %s is closed: %s", self.peer.address, self.port, why)
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._is_over = True
            self._transport.abort()
        else:
            self.close()

    def close(self) -> None:
        """Close, at any stage."""
        self._is_over = True
        if self._transport is not None:
            self._transport.close()
        elif self._opening is not None:
            self._opening.cancel()
        else:
            self._stop_waiting()
            with suppress(OSError):
                self._sock.recv(self._limit)  # to close on what is unread would be a reset
            self._sock.close()
            self.left()

    def left(self) -> None:
        """The connection is gone."""
        self._head = b""
        self._known()
        self._come_forward()
        self._server.places.leave(self)
        self._server.connections.discard(self)

    def _no_request(self) -> None:
        self._deadline = None
        if self._head[:1] not in (b"{", b"") and self._transport is not None:
            self._refuse_aloud(ProtocolError(NO_OBJECT))
        else:
            self.give_up(f"no request within {self._patience_s:g} s")


def _is_json(line: bytes) -> bool:
    try:
        strict_loads(line)
    except FrameError:
        return False
    return True
