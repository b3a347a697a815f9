"""HTTP over one connection, for clients that send their request and read its answer in time.

uvicorn bounds how long a connection is silent after an answer, and nothing else: one that says a header now and then,
or never reads, would be kept for ever, and a few thousand of them are all that the process may open. Bodies are not its
matter: who reads them (`bodies`) bounds them, for there it is known whether the sender or the master is slow.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from web import problems
from web.unheard import Unheard
from wire.errors import BadRequestError
from wire.message import Message

HEAD_S = 15.0
"""For a request's head, from the connection's begin or the head's first byte."""
MOST_SPEAKING = 4096
MOST_SPEAKING_OF_ONE = 1024
REST_S = 30.0
"""So long a connection stays open behind an answer, for another request."""
MOST_RESTING = 4096
MOST_RESTING_OF_ONE = 512
"""A whole lab may come from one address, and a browser has six; each costs memory, whoever rests there."""
UNREAD_S = 120.0
"""Seconds after which a client that has read nothing is disconnected."""


class Timely(H11Protocol):
    """One connection. `unheard`: those whose heads are awaited, `resting`: those that have an answer, and may say
    something else; `whose`: with whom it is counted among them."""

    def __init__(self, *parts: Any, unheard: Unheard, resting: Unheard, whose: str, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._whose = whose
        self._unheard = unheard
        self._resting = resting
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A head is awaited from the begin."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take a part of a head, or of a body. More bytes of an incomplete head do not restart its time limit."""
        self._resting.leave(self)
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
            self._unheard.leave(self)
        elif self not in self._unheard:
            self._await_head()

    def on_response_complete(self) -> None:
        """An answer has left: wait for another request, among others who rest."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing() and self not in self._unheard:
            self._resting.enter(self, self._whose, self.transport.close)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Change to WebSocket. A request that its parser cannot read would get no answer, and its connection no end."""
        super().handle_websocket_upgrade(event)
        if not getattr(self.transport.get_protocol(), "handshake_initiated", True):
            self._refuse(400, "Bad Request", Message("bad_upgrade"))
            self.transport.close()

    def _await_head(self) -> None:
        self._unheard.enter(self, self._whose, self._give_up)

    def _give_up(self) -> None:
        """A browser opens connections before it knows what for, and learns nothing when one of them is closed."""
        if self.transport.is_closing():
            return
        if self.conn.trailing_data[0]:
            self._refuse(408, "Request Timeout", Message("slow_head", seconds=HEAD_S))
        self.transport.close()

    def _refuse(self, status: int, reason: str, why: Message) -> None:
        told = msgspec.json.encode(problems.body(BadRequestError(why), status))
        headers = [
            ("Content-Type", problems.TYPE), ("Content-Length", str(len(told))), ("Connection", "close"),
        ]  # fmt: skip
        begin = h11.Response(status_code=status, headers=headers, reason=reason)
        events = (begin, h11.Data(told), h11.EndOfMessage())
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._reads()

    def _reads(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more is expected of the client."""
        self._unheard.leave(self)
        self._resting.leave(self)
        self._reads()
        super().connection_lost(exc)
