"""The driver `ssh`: a connection to the agent of a node on another machine, which gets the agent if it has none.

Owns one thread for each connection, from the log-in to its end (paramiko has another), the time allowed for each step,
and how many log-ins one machine gets at a time (sshd drops some of 60 and refuses the 11th channel of a connection; we
use one). A connection that fails leaves no thread and no descriptor.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import paramiko

from master.drivers.agent_archive import Archive
from master.drivers.host_keys import HostKeys, Known
from master.drivers.local import state_name
from master.drivers.passwords import Passwords
from master.drivers.ssh_attach import ATTACH_S, attach, command
from master.drivers.ssh_channel import BROKEN, ChannelTransport, Pipe
from master.drivers.ssh_login import AUTH_S, BANNER_S, CHANNEL_S, EXCHANGE_S, ask_key, close, log_in, one_line
from master.drivers.ssh_socket import CONNECT_S, connect, connect_blocking, needs_thread, where
from master.nodes.driver import CannotConnectError, OfferedKey
from master.nodes.registry import NodeConfig
from wire.errors import ConflictError, NodeUnreachableError
from wire.message import Message

log = logging.getLogger("muster.ssh")

LOG_INS_AT_A_TIME = 5
MARGIN_S = 5.0
"""Each step has its own limit; this much later we stop waiting for a step that exceeds it."""
ENDING_S = 5.0

T = TypeVar("T")


class LoginGate:
    """Lets so many log-ins at a time through to one address; nodes may be accounts of the same machine."""

    def __init__(self, width: int = LOG_INS_AT_A_TIME) -> None:
        self._width = width
        self._gates: WeakValueDictionary[tuple[str, int], asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, ip: str, port: int) -> AsyncIterator[None]:
        """Wait for a turn and hold it."""
        gate = self._gates.get((ip, port))
        if gate is None:
            gate = self._gates[ip, port] = asyncio.Semaphore(self._width)
        async with gate:
            yield


class SshDriver:
    """Connects to the agent of one node. `cluster` keeps masters apart."""

    def __init__(
        self,
        node: NodeConfig,
        *,
        cluster: str,
        archive: Archive,
        keys: HostKeys,
        passwords: Passwords,
        gate: LoginGate,
    ) -> None:
        self.version = archive.version
        self._archive = archive
        self._node = node
        self._folder = state_name(cluster, node.name)
        self._keys = keys
        self._passwords = passwords
        self._gate = gate
        self._connections: set[_Connection] = set()
        self._ours = ""

    async def connect(self, protocol: asyncio.Protocol) -> None:
        """Connect `protocol`, starting the agent if it does not run. Raises CannotConnectError, UnknownHostKeyError."""
        connection = _Connection(self._node.name, self._open, self._log_in, self._attach)
        self._connections.add(connection)
        connection.ended.add_done_callback(lambda _: self._connections.discard(connection))
        try:
            async with self._gate.turn(self._node.ip, self._node.port):
                connection.begin(await self._socket())
                await self._in_time(connection.logged_in, CONNECT_S + BANNER_S + EXCHANGE_S + AUTH_S)
            pipe = await self._in_time(connection.attached, CHANNEL_S + 2 * ATTACH_S)
            self._ours = connection.our_address()
        except BaseException:
            connection.abandon()
            raise
        ChannelTransport(pipe, protocol).begin()

    async def close(self) -> None:
        """End what is left of the connections, and wait for their threads."""
        endings = [asyncio.wrap_future(connection.ended) for connection in list(self._connections)]
        for connection in list(self._connections):
            connection.abandon()
        if endings:
            await asyncio.wait(endings, timeout=ENDING_S)

    def sees_us_as(self) -> str:
        """The address that the last connection came from; behind a proxy the node may see another."""
        return self._ours

    async def offered_key(self) -> OfferedKey:
        """The host key that the machine shows, without logging in; of several one that we know. Raises
        NodeUnreachableError, and ConfigError where the known ones cannot be read."""
        known = await asyncio.to_thread(self._known)
        try:
            async with self._gate.turn(self._node.ip, self._node.port):
                sock = await self._socket()
                return await _in_thread(
                    f"key of {self._node.name}",
                    lambda: ask_key(sock or connect_blocking(self._node), self._node, known),
                )
        except CannotConnectError as error:
            raise NodeUnreachableError(error.why) from None

    def known_key(self) -> str | None:
        """The fingerprint that we expect, None if we know none. Raises ConfigError for a file that is unreadable."""
        return self._known().fingerprint

    def pin(self, key: OfferedKey) -> None:
        """Expect this key from now on. Raises OSError; ConflictError where the registry says which key it must be."""
        if self._node.host_key:
            raise ConflictError(Message("key_is_pinned", node=self._node.name))
        self._keys.pin(self._node.ip, self._node.port, key)

    def _known(self) -> Known:
        return self._keys.lookup(self._node.ip, self._node.port, self._node.host_key)

    async def _socket(self) -> socket.socket | None:
        return None if needs_thread(self._node) else await connect(self._node)

    async def _in_time(self, future: Future[T], limit_s: float) -> T:
        try:
            async with asyncio.timeout(limit_s + MARGIN_S):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise CannotConnectError(Message("log_in_stopped", where=where(self._node))) from None

    # -- in the connection's thread ---------------------------------------------------------------------------

    def _open(self) -> socket.socket:
        return connect_blocking(self._node)

    def _log_in(self, sock: socket.socket) -> paramiko.Transport:
        return log_in(sock, self._node, self._keys, self._passwords)

    def _attach(self, transport: paramiko.Transport, sock: socket.socket) -> Pipe:
        try:
            channel = _session(transport, self._node)
            pipe = Pipe(channel, sock)
            channel.exec_command(command(self._node.python))
        except BROKEN as error:
            said = one_line(str(error))
            raise CannotConnectError(Message("no_command_run", where=where(self._node), said=said)) from None
        attach(pipe, self._node.python, self._archive, self._folder)
        return pipe


def _session(transport: paramiko.Transport, node: NodeConfig) -> paramiko.Channel:
    """Open the one session that we need. Raises what `open_session` raises, and CannotConnectError where sshd opens
    none for anybody who is logged in."""
    try:
        return transport.open_session(timeout=CHANNEL_S)
    except paramiko.ChannelException as error:
        why = Message("no_session", where=where(node), user=node.user_name, said=one_line(error.text))
        raise CannotConnectError(why, "long") from None


class _Connection:
    """One thread: connects, logs in, attaches, then sends until the end, and cleans up behind itself."""

    def __init__(
        self,
        name: str,
        open_socket: Callable[[], socket.socket],
        log_in: Callable[[socket.socket], paramiko.Transport],
        attach: Callable[[paramiko.Transport, socket.socket], Pipe],
    ) -> None:
        self.logged_in: Future[None] = Future()
        self.attached: Future[Pipe] = Future()
        self.ended: Future[None] = Future()
        self._open = open_socket
        self._log_in = log_in
        self._attach = attach
        self._sock: socket.socket | None = None
        self._pipe: Pipe | None = None
        self._begun = False
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name=f"ssh {name}", daemon=True)

    def begin(self, sock: socket.socket | None) -> None:
        """Start the thread. `sock`: the connection if there is one already."""
        self._sock = sock
        self._thread.start()
        self._begun = True

    def our_address(self) -> str:
        """Where it comes from; "" where that is no address of ours, or it is gone."""
        try:
            name = self._sock.getsockname() if self._sock is not None else ""
        except OSError:
            return ""
        return str(name[0]) if isinstance(name, tuple) else ""

    def abandon(self) -> None:
        """Have it end soon, wherever it is; never blocks."""
        self._abandoned = True
        sock, pipe = self._sock, self._pipe
        if pipe is not None:
            pipe.abort()
        elif sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if not self._begun:  # there was no connection, or no thread to be had
            if sock is not None:
                sock.close()
            _settle(self.ended, None)

    def _run(self) -> None:
        transport: paramiko.Transport | None = None
        try:
            if self._sock is None:
                self._sock = self._open()
            if not self._abandoned:
                transport = self._log_in(self._sock)
                _settle(self.logged_in, None)
            if transport is not None and not self._abandoned:
                self._pipe = self._attach(transport, self._sock)
                _settle(self.attached, self._pipe)
                self._pipe.serve()
        except BaseException as error:  # noqa: BLE001  (reported to the caller; a defect must not leave it waiting)
            self._failed(error)
        finally:
            if self._sock is not None:
                close(transport, self._sock)
            _settle(self.ended, None)

    def _failed(self, error: BaseException) -> None:
        waiting: tuple[Future[Any], ...] = (self.logged_in, self.attached)
        told = [future for future in waiting if _refuse(future, error)]
        if not told and not self._abandoned:
            log.error("%s: the connection met a defect", self._thread.name, exc_info=error)


async def _in_thread(name: str, work: Callable[[], T]) -> T:
    """Run something that blocks in a thread of its own."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            _settle(future, work())
        except BaseException as error:  # noqa: BLE001  (told to whoever waits)
            _refuse(future, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.wrap_future(future)


def _settle(future: Future[T], value: T) -> bool:
    """Give the future its value; False if nobody waits for it any more."""
    try:
        future.set_result(value)
    except InvalidStateError:
        return False
    return True


def _refuse(future: Future[Any], error: BaseException) -> bool:
    try:
        future.set_exception(error)
    except InvalidStateError:
        return False
    return True
