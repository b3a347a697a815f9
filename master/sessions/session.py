"""The protocol between a session and its connection, for every dialect.

`master.ports` accepts connections, finds out what is spoken, and then deals with sessions by `Session` alone. A session
knows its connection by `Connection`. A new dialect is a subclass of `Session`, and a line in
`master.ports.connection` that begins it.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Protocol

from master.callers.peer import Peer
from master.verbs.access import Caller
from wire.message import Message


class Session(asyncio.Protocol):
    """Speaks over a connection, from its first whole frame on: a protocol of asyncio that answers four more calls. In
    `connection_lost` it frees its resources and calls `Connection.left`."""

    @abstractmethod
    def keeps(self) -> int:
        """Return how many bytes are kept for it now, unread answers included: as it tells `Connection.hold`."""

    @abstractmethod
    def unread(self) -> int:
        """Return how many bytes of answers are kept for it."""

    @abstractmethod
    def look_again(self) -> None:
        """Users or tokens changed: end the session if its user may not connect any more."""

    @abstractmethod
    def finish(self) -> None:
        """Send what is ready to be sent, and close the connection."""


class Connection(Protocol):
    """The connection as its session sees it. `port`: the key of the port in conf.json; `at`: when it came, by the
    loop's clock."""

    port: str
    peer: Peer
    at: float

    def hold(self, size: int) -> bool:
        """The session keeps so many bytes for it now. False: that is too much, and the connection was closed."""

    def settle(self, caller: Caller) -> Message | None:
        """The peer is identified. Return why there is no place for it, None if there is one."""

    def asks(self) -> None:
        """A desktop client begins to ask for things: its other connections, opened just before, will say nothing."""

    def give_up(self, why: str) -> None:
        """Close it, and write the reason to the log. Buffered bytes are still sent."""

    def cut(self, why: str) -> None:
        """Close it at once, write the reason to the log, and tell the other side nothing."""

    def left(self) -> None:
        """The connection is gone."""
