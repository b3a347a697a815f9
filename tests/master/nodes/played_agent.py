"""An agent that is played by a test, at the other end of a link over a real socket."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from master.core.attempts.launching import launch_message
from master.core.effects import Kill, Start
from master.nodes.agent_context import Hooks
from master.nodes.driver import CannotConnectError, Patience
from master.nodes.heartbeat import BEATS
from master.nodes.link import Link
from master.nodes.pacing import Pace
from tests.leaps import Leap
from tests.master.executor import played
from tests.master.in_process import SETTINGS, InProcess, Us
from tests.waiting import settled
from wire import agent as wire
from wire.framing import encode, strict_loads
from wire.message import Message

WELCOME = {
    "op": "welcome",
    "boot_id": "boot",
    "state_id": "state",
    "cpus": 4,
    "memory_mib": 1000,
    "hostname": "here",
    "python": "3.11",
    "version": "abc",
}


SILENCE_S = BEATS * wire.HEARTBEAT_S


class Agent:
    """The other end, and the driver that leads to it. `refusal`: why it cannot be reached, with `patience`."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "agent.sock")
        self.version = "abc"
        self.refusal: str | None = None
        self.patience: Patience = "short"
        self.trying: asyncio.Event | None = None
        self.tries = 0
        self.sessions: asyncio.Queue[Conversation] = asyncio.Queue()
        self.all: list[Conversation] = []
        self.transports: list[asyncio.Transport] = []
        """The master's ends."""

    async def connect(self, protocol: asyncio.Protocol) -> None:
        self.tries += 1
        if self.trying is not None:
            await self.trying.wait()
        if self.refusal is not None:
            raise CannotConnectError(Message("link_said", said=self.refusal), self.patience)
        made = await asyncio.get_running_loop().create_unix_connection(lambda: protocol, self.path)
        self.transports.append(made[0])

    async def close(self) -> None:
        """The conversations are closed at the end of the test."""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = Conversation(reader, writer)
        self.all.append(conversation)
        self.sessions.put_nowait(conversation)


class Conversation:
    """One connection, as the agent sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> dict[str, Any]:
        line = await self.reader.readline()
        if not line:
            raise EOFError
        message: dict[str, Any] = strict_loads(line.rstrip(b"\n"))
        return message

    def say(self, op: str, **keys: Any) -> None:
        self.writer.write(encode({"op": op, **keys}))

    async def shake_hands(self, *attempts: dict[str, Any], **facts: Any) -> None:
        assert (await self.read())["op"] == "hello"
        self.writer.write(encode({**WELCOME, **facts}))
        self.say("inventory", attempts=list(attempts))
        self.say("sample", at=1.0)


class Turns:
    """The loop, as far as a link tells it whether what comes over its connection can wait."""

    def __init__(self) -> None:
        self.is_hurried = True
        self.hurries = self.unheard = self.looks = 0

    def unhurried(self, fd: int) -> None:
        assert fd >= 0
        self.is_hurried = False

    def hurried(self, fd: int) -> None:
        assert fd >= 0
        self.is_hurried = True
        self.hurries += 1

    def has_said(self, fd: int) -> bool:
        assert fd >= 0
        self.looks += 1
        return self.looks <= self.unheard

    async def looked(self, times: int) -> None:
        await settled(lambda: self.looks == times)


class StillPace(Pace):
    """A pace whose clock stands still and that no work is counted for but what is charged: nothing that an agent used
    of its share comes back. `turns`: how often lines were heard."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    def worked(self, _seconds: float, _began: float, _now: float) -> None:
        self.turns += 1


class Linked:
    """A master in this process with a link to a played agent."""

    def __init__(
        self,
        folder: Path,
        hooks: Hooks = Hooks(),  # noqa: B008  (frozen)
        agent: Agent | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.hooks = hooks
        self.pace = pace
        self.turns = Turns()
        self.master = InProcess(folder)
        self.agent = agent or Agent(folder)

    async def __aenter__(self) -> Self:
        await self.master.__aenter__()
        self.server = await asyncio.start_unix_server(self.agent.accept, self.agent.path)
        self.link = Link(
            "a",
            self.agent,
            self.master.engine,
            Us(),
            self.master.port_server,
            hooks=lambda _: self.hooks,
            pace=self.pace,
            turns=self.turns,
        )
        self.master.engine.executor_of = played(self._perform)
        self.job = asyncio.create_task(self.link.run())
        self.node = self.master.core.inventory.nodes["a"]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.job.cancel()
        await asyncio.gather(self.job, return_exceptions=True)
        self.server.close()
        for conversation in self.agent.all:
            conversation.writer.close()
            with suppress(OSError):
                await conversation.writer.wait_closed()
        await self.master.__aexit__()

    def _perform(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Start):
                self.link.send(launch_message(effect.task, effect.task.allocation[0], SETTINGS))
            elif isinstance(effect, Kill):
                self.link.send({"op": "kill", "launch_id": effect.launch_id})
            else:
                self.link.send({"op": "ack", "launch_ids": [effect.launch_id]})

    async def session(self) -> Conversation:
        return await self.agent.sessions.get()

    async def set(self, name: str, value: float) -> None:
        await (await self.master.peer()).call("setting.set", name=f"scheduler.{name}", value=value)


async def beat(agent: Conversation, leap: Leap) -> None:
    leap(wire.HEARTBEAT_S)
    assert await agent.read() == {"op": "ping"}
    agent.say("pong")
