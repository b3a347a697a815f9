"""All connections to the agent's socket, and which of them is the master's.

It owns accepting, sending and giving up: who is silent, who never said hello, and what to do when descriptors run out.
The server decides what is said on a connection.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from typing import Any, Callable, Dict, Optional

from wire.agent import HEARTBEAT_S
from wire.framing import FrameError

from .connection import Connection

BEATS = 3
"""A master that says nothing for so many heartbeats is gone."""
HELLO_S = 10.0
"""A connection that has not said whose it is by then is given up."""
FULL_S = 1.0
"""How long nobody is accepted when descriptors or memory have run out."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Connections:
    """`on_message` is told each message and whose it is, `on_lost` that the master's connection is gone; `complain`
    writes to the agent's log. `master`: the connection that was welcomed last; `silence_s`: after so long without a
    word it is given up."""

    def __init__(
        self,
        poller: select.poll,
        *,
        on_message: Callable[[Connection, Any], None],
        on_lost: Callable[[], None],
        complain: Callable[[str], None],
    ) -> None:
        self.master: Optional[Connection] = None
        self.silence_s = BEATS * HEARTBEAT_S
        self._poller = poller
        self._on_message = on_message
        self._on_lost = on_lost
        self._complain = complain
        self._listener: Optional[socket.socket] = None
        self._deaf_until = 0.0
        self._all: Dict[int, Connection] = {}

    def listen(self, listener: socket.socket) -> None:
        """Accept what comes there."""
        self._listener = listener
        self._poller.register(listener, select.POLLIN)

    def on_ready(self, fd: int, events: int) -> None:
        """Handle what the poller says of a descriptor; one that is none of ours is passed over."""
        listener = self._listener
        if listener is not None and fd == listener.fileno():
            self._accept(listener)
            return
        connection = self._all.get(fd)
        if connection is None:
            return
        if events & ~select.POLLOUT:
            self._read(connection)
        if connection.closed:
            self._drop(connection)

    def welcome(self, connection: Connection, incarnation: str) -> None:
        """This one is the master's from now on."""
        if self.master is not None:
            self._drop(self.master)
        self.silence_s = BEATS * HEARTBEAT_S
        self.master = connection
        connection.incarnation = incarnation

    def expect(self, heartbeat_s: float) -> None:
        """The master's pings come so often from now on."""
        self.silence_s = BEATS * heartbeat_s

    def living_master(self, now: float) -> Optional[Connection]:
        """The master's connection, if it was heard a moment ago; `now` is monotonic seconds."""
        master = self.master
        is_alive = master is not None and not master.closed and now - master.heard_at < self.silence_s
        return master if is_alive else None

    def emit(self, message: Any) -> None:
        """Queue a message for the master, if there is one."""
        if self.master is not None:
            self.master.send(message)

    def emit_line(self, line: bytes) -> None:
        """The same, of one that is encoded already."""
        if self.master is not None:
            self.master.send_line(line)

    def flush(self) -> None:
        """Send what goes without waiting."""
        for connection in list(self._all.values()):
            if connection.wants_to_write:
                connection.flush()
            if connection.closed:
                self._drop(connection)
            else:
                interest = select.POLLIN | (select.POLLOUT if connection.wants_to_write else 0)
                self._poller.modify(connection.sock, interest)

    def look(self, now: float) -> None:
        """From time to time: give up who is silent, and listen again; `now` is monotonic seconds."""
        for connection in list(self._all.values()):
            is_masters = connection is self.master
            if now - connection.heard_at > self.silence_s if is_masters else now - connection.since > HELLO_S:
                self._drop(connection)
        if self._listener is not None and self._deaf_until and now >= self._deaf_until:
            self._poller.register(self._listener, select.POLLIN)
            self._deaf_until = 0.0

    def _read(self, connection: Connection) -> None:
        try:
            for message in connection.read(time.monotonic()):
                if not connection.closed:
                    self._on_message(connection, message)
        except FrameError as error:
            self._complain(f"a connection is given up: {error}")
            connection.closed = True

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError as error:
            self._complain(f"a connection was not accepted: {error.strerror}")
            if error.errno in _FULL:
                self._stop_listening(listener, time.monotonic())
            return
        self._all[sock.fileno()] = Connection(sock, time.monotonic())
        self._poller.register(sock, select.POLLIN)

    def _stop_listening(self, listener: socket.socket, now: float) -> None:
        """A connection that waits would wake us without end. The descriptors of strangers are given back."""
        for connection in list(self._all.values()):
            if connection is not self.master:
                self._drop(connection)
        self._poller.unregister(listener)
        self._deaf_until = now + FULL_S

    def _drop(self, connection: Connection) -> None:
        if self._all.pop(connection.sock.fileno(), None) is not None:
            self._poller.unregister(connection.sock)
        connection.close()
        if connection is self.master:
            self.master = None
            self._on_lost()
