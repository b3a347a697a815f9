"""What the tests of the driver `ssh` share: drivers for a real sshd, and the master's end of a conversation."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import paramiko
import pytest

from master.drivers.agent_archive import build
from master.drivers.host_keys import HostKeys
from master.drivers.passwords import Passwords
from master.drivers.ssh import LoginGate, SshDriver
from master.drivers.ssh_channel import Pipe
from master.drivers.ssh_login import close, log_in
from master.drivers.ssh_socket import connect_blocking
from master.nodes.driver import CannotConnectError
from master.nodes.registry import NodeConfig
from tests.master.drivers.real_sshd import PASSWORD, RealSshd
from tests.master.durable.storage import descriptors
from tests.waiting import PATIENCE_S, run_story, settled, until
from wire.agent import MAX_FRAME
from wire.framing import LineDecoder, encode, strict_loads

DEADLINE_S = 3 * PATIENCE_S


def who_sends(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads that send by a channel from now on, which blocks while the other side takes nothing."""
    threads: set[int] = set()

    def noted(real: Callable[[paramiko.Channel, bytes], Any]) -> Callable[[paramiko.Channel, bytes], Any]:
        def send(channel: paramiko.Channel, data: bytes) -> Any:
            threads.add(threading.get_ident())
            return real(channel, data)

        return send

    for name in ("send", "sendall"):
        monkeypatch.setattr(paramiko.Channel, name, noted(getattr(paramiko.Channel, name)))
    return threads


Message = dict[str, Any]
T = TypeVar("T")


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine to its end, within the deadline."""
    return run_story(story, DEADLINE_S)


class Line(asyncio.Protocol):
    """Says hello as a master does and keeps what it hears."""

    def __init__(self, epoch: int = 1) -> None:
        self.messages: list[Message] = []
        self.lost: list[Exception | None] = []
        self._epoch = epoch
        self._decoder = LineDecoder(MAX_FRAME)
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None, "not connected"
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        lineage = [[epoch, "i"] for epoch in range(1, self._epoch + 1)]
        self.send(op="hello", protocol=1, cluster="c", epoch=self._epoch, incarnation="i", lineage=lineage)

    def data_received(self, data: bytes) -> None:
        self.messages += [strict_loads(line) for line in self._decoder.feed(data)]

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)

    def send(self, **message: Any) -> None:
        self.transport.write(encode(message))

    async def hear(self, op: str, **wanted: Any) -> Message:
        """The first such message, whenever it came."""

        def heard() -> Message | None:
            fits = (one for one in self.messages if one["op"] == op and wanted.items() <= one.items())
            found = next(fits, None)
            assert found or not self.lost, f"the connection was lost ({self.lost}) before {op} came"
            return found

        return await settled(heard, f"{op} {wanted}", seen=lambda: self.messages[-3:])

    async def end(self) -> Exception | None:
        """Wait until the connection is lost; why."""
        await settled(lambda: self.lost, "the end of the connection", seen=lambda: self.messages[-3:])
        return self.lost[0]

    def launch(self, launch_id: str, command: str, folder: Path) -> None:
        """Have the agent start a bash line."""
        log = str(folder / f"{launch_id}.log")
        base = {"cwd": str(folder), "env": {}, "log_path": log, "grace_s": 5.0, "time_limit_s": None}
        self.send(op="launch", launch_id=launch_id, argv=["/bin/bash", "-c", command], **base)


class Site:
    """A master's side: its host keys, its passwords, its gate. `trust` pins a server's key as an admin would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.psw = folder / "psw"
        self.psw.write_text(f"{PASSWORD}\n", encoding="utf-8")
        self.psw.chmod(0o600)
        self.keys = HostKeys(folder / "known_hosts")
        self.gate = LoginGate()
        self.archive = build()

    def trust(self, server: RealSshd) -> None:
        self.keys.pin("127.0.0.1", server.port, server.host_key)

    def driver(self, node: NodeConfig) -> SshDriver:
        return SshDriver(
            node,
            cluster="c",
            archive=self.archive,
            keys=self.keys,
            passwords=Passwords(self.psw),
            gate=self.gate,
        )

    async def refusal(self, node: NodeConfig) -> CannotConnectError:
        """Connect in vain; why."""
        driver = self.driver(node)
        with pytest.raises(CannotConnectError) as caught:
            await driver.connect(Line())
        await driver.close()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500
        return caught.value

    async def connected(self, node: NodeConfig, epoch: int = 1) -> Line:
        """A connection on which the agent has answered."""
        line = Line(epoch)
        await self.driver(node).connect(line)
        await line.hear("inventory")
        return line


@contextmanager
def channel_to(command: str, server: RealSshd, site: Site) -> Iterator[tuple[paramiko.Channel, Pipe]]:
    """A program's channel and the pipe over it. Nobody serves the pipe yet."""
    node = server.node()
    sock = connect_blocking(node)
    transport = log_in(sock, node, site.keys, Passwords(site.psw))
    try:
        channel = transport.open_session(timeout=60)
        pipe = Pipe(channel, sock)
        channel.exec_command(command)
        yield channel, pipe
    finally:
        close(transport, sock)


@contextmanager
def pipe_to(command: str, server: RealSshd, site: Site) -> Iterator[Pipe]:
    """A pipe to a program, served by a thread as a connection does it."""
    with channel_to(command, server, site) as (_, pipe):
        thread = threading.Thread(target=pipe.serve)
        thread.start()
        try:
            yield pipe
        finally:
            pipe.abort()
            thread.join(60)
            assert not thread.is_alive()


def threads() -> set[threading.Thread]:
    """Those that there are."""
    return set(threading.enumerate())


@contextmanager
def nothing_left() -> Iterator[Callable[[], int]]:
    """What is started inside is gone soon after. Gives how many threads there are now that there were not before; of
    what tests before left, some may end meanwhile."""
    before = threads(), descriptors()
    yield lambda: len(threads() - before[0])
    until("no thread is left", lambda: threads() <= before[0], seen=lambda: threads() - before[0])
    until("nothing is left open", lambda: not _opened_since(before[1]), seen=lambda: _opened_since(before[1]))


def _opened_since(before: set[str]) -> set[str]:
    """What is open that was not, garbage aside."""
    gc.collect()
    return descriptors() - before


@contextmanager
def black_hole() -> Iterator[int]:
    """A port that swallows packets: its queue of connections is full, and the kernel drops whatever comes."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)  # noqa: FBT003  (the standard library's signature)
            filler.connect_ex(address)
        yield address[1]


@contextmanager
def mute() -> Iterator[int]:
    """A port where connections are taken and nothing is ever said."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(512)
        yield listener.getsockname()[1]


@contextmanager
def half() -> Iterator[int]:
    """A port where somebody says that he is an sshd, and goes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer:
                        peer.sendall(b"SSH-2.0-half\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
