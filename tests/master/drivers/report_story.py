"""Agents that dial in, played over real TLS."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from master.core.nodes.inventory import NodeState
from master.core.people.clock import RightsTime
from master.drivers.report import ReportDriver
from master.nodes import node_tokens
from master.nodes.link import Link
from tests.master.in_process import InProcess, Us
from tests.waiting import settled
from wire.framing import encode, strict_loads
from wire.pinning import pinned

WELCOME: dict[str, Any] = {
    "boot_id": "boot", "cpus": 4, "memory_mib": 1000, "hostname": "far", "python": "3.8",
}  # fmt: skip


class Far:
    """An agent somewhere else, as the master sees it: one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, op: str, **keys: Any) -> None:
        self.writer.write(encode({"op": op, **keys}))

    async def read(self) -> dict[str, Any]:
        line = await self.reader.readline()
        if not line:
            raise EOFError
        message: dict[str, Any] = strict_loads(line.rstrip(b"\n"))
        return message

    async def gone(self) -> None:
        """Whatever else is said, the connection ends, and long before silence would end it."""
        async with asyncio.timeout(60):
            with suppress(EOFError, ConnectionError):
                while True:
                    await self.read()


class Reporting:
    """A master in this process whose node `a` is dialled by nobody: its agent is to come."""

    def __init__(self, folder: Path, stale_s: float = 60.0) -> None:
        self.master = InProcess(folder)
        self.stale_s = stale_s
        self.agents: list[Far] = []

    async def __aenter__(self) -> Self:
        await self.master.__aenter__()
        self.core, self.reports = self.master.core, self.master.place.reports
        self.core.tuning.set("scheduler.report_stale_s", self.stale_s, "ann", 1.0)
        self.driver = ReportDriver("a", self.reports)
        self.link = Link("a", self.driver, self.master.engine, Us(), self.master.port_server)
        self.job = asyncio.create_task(self.link.run())
        self.node = self.core.inventory.nodes["a"]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.job.cancel()
        await asyncio.gather(self.job, return_exceptions=True)
        await self.driver.close()
        for agent in self.agents:
            agent.writer.close()
        await self.master.__aexit__()

    def new_token(self, *, rotate: bool = False) -> str:
        before = self.reports.tokens("a")
        text, fresh = node_tokens.make("ann", time.time())
        after = node_tokens.rotated(before, fresh, RightsTime(time.time())) if rotate else (fresh,)
        self.master.engine.event(lambda: self.core.set_tokens("a", after))
        self.driver.look_at_token()
        return text

    async def dial(self) -> Far:
        context = pinned(self.master.tls.authority())
        agent = Far(*await asyncio.open_connection(*self.master.address(), ssl=context, server_hostname="m"))
        self.agents.append(agent)
        return agent

    async def call(self, token: str, **keys: Any) -> tuple[Far, dict[str, Any]]:
        """Dial in and report; the connection and what was answered."""
        agent = await self.dial()
        said = {"node": "a", "token": token, "state_id": "s1", "version": self.reports.version, **keys}
        agent.send("report", **said)
        return agent, await agent.read()

    async def join(self, token: str, state_id: str = "s1", attempts: tuple[Any, ...] = ()) -> Far:
        """Report, and shake hands: the node is online then."""
        agent, answer = await self.call(token, state_id=state_id)
        assert answer == {"op": "reported", "version": self.reports.version}
        assert (await agent.read())["op"] == "hello"
        agent.send("welcome", **{**WELCOME, "state_id": state_id, "version": self.reports.version})
        agent.send("inventory", attempts=list(attempts))
        agent.send("sample", at=1.0)
        await settled(lambda: self.node.state is NodeState.ONLINE)
        return agent
