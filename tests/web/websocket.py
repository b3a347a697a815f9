"""A page's WebSocket over TLS, for tests, which ask and wait in turn.

A loop in a thread of its own reads and writes. The client for threads of `websockets` reads in one thread while another
writes; on one TLS connection that went wrong now and then with Python 3.11: an answer that was none, and then a wait
without end for the thread that read.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from anyio.from_thread import BlockingPortal, start_blocking_portal
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from tests.waiting import PATIENCE_S

RESET = struct.pack("ii", 1, 0)
"""Linger for no time: what is closed so is reset."""


class Socket:
    """One that is open. What has been closed raises ConnectionClosed."""

    def __init__(self, portal: BlockingPortal, connection: ClientConnection) -> None:
        self._portal = portal
        self._connection = connection

    @property
    def close_code(self) -> int | None:
        """With which code it was closed; None while it is open."""
        return self._connection.close_code

    def send(self, text: str | bytes) -> None:
        """Send one message."""
        self._portal.call(self._connection.send, text)

    def cut(self) -> None:
        """End it as a machine does that lost its way here: with a reset, and without a word that it is over."""
        self._portal.call(self._cut)

    async def _cut(self) -> None:
        transport = self._connection.transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        transport.abort()

    def receive(self) -> str | bytes:
        """The next message. Raises TimeoutError when none comes."""
        return self._portal.call(self._receive)

    async def _receive(self) -> str | bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self._connection.recv()


@contextmanager
def websocket(url: str, trust: ssl.SSLContext, origin: str, headers: Mapping[str, str]) -> Iterator[Socket]:
    """A WebSocket of a page at this origin."""
    opened = connect(
        url, ssl=trust, origin=Origin(origin), additional_headers=dict(headers),
        open_timeout=PATIENCE_S, max_size=None, compression=None, proxy=None,
    )  # fmt: skip
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened) as connection:
        yield Socket(portal, connection)
