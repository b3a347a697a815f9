"""The port: HTTPS, and plain HTTP from the same port for who types `http://`, told apart by the first byte.

Owns how many connections may be open that have sent nothing, or no whole request, or that rest behind an answer.
uvicorn reads the requests (in `timely`, which bounds their time), and the app answers them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import uvicorn

from web import timely
from web.accounts import counted_as
from web.unheard import Unheard

log = logging.getLogger("muster.web")

FIRST_BYTE_S = 10.0
HANDSHAKE_S = 15.0
SHUTDOWN_S = 5.0
MOST_SILENT = 2048
MOST_SILENT_OF_ONE = 512
"""A whole lab may come from one address, a proxy's say, and all at once when the console was started anew."""
BACKLOG = 256
_TLS_HANDSHAKE = 0x16
SSLProtocol.max_size = 32 << 10
"""As many bytes asyncio keeps for reading from each connection with TLS, as long as it is open; 256 KiB by itself."""
_BATCH = 64


class Port:
    """A socket that listens. `protocol` makes what speaks over a connection, `context` the TLS of a new one."""

    def __init__(
        self,
        sock: socket.socket,
        protocol: Callable[..., asyncio.Protocol],
        context: Callable[[], ssl.SSLContext],
    ) -> None:
        self._sock = sock
        self._protocol = protocol
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._silent = Unheard(MOST_SILENT, MOST_SILENT_OF_ONE, FIRST_BYTE_S)
        most, most_of_one = timely.MOST_SPEAKING, timely.MOST_SPEAKING_OF_ONE
        self._in_handshake = Unheard(most, most_of_one, HANDSHAKE_S)
        self._in_head = Unheard(most, most_of_one, timely.HEAD_S)
        self._resting = Unheard(timely.MOST_RESTING, timely.MOST_RESTING_OF_ONE, timely.REST_S)
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._loop.add_reader(sock, self._accept)

    def _accept(self) -> None:
        for _ in range(_BATCH):
            try:
                sock, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:  # no descriptor is free: who is there goes on, and later ones come in
                log.warning("a connection cannot be taken: %s", error)
                self._loop.remove_reader(self._sock)
                self._loop.call_later(1.0, self._accept_again)
                return
            self._wait(sock, counted_as(sock.getsockname(), peer))

    def _accept_again(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock, self._accept)

    def _wait(self, sock: socket.socket, whose: str) -> None:
        """Wait for the first byte. A connection that has to make room is read once more: of a crowd that connects at
        once, most have sent something before we get to them."""
        sock.setblocking(False)  # noqa: FBT003  (the socket's own way)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._silent.enter(sock, whose, partial(self._look, sock, whose))
        self._loop.add_reader(sock, self._look, sock, whose)

    def _look(self, sock: socket.socket, whose: str) -> None:
        try:
            first = sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            first = b""  # its time is over
        except OSError:
            first = b""
        self._loop.remove_reader(sock)
        self._silent.leave(sock)
        if not first or self._is_closed:
            sock.close()
            return
        is_tls = first[0] == _TLS_HANDSHAKE
        opening = self._loop.create_task(self._open(sock, whose, is_tls=is_tls))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        if is_tls:
            self._in_handshake.enter(opening, whose, opening.cancel)
            opening.add_done_callback(self._in_handshake.leave)

    async def _open(self, sock: socket.socket, whose: str, *, is_tls: bool) -> None:
        try:
            await self._loop.connect_accepted_socket(
                partial(self._protocol, unheard=self._in_head, resting=self._resting, whose=whose),
                sock,
                ssl=self._context() if is_tls else None,
                ssl_handshake_timeout=HANDSHAKE_S if is_tls else None,
                ssl_shutdown_timeout=SHUTDOWN_S if is_tls else None,
            )
        except (OSError, ssl.SSLError) as error:
            log.debug("no TLS came about: %s", error)
            sock.close()

    def close(self) -> None:
        """Take nobody any more."""
        self._is_closed = True
        self._loop.remove_reader(self._sock)
        self._sock.close()
        for unheard in (self._silent, self._in_handshake, self._in_head, self._resting):
            unheard.clear()

    async def wait_closed(self) -> None:
        """Nothing is left that is being opened."""
        for opening in list(self._opening):
            opening.cancel()
            with suppress(asyncio.CancelledError):
                await opening


class Server(uvicorn.Server):
    """uvicorn at such a port. `ready` is called when it listens."""

    def __init__(
        self,
        config: uvicorn.Config,
        sock: socket.socket,
        context: Callable[[], ssl.SSLContext],
        ready: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._sock = sock
        self._context = context
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; `sockets` are none of ours."""
        del sockets
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            self.should_exit = True
            return
        protocol = partial(
            self.config.http_protocol_class,  # type: ignore[call-arg]
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self.servers = [Port(self._sock, protocol, self._context)]  # type: ignore[list-item]
        self.started = True
        self._ready()


def bound(address: str, port: int) -> socket.socket:
    """A socket that listens. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    [(family, kind, proto, _, where), *_] = socket.getaddrinfo(
        address, port, family, socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(BACKLOG)
        sock.setblocking(False)  # noqa: FBT003
    except OSError:
        sock.close()
        raise
    return sock
