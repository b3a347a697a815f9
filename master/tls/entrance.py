"""A port's listening sockets: each connection is handed on as a bare socket, before anything was read from it.

So the first byte can be looked at (`first_byte`) and tell TLS from plain text, and only then is the connection opened
as the one or the other. `ports` handles the connection.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable
from typing import Any

log = logging.getLogger("muster.ports")

TLS_HANDSHAKE = 0x16
"""The first byte of a TLS record that opens a connection; no frame of any dialect begins with it."""
ACCEPTING_S = 0.005
"""For so long, one turn of the loop accepts the connections that wait at a port; the next turn accepts the others."""
FULL_S = 1.0
"""How long nobody is accepted when descriptors or memory have run out."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """The sockets that listen on one port; `receive` is given each connection, as a socket that does not block."""

    def __init__(self, sockets: list[socket.socket], backlog: int, receive: Callable[[socket.socket], None]) -> None:
        self.sockets = tuple(sockets)
        self._backlog = backlog
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._again: dict[socket.socket, asyncio.TimerHandle] = {}
        for sock in sockets:
            self._serve(sock)

    def close(self) -> None:
        """Nobody is accepted any more."""
        for sock in self.sockets:
            if sock in self._again:
                self._again.pop(sock).cancel()
            self._loop.remove_reader(sock)
            sock.close()

    def _serve(self, sock: socket.socket) -> None:
        self._again.pop(sock, None)
        self._loop.add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        end = time.monotonic() + ACCEPTING_S
        for _ in range(self._backlog):
            try:
                connection, _ = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                log.error("nobody is let in for %.0f s: %s", FULL_S, error.strerror)  # noqa: TRY400
                self._loop.remove_reader(sock)
                self._again[sock] = self._loop.call_later(FULL_S, self._serve, sock)
                return
            connection.setblocking(False)  # noqa: FBT003  (the standard library's signature)
            self._receive(connection)
            if time.monotonic() > end:
                return


async def listen(address: str, port: int, backlog: int, receive: Callable[[socket.socket], None]) -> Listener:
    """Open a port on each address that `address` stands for. Raises OSError."""
    found = _numeric(address, port) or await asyncio.get_running_loop().getaddrinfo(
        address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, place in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setblocking(False)  # noqa: FBT003
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(place)
            sock.listen(backlog)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return Listener(sockets, backlog, receive)


def _numeric(address: str, port: int) -> list[Any]:
    """Look up an address that is no name: no server is asked, so it needs no thread. The address is given as bytes: for
    text the interpreter would first load a codec for names, which takes longer than to open the port."""
    try:
        flags = socket.AI_PASSIVE | socket.AI_NUMERICHOST
        return socket.getaddrinfo(address.encode() or None, port, type=socket.SOCK_STREAM, flags=flags)
    except socket.gaierror:
        return []


def first_byte(sock: socket.socket) -> int | None:
    """The first byte that came, left where it is; -1 when the connection has ended; None when nothing has come."""
    try:
        seen = sock.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return -1
    return seen[0] if seen else -1
