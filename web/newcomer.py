"""A WebSocket of which nobody knows yet whose it is: it may say little until then, so that strangers fill no memory.

uvicorn takes messages of the size that pages of ours send, whoever sends them. Owns that bound; the caller of `KNOWN`
finds out whose the connection is. Owns, too, that a long message leaves in pieces, as its reader takes them: what is
given to TLS at once is room that OpenSSL keeps as long as the connection is open.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.http11 import Request

KNOWN = "muster.known"
"""In the scope of a WebSocket: what to call once it is known whose it is."""
PIECE = 64 << 10
"""Bytes of a message that leave at once."""
MOST = 128 << 10
"""Bytes until then: those of the request, 64 KiB at most, count, too."""


class Newcomer(WebSocketsSansIOProtocol):
    """One connection. Until its user is known it is heard up to `MOST`; what it says beyond has to wait."""

    def __init__(self, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._room: int | None = MOST
        self._unheard = b""
        """The rest of the read with the last byte that was heard: no longer than one read of the transport."""

    def handle_connect(self, event: Request) -> None:
        """Let the application say when it is known."""
        super().handle_connect(event)
        if self.response.status_code == 101:  # noqa: PLR2004
            scope: Any = self.scope
            scope[KNOWN] = self._know

    def data_received(self, data: bytes) -> None:
        """Take what was said, up to the bound."""
        if self._room is None:
            super().data_received(data)
            return
        heard, unheard = data[: self._room], data[self._room :]
        self._room -= len(heard)
        if heard:
            super().data_received(heard)
        if unheard:
            self._unheard += unheard
            self.transport.pause_reading()

    async def send(self, message: Any) -> None:
        """Send a message, a long one in pieces. Raises ClientDisconnected."""
        text = message.get("text")
        if not isinstance(text, str) or len(text) < PIECE:
            await super().send(message)
            return
        data = text.encode()
        del text, message
        for at in range(0, len(data), PIECE):
            await self.writable.wait()
            if self.disconnected or self.close_sent:
                raise ClientDisconnected
            piece, is_last = data[at : at + PIECE], at + PIECE >= len(data)
            try:
                (self.conn.send_continuation if at else self.conn.send_text)(piece, is_last)
            except InvalidState:
                raise ClientDisconnected from None
            self.transport.write(b"".join(self.conn.data_to_send()))

    def _know(self) -> None:
        self._room = None
        unheard, self._unheard = self._unheard, b""
        if unheard:
            super().data_received(unheard)
            if not self.read_paused:
                self.transport.resume_reading()
