"""A WebSocket of which nobody knows yet whose it is: it may say little until then, so that strangers fill no memory.

uvicorn takes messages of the size that pages of ours send, whoever sends them. Owns that bound. The caller of `KNOWN`
finds out whose the connection is.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

KNOWN = "muster.known"
"""In the scope of a WebSocket: what to call once it is known whose it is."""
MOST = 128 << 10
"""Bytes until then: those of the request, 64 KiB at most, count, too."""


class Newcomer(WebSocketsSansIOProtocol):
    """One connection, which is cut if it says too much too early."""

    def __init__(self, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._room: int | None = MOST

    def handle_connect(self, event: Request) -> None:
        """Let the application say when it is known."""
        super().handle_connect(event)
        if self.response.status_code == 101:  # noqa: PLR2004
            scope: Any = self.scope
            scope[KNOWN] = self._know

    def data_received(self, data: bytes) -> None:
        """Take what was said, unless it is too much."""
        if self._room is not None:
            self._room -= len(data)
            if self._room < 0:
                self.transport.abort()
                return
        super().data_received(data)

    def _know(self) -> None:
        self._room = None
