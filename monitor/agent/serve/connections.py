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

SILENCE_S = 3 * HEARTBEAT_S
HELLO_S = 10.0
"""A connection that has not said whose it is by then is given up."""
FULL_S = 1.0
"""How long nobody is accepted when descriptors or memory have run out."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Connections:
    """`on_message` is told each message and whose it is, `on_lost` that the master's connection is gone; `complain`
    writes to the agent's log. `master`: the connection that was welcomed last."""

    def __init__(
        self,
        poller: select.poll,
        *,
        on_message: Callable[[Connection, Any], None],
        on_lost: Callable[[], None],
        complain: Callable[[str], None],
    ) -> None:
        self.master: Optional[Connection] = None
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
        self.master = connection
        connection.incarnation = incarnation

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
            is_nobodys = connection is not self.master and now - connection.since > HELLO_S
            if is_nobodys or now - connection.heard_at > SILENCE_S:
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
