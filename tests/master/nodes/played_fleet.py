"""A fleet over two machines, with agents that are played by a test."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from master.core.attempts.launching import WayBack
from master.core.nodes.inventory import NodeState
from master.core.tasks.task import TaskState
from master.executors.agents import Agents
from master.nodes.agent_context import SampleSink
from master.nodes.driver import UnknownHostKeyError
from master.nodes.fleet import Fleet
from master.nodes.leaving import LeavingNodes
from master.nodes.link_making import LinkMaker
from master.nodes.registry import NodeConfig
from master.watchers.folder_watcher import FolderWatcher
from master.watchers.own_folders import OwnFolders
from tests.master.in_process import SETTINGS, InProcess, Us
from tests.waiting import settled
from wire.framing import encode, strict_loads
from wire.message import Message


def ssh(name: str, ip: str = "10.0.0.1", **more: Any) -> NodeConfig:
    return NodeConfig(name=name, ip=ip, user_name="u", gpu_count=2, **more)


def no_way_back(_node: str, _launch_id: str) -> WayBack:
    raise AssertionError("no task of this test submits others")


class Agent:
    """An agent at an address: it welcomes, owns nothing, starts what it is told and answers every probe with `says`."""

    def __init__(self, folder: Path, address: str) -> None:
        self.path = str(folder / f"{address}.sock")
        self.address = address
        self.version = "new"
        self.boot = "boot"
        self.says = "ok"
        self.more_facts: dict[str, Any] = {}
        self.tells_of_gpus = True
        self.heard: list[dict[str, Any]] = []
        self.running: list[str] = []
        self.writer: asyncio.StreamWriter | None = None
        self.first: asyncio.StreamWriter | None = None
        self.server: asyncio.Server | None = None

    async def listen(self) -> None:
        self.server = await asyncio.start_unix_server(self.talk, self.path)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.first = self.first or writer
        with suppress(OSError, EOFError):
            while line := await reader.readline():
                message = strict_loads(line.rstrip(b"\n"))
                self.heard.append(message)
                self.answer(message)
                if message["op"] == "retire":
                    self.version = "new"
                    break
        writer.close()

    def answer(self, message: dict[str, Any]) -> None:
        op = message["op"]
        if op == "hello":
            facts = {"boot_id": self.boot, "state_id": self.address, "cpus": 4, "memory_mib": 1000}
            names = {"hostname": "", "python": "3.11", "version": self.version}
            self.say(op="welcome", **facts, **names, **self.more_facts)
            running = [{"launch_id": one, "state": "running", "started_at": 1.0} for one in self.running]
            self.say(op="inventory", attempts=running)
            if self.tells_of_gpus:
                self.say(op="sample", at=1.0)
        elif op == "launch":
            self.running.append(message["launch_id"])
            self.say(op="started", launch_id=message["launch_id"], pid=1, at=5.0)
        elif op == "probe" and self.says:
            self.say(
                op="probed", probe_id=message["probe_id"], code=0, output=self.says + "\n", truncated=False, error=""
            )

    def say(self, **message: Any) -> None:
        assert self.writer is not None
        self.writer.write(encode(message))

    def end(self, launch_id: str) -> None:
        if launch_id in self.running:
            self.running.remove(launch_id)
        self.say(op="exit", launch_id=launch_id, code=0, cause="exited", error="", started_at=5.0, at=6.0)

    def ops(self) -> list[str]:
        return [message["op"] for message in self.heard]


class To:
    """The driver to the agent at an address."""

    version = "new"

    def __init__(self, path: str) -> None:
        self.path = path
        self.closed = 0

    async def connect(self, protocol: asyncio.Protocol) -> None:
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: protocol, self.path)
        except OSError as error:
            raise UnknownHostKeyError(Message("link_said", said=f"nobody there: {error.strerror}")) from None

    async def close(self) -> None:
        self.closed += 1


class Field:
    """A fleet over two machines, 10.0.0.1 and 10.0.0.2."""

    def __init__(self, folder: Path, folders: tuple[str, ...] = (), leaving: LeavingNodes | None = None) -> None:
        self.master = InProcess(folder)
        self.leaving = leaving
        self.one, self.two = Agent(folder, "10.0.0.1"), Agent(folder, "10.0.0.2")
        self.folder = folder
        self.folders = folders
        self.samples: SampleSink | None = None
        """In the place of the port server."""
        self.accounts: dict[str, str] = {}
        """Which account the owner of a task has."""

    async def __aenter__(self) -> Self:
        await self.master.__aenter__()
        for agent in (self.one, self.two):
            await agent.listen()
        self.next_fleet(self.leaving)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.fleet.close()
        for agent in (self.one, self.two):
            if agent.server is not None:
                agent.server.close()
            if agent.writer is not None:
                agent.writer.close()
        await self.master.__aexit__()

    def next_fleet(self, leaving: LeavingNodes | None) -> Fleet:
        links = LinkMaker(
            self.master.engine,
            Us(),
            self.samples or self.master.port_server,
            make_driver=self.way,
            folders=self.folders,
            watchers=[FolderWatcher(self.master.engine, OwnFolders(self.folders, lambda _: True))],
        )
        self.fleet = Fleet(self.master.engine, links, leaving=leaving, run_as_allowed=("svc",))
        settings = msgspec.structs.replace(SETTINGS, run_as_allowed=("svc",), log_folder=str(self.folder / "logs"))
        fleet, run_as = self.fleet, self.accounts.get
        executor = Agents(self.master.engine, lambda: settings, fleet.send, no_way_back, run_as, ask=fleet.probe)
        self.master.engine.executor_of = lambda _node: executor
        return self.fleet

    def way(self, node: NodeConfig) -> To:
        """To the agent of a machine's `u`, and to those of its other accounts by their names."""
        return To(str(self.folder / f"{node.ip if node.user_name == 'u' else node.user_name}.sock"))

    def node(self, name: str) -> Any:
        return self.master.core.inventory.nodes.get(name)

    async def online(self, name: str) -> None:
        await settled(lambda: self.node(name).state is NodeState.ONLINE)

    async def busy(self) -> str:
        """Let the first task run on the only GPU; its launch id."""
        await (await self.master.peer()).call("task.submit", command="true", gpus=1)
        return await self.running(1)

    async def running(self, task_id: int) -> str:
        task = self.master.core.tasks[task_id]
        await settled(lambda: task.state is TaskState.RUNNING)
        assert task.allocation
        return task.allocation[0].launch_id
