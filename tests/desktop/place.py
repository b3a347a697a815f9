"""A master inside the test's own loop that desktop clients may connect to: real store, real sockets, no agents."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from master.config.conf_file import DesktopClient as Access
from master.config.config import load_config
from master.core.tasks.task import Task
from master.desktop.clients import DesktopClients
from master.files.service import Files
from tests.desktop.client import DesktopClient
from tests.master.in_process import InProcess, run
from tests.waiting import PATIENCE_S
from wire.agent import Probed

VISIBLE = ("data", "envs")
LOOPBACK = ("127.0.0.0/8", "::1/128")
SILENT_S = 0.2


class ThisMachine:
    """Stands in for the fleet: whatever is asked of a node is asked of this machine. `silent`: nothing answers."""

    def __init__(self) -> None:
        self.configs: dict[str, Any] = {}
        self.registry_fault = None
        self.silent = False
        self.asked: list[str] = []

    async def probe(self, node: str, argv: list[str], **how: Any) -> Probed:
        """Run it here."""
        self.asked.append(node)
        if self.silent:
            await asyncio.sleep(how["timeout_s"])
            return Probed(op="probed", probe_id="", code=None, output="", truncated=False, error="timed out")
        done = await asyncio.to_thread(
            subprocess.run,
            argv,
            cwd=how["cwd"],
            env={**os.environ, **how["env"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=how["timeout_s"],
            check=False,
        )
        text = done.stdout.decode("utf-8", "replace")
        return Probed(op="probed", probe_id="", code=done.returncode, output=text, truncated=False, error="")

    async def close(self) -> None:
        """Nothing was opened."""


class DesktopPlace(InProcess):
    """`async with DesktopPlace(folder) as master`; clients are blocking, so they are used in threads."""

    networks: tuple[str, ...] = LOOPBACK
    silent_s = SILENT_S

    async def __aenter__(self) -> Self:
        """Open it, with the folders that people share."""
        self.loop = asyncio.get_running_loop()
        self.clients: list[DesktopClient] = []
        await super().__aenter__()
        for name in (*VISIBLE, "logs"):
            (self.folder / name).mkdir(exist_ok=True)
        self.machine = ThisMachine()
        self.place.fleet = self.machine  # type: ignore[assignment]
        conf = {"socket_info": {"monitor_port": 1, "data_port": 2, "train_state_port": 3}, "visible_folders": VISIBLE}
        (self.folder / "conf.json").write_text(json.dumps(conf), encoding="utf-8")
        self.place.config = load_config(self.folder / "conf.json")
        self.place.files = Files(self.folder, VISIBLE)
        access = Access(networks=self.networks, silent_s=self.silent_s)
        self.port_server.desktop = DesktopClients(self.port_server.dispatcher, access)
        return self

    async def client(self) -> DesktopClient:
        """A desktop client, closed with the master at the latest."""
        addresses = {name: self.address(name) for name in self.servers}
        client = await asyncio.to_thread(DesktopClient, addresses)
        self.clients.append(client)
        return client

    async def __aexit__(self, *what: object) -> None:
        """Close the windows, then all of it."""
        for client in self.clients:
            client.close()
        await super().__aexit__(*what)

    def submit(self, command: str | list[str], **keys: Any) -> int:
        """Queue a task past all clients; its id."""
        draft = Task(id=0, owner="ann", command=command, cwd=str(self.folder), **keys)
        return self.engine.client_change(lambda: self.core.submit([draft], 1.0)[0].id)


def with_client(folder: Path, story: Callable[[DesktopClient, DesktopPlace], None]) -> None:
    """Run a story in a thread, beside the master's loop. What it does to the master itself goes through `in_loop`."""

    async def tell() -> None:
        async with DesktopPlace(folder) as master:
            client = await master.client()
            await asyncio.to_thread(story, client, master)
            assert client.read_err == []

    run(tell())


def in_loop(master: DesktopPlace, work: Callable[[], Any]) -> Any:
    """Do something in the master's loop, from a story's thread."""

    async def do() -> Any:
        return work()

    return asyncio.run_coroutine_threadsafe(do(), master.loop).result(PATIENCE_S)


def change(master: DesktopPlace, work: Callable[[], Any]) -> None:
    """Change something in the master's loop, and wait until it is durable: before, the tables show nothing of it."""
    in_loop(master, work)
    asyncio.run_coroutine_threadsafe(master.engine.settled(), master.loop).result(PATIENCE_S)
