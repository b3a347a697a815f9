"""A thread with one connection to the master at a time. It can be ended at any moment: its socket is shut under it."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress

from client.api import Client
from client.session import ConnectionLostError, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeAlias

    from client.address import Address
    from wire.errors import MusterError

    Tell: TypeAlias = Callable[[dict[str, Any]], None]
    """Takes a message, in the thread that has it."""

    class Source(Protocol):
        """Something that tells messages: a worker, or what a test puts in its place."""

        def start(self) -> None:
            """Begin to tell."""

        def end(self) -> None:
            """Tell nothing any more."""

        def join(self) -> None:
            """Wait until it has ended."""


_JOIN_S = 1.0


class EndableSession(Session):
    """A session that another thread may end: the call under way fails at once. None is tried again: whoever reads the
    screen sees that it failed, and that is sooner than the patience of a script. It remembers no answers: they are
    large, and it lives long."""

    heard = None

    def __init__(self, address: Address, port: int, token: str | None, ended: threading.Event) -> None:
        super().__init__(
            address.host, port, token, patience=0, trust=address.trust, proxy=address.proxy, end=address.end
        )
        self._ended = ended

    def break_off(self) -> None:
        """End what is under way. Safe in any thread, at any moment."""
        under_way = self._socket
        if under_way is not None:
            with suppress(OSError):  # it broke by itself in this moment
                # For TLS shut down the plain socket beneath: the TLS one would take away what the reader reads with.
                socket.socket.shutdown(under_way, socket.SHUT_RDWR)

    def _open(self, deadline: float) -> None:
        super()._open(deadline)
        # Either `break_off` finds this socket, or we find that it was called.
        if self._ended.is_set():
            from wire.message import Message

            raise ConnectionLostError(Message("connection_not_wanted"))


class Worker(ABC):
    """The thread. A subclass does its work in `_run`, and stops when `ended` is set."""

    def __init__(self, name: str, address: Address, token: str | None) -> None:
        self._address = address
        self._token = token
        self.ended = threading.Event()
        self._session = self.new_session(address.data)
        self._thread = threading.Thread(target=self._run, name=f"live {name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Break off what is under way; send nothing on any more."""
        self.ended.set()
        self._session.break_off()

    def join(self) -> None:
        """Wait for the thread, but not for a machine that does not answer a connect."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    @abstractmethod
    def _run(self) -> None:
        """Do the thread's work."""

    def told_of(self, error: Exception) -> MusterError:
        """Return the error with a code and a message: of a connection that broke, and of an answer that cannot be used,
        those of a client that watches."""
        from wire.errors import MusterError, ProtocolError, UnreachableError
        from wire.message import Message

        at = f"{self._session.host}:{self._session.port}"
        if isinstance(error, MusterError):
            return error.with_traceback(None)  # its frames hold what was received
        if isinstance(error, ConnectionLostError):
            return UnreachableError(Message("watch_broke", at=at, detail=error.args[0]))
        return ProtocolError(Message("answer_unreadable", at=at, detail=repr(error)))

    def client(self) -> Client:
        """A client on a line of its own, which `end` breaks."""
        self._session = self.new_session(self._address.data)
        return Client(self._address, self._token, self._session)

    def new_session(self, port: int) -> EndableSession:
        """A line to one of the master's ports, which `end` breaks once it is `_session`."""
        return EndableSession(self._address, port, self._token, self.ended)
