"""A master without its links, inside the test's own loop: real store, real sockets, a disk that can be told to refuse.

The disk is the machine's, with three things a test may want of it: to know when it syncs, to be full, to be read-only.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import pytest

from master.callers.peer import Peer as KernelPeer
from master.config.config import load_config
from master.config.settings import Caps, Settings
from master.core.attempts.launching import LaunchSettings
from master.core.core import Core
from master.core.effects import Effect
from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from master.core.people.people import Role
from master.core.people.run_as import RunAs, as_the_agent
from master.core.tasks.attempt import Attempt
from master.drivers.agent_archive import build
from master.drivers.report import ReportServer
from master.durable.disk import OsDisk, SyncFailedError
from master.durable.store import Store
from master.engine.engine import Engine
from master.files.log_reader import LogReader
from master.files.service import Files
from master.helpers.acting import Acting
from master.loop.stalls import LoopTimes
from master.nodes.driver import CannotConnectError, Driver
from master.nodes.fleet import Fleet
from master.nodes.link_making import LinkMaker
from master.nodes.registry import NodeConfig
from master.people.audit import AuditLog
from master.people.directory import Directory
from master.people.guesses import Guesses
from master.people.passwords import Cost, Passwords
from master.people.services import Services
from master.people.task_tokens import TaskTokens
from master.ports import port_server
from master.ports.port_server import NODES, TASKS, PortServer
from master.sessions.json_rpc import JsonRpcSession
from master.sessions.session import Session
from master.tls.entrance import Listener
from master.tls.policy import Tls
from master.verbs import access
from master.verbs.about import About, TlsInfo
from tests.master.executor import played
from tests.master.typed import check_typed
from tests.waiting import PATIENCE_S, run_story, settled
from wire import agent as wire
from wire.lab import Lab
from wire.message import Message, revived

DATA = "data_port"
SETTINGS = LaunchSettings(conda="/conda", task_env={}, grace_s=1.0)
DEADLINE_S = 2 * PATIENCE_S
FACTS = Facts(
    boot_id="boot", state_id="state", cpus=4, memory_mib=1000, protocol=wire.PROTOCOL, uid=65534, runs_as="another"
)
LIMITS = Caps(frame_bytes=4 << 20, outbox_bytes=64 << 10, handshake_s=PATIENCE_S)

DESCRIPTORS = 4096
"""So many connections could be open."""

CHEAP = Cost(memory_kib=64, passes=1)
"""What a password costs where nobody wants to know what it costs."""

T = TypeVar("T")


def began_before(core: Core, *task_ids: int) -> None:
    """As if an attempt of each of these tasks had run, and written its log."""
    for task_id in task_ids:
        core.tasks[task_id].earlier = [Attempt(1, [], None, 1.0, 2.0, 1, None, None, None)]


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine to its end, within the deadline."""
    return run_story(story, DEADLINE_S)


@contextmanager
def comes_as(name: str, core: Core, role: Role = "user") -> Iterator[None]:
    """Whoever comes in meanwhile, and has shown nothing, is this user, who is there from then on."""
    if core.people.named(name) is None:
        core.people.add(name, role=role)

    def by_kernel(peer: KernelPeer, **_keys: Any) -> access.Identify:
        return lambda people, _now: access._as_user(people, people.find(name), peer.address, "local")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(port_server, "by_kernel", by_kernel)
        yield


class MoodyDisk(OsDisk):
    """The machine's disk. `refuse`: the errno of every write; `on_sync` is called before each sync."""

    def __init__(self) -> None:
        super().__init__()
        self.refuse: int | None = None
        self.sync_fails = False
        self.on_sync: Callable[[], None] = lambda: None
        self.syncs = 0

    def fill(self) -> None:
        """From here on there is no space."""
        self.refuse = errno.ENOSPC

    def write(self, fd: int, data: bytes) -> int:
        """Write, or refuse."""
        self._check()
        return super().write(fd, data)

    def allocate(self, path: Path, size: int) -> None:
        """Reserve, or refuse."""
        self._check()
        super().allocate(path, size)

    def sync(self, fd: int) -> None:
        """Tell, then sync, or fail for good."""
        self.on_sync()
        self.syncs += 1
        if self.sync_fails:
            raise SyncFailedError(Message("sync_failed", detail="Input/output error"))
        super().sync(fd)

    def _check(self) -> None:
        if self.refuse is not None:
            raise OSError(self.refuse, os.strerror(self.refuse))


class Nowhere:
    """A driver that leads to no agent."""

    version = "abc"

    async def connect(self, _protocol: asyncio.Protocol) -> None:
        """Refuse."""
        raise CannotConnectError(Message("link_said", said="there is no agent in this test"))

    async def close(self) -> None:
        """Nothing was opened."""


class Us:
    """Which master this is."""

    def hello(self) -> wire.Hello:
        """The first line to every agent."""
        sampling = wire.Sampling(gpus="auto", folders=[])
        lineage = [[1, "i"]]
        return wire.Hello(
            op="hello", protocol=1, cluster="c", epoch=1, incarnation="i", lineage=lineage, sampling=sampling
        )


class Place:
    """What verbs know of the master around them. `fleet` has no node until a test applies a registry."""

    fleet: Fleet
    reports: ReportServer
    logs: LogReader

    def __init__(self, folder: Path, core: Core) -> None:
        conf = folder / "conf.json"
        ports = {"monitor_port": 1, "data_port": 2, "train_state_port": 3}
        conf.write_text(json.dumps({"socket_info": ports}), encoding="utf-8")
        self.config = load_config(conf)
        self.lab = Lab("1" * 32, str(conf))
        self.files = Files(
            folder, ("data",), book=folder / "drafts.json", upload_bytes=lambda: core.settings.limits.upload_bytes
        )
        self.acting = Acting(self.files, str(folder / "logs"))
        self.audit = AuditLog(folder / "task_info" / "audit")
        self.conda = str(folder / "conda")
        self.root = str(folder)
        self.log_folder = str(folder / "logs")
        self.server_log = str(folder / "server.log")
        self.news_log = str(folder / "server.news.log")
        self.passwords = Passwords(CHEAP)
        self.guesses = Guesses(lambda: core.settings.limits)
        self.directory: Directory | None = None
        self.services = Services()
        self.task_tokens = TaskTokens(b"")
        self.stopped = False
        self.measured: LoopTimes | None = None
        self.run_as: RunAs = as_the_agent

    def about(self) -> About:
        """As little as there is of it."""
        config = self.config
        return About(
            version="0", pid=os.getpid(), started_at=0.0, conf=str(config.path), task_info=str(config.task_info),
            root=self.root, visible_folders=[], bind=config.bind, ports=config.ports.all, desktop_ports=None,
            registry_fault=None, tls=TlsInfo(mode="own", authority=None, ends=None, problems=[]),
        )  # fmt: skip

    def loop_times(self) -> LoopTimes | None:
        """What a test says of it."""
        return self.measured

    def failing_hooks(self) -> list[Message]:
        """None."""
        return []

    def stop(self) -> None:
        """Remember that somebody asked."""
        self.stopped = True


class Peer:
    """The other end of a connection to one port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._numbers = itertools.count(1)
        self.pushed: list[dict[str, Any]] = []

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)

    def ask(self, method: str, **params: Any) -> int:
        """Send a request and do not wait; its id."""
        number = next(self._numbers)
        self.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n")
        return number

    async def read(self) -> dict[str, Any]:
        """The next message, whatever it is. Raises EOFError."""
        line = await self.reader.readline()
        if not line:
            raise EOFError
        message: dict[str, Any] = json.loads(line)
        return message

    async def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request; notifications before it are kept in `pushed`."""
        while True:
            message = await self.read()
            if "method" not in message:
                assert message["id"] == number, message
                return message
            self.pushed.append(message)

    async def call(self, method: str, **params: Any) -> Any:
        """Ask and give the result, which is of the type that its verb declares."""
        message = await self.answer(self.ask(method, **params))
        assert "error" not in message, message
        check_typed(method, message["result"])
        return message["result"]

    async def refusal(self, method: str, **params: Any) -> tuple[str, str]:
        """Ask for something that is refused; the stable code and the sentence."""
        error = await self._error(method, params)
        return error["data"]["code"], error["message"]

    async def told(self, method: str, **params: Any) -> tuple[str, Message]:
        """Ask for something that is refused; the stable code and the message."""
        data = (await self._error(method, params))["data"]
        return data["code"], revived(data["key"], data["args"])

    async def _error(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        message = await self.answer(self.ask(method, **params))
        assert "result" not in message, message
        error: dict[str, Any] = message["error"]
        assert isinstance(error["code"], int)
        assert "\n" not in error["message"]
        return error

    async def notification(self) -> dict[str, Any]:
        """The next notification."""
        if self.pushed:
            return self.pushed.pop(0)
        message = await self.read()
        assert "method" in message, message
        return message


class InProcess:
    """`async with InProcess(folder) as master`: engine and the three ports, one node `a` with 8 GPUs."""

    def __init__(self, folder: Path, disk: MoodyDisk | None = None, limits: Caps = LIMITS) -> None:
        self.folder = folder
        self.disk = disk or MoodyDisk()
        self.limits = limits
        self.make_driver: Callable[[NodeConfig], Driver] = lambda _node: Nowhere()
        self.effects: list[Effect] = []
        self.peers: list[Peer] = []
        self.raws: list[socket.socket] = []
        self.servers: dict[str, Listener] = {}

    async def __aenter__(self) -> Self:
        """Open the store and the ports."""
        store = Store(self.folder / "task_info", self.disk)
        image = store.open()
        numbers = itertools.count(1)
        specs = (NodeSpec(name="a", gpu_models=("GPU",) * 8),)
        self.core = Core(specs, lambda task, attempt: f"{task}.{attempt}.{next(numbers)}", Settings(limits=self.limits))
        self.core.load(image.tasks, image.answered, image.next_id, image.state)
        self.engine = Engine(self.core, store)
        self.place = Place(self.folder, self.core)
        self.tls = Tls.of(self.place.config)
        self.place.services = Services.begin(self.folder / "task_info")
        self.place.task_tokens = TaskTokens.begin(self.folder / "task_info")
        self.place.logs = LogReader(self.engine)
        self.place.reports = ReportServer(self.core, self.tls, build(), "c")
        self.port_server = PortServer(self.engine, self.place, DESCRIPTORS, tls=self.tls, reports=self.place.reports)
        links = LinkMaker(self.engine, Us(), self.port_server, make_driver=lambda node: self.make_driver(node))  # noqa: PLW0108  (it may change)
        self.place.fleet = Fleet(self.engine, links)
        self.engine.executor_of = played(self.effects.extend)
        for name in (DATA, TASKS, NODES):
            self.servers[name] = await self.port_server.listen(name, "127.0.0.1", 0, 100)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all of it. That the store syncs once more is no part of the story."""
        self.disk.on_sync = lambda: None
        for peer in self.peers:
            peer.writer.close()
        for raw in self.raws:
            raw.close()
        for server in self.servers.values():
            server.close()
        self.port_server.close()
        await self.place.fleet.close()
        await self.engine.close()
        self.place.audit.close()
        await settled(lambda: not self.port_server.connections)
        for peer in self.peers:
            with suppress(OSError):
                await peer.writer.wait_closed()  # else the loop may end before, and leave a socket to the next test

    def address(self, port: str = DATA) -> tuple[str, int]:
        """Where a port listens."""
        name: tuple[str, int] = self.servers[port].sockets[0].getsockname()
        return name

    async def peer(self, port: str = DATA) -> Peer:
        """A new connection."""
        peer = Peer(*await asyncio.open_connection(*self.address(port), limit=64 << 20))
        self.peers.append(peer)
        return peer

    def raw(self, port: str = DATA, *, receive: int | None = None) -> socket.socket:
        """A new connection that reads only when it is told to. `receive`: bytes that the kernel keeps for it."""
        sock = socket.socket()
        self.raws.append(sock)
        if receive is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        sock.connect(self.address(port))
        return sock

    def limit(self, **limits: Any) -> None:
        """These are other ones from now on, also such as no conf.json may say."""
        tuning = self.core.tuning
        now = msgspec.structs.replace(tuning.settings.limits, **limits)
        tuning.take(msgspec.structs.replace(tuning.settings, limits=now))

    def online(self) -> None:
        """The node's agent is there."""
        self.engine.event(lambda: self.core.node_state("a", NodeState.ONLINE, None, FACTS))

    def sessions(self) -> list[Session]:
        """What speaks over our connections, as far as it is known."""
        return [one.session for one in self.port_server.connections if one.session is not None]

    def connection_of(self, sock: socket.socket) -> JsonRpcSession:
        """Our end of a raw connection."""
        name = sock.getsockname()
        ours = (one for one in self.sessions() if isinstance(one, JsonRpcSession))
        return next(one for one in ours if one.transport.get_extra_info("peername") == name)


async def eof(peer: Peer) -> bytes:
    """Everything up to the end of the connection."""
    return await peer.reader.read()


Story = Callable[[], Awaitable[None]]
