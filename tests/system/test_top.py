"""`muster top` against a real master: what it shows is so, its keys act, and it comes back when the master does."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from client.address import find
from client.api import Client
from client.live.once import collect
from client.live.state import FEEDS
from client.session import Session
from client.top.app import Top
from client.trust import Trust
from tests.client.top_screen import Screen
from tests.client.top_terminal import Terminal
from tests.faults import error_line
from tests.system.lab import ROOT, Lab
from tests.waiting import until
from wire.errors import UntrustedError

QUIET_S = 10.0
SLOW_LINE = 1200
"""Bytes a second of a line with 9600 bits."""


@asynccontextmanager
async def top(lab: Lab, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Screen]:
    app = Top.of(find(str(lab.conf)), None)
    async with app.run_test(size=size) as pilot:
        yield Screen(app, pilot)


def test_tasks_come_run_are_read_and_cancelled_on_the_screen(lab: Lab) -> None:
    lab.start()

    async def story() -> None:
        async with top(lab) as screen:
            await screen.shows("node0 online")
            with lab.client() as client:
                words = "echo 开始; echo second; sleep 100"
                first = client.submit(words, gpus=3, name="训练")
                second = client.submit(["true"], gpus=6, name="too-many")
            await screen.shows("node0:0-2")
            await screen.shows("too-many")
            await screen.shows("5 of 8 GPUs free")
            await screen.until("CPU", lambda: "node0" in screen.app.state.samples)
            await screen.shows("GPUs 3/8 held  1 run, 1 wait")
            await screen.pilot.press("g", "l")
            await screen.shows("开始")
            await screen.shows("second")
            await screen.pilot.press("q", "j", "w")
            await screen.shows(f"task {second} (waiting): needs 6 GPUs")
            await screen.pilot.press("q", "k", "c")
            await screen.shows(f"Cancel task {first} 训练")
            await screen.pilot.press("y")
            await screen.until("both are gone", lambda: screen.app.state.complete and not screen.app.state.tasks)
            await screen.shows("8 of 8 GPUs free")

    asyncio.run(story())


def test_the_reason_of_a_waiting_task_follows_what_happens_elsewhere(lab: Lab) -> None:
    lab.start()

    async def story() -> None:
        async with top(lab, (200, 50)) as screen:
            with lab.client() as client:
                running = [client.submit(["sleep", "100"], gpus=4) for _ in range(2)]
                client.submit(["true"], gpus=8, name="waits")
                await screen.shows("0 of 8 GPUs free")
                client.cancel(running[:1])
                await screen.shows("4 of 8 GPUs free (task 2")
                client.cancel(running[1:])

    asyncio.run(story())


def test_a_master_that_is_killed_is_told_and_found_again(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        client.submit(["sleep", "100"], gpus=1, name="outlives")

    async def story() -> None:
        async with top(lab) as screen:
            await screen.shows("node0:0")
            lab.kill_master()
            await screen.shows("NO MASTER for")
            assert "outlives" in screen.text()
            await screen.pilot.press("w")
            await screen.shows("unreachable: ")
            lab.start()
            await screen.shows("● live")
            with lab.client() as client:
                client.cancel(everything=True)
            await screen.until("the end came over the new connection", lambda: "outlives" not in screen.text())

    asyncio.run(story())


def sampled(lab: Lab) -> dict[str, Any] | None:
    """One look, once its node has told how it stands with it."""
    document: dict[str, Any] = json.loads(lab.muster("top", "--json").stdout)
    return document if document["nodes"][0]["sample"] else None


def test_one_look_as_text_and_as_json(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        client.submit(["sleep", "100"], gpus=2, name="大")
        client.wait([1], until="started")
        done = lab.muster("top", "--once")
        assert (done.returncode, done.stderr) == (0, "")
        assert "GPUs 2/8 held  1 run, 0 wait" in done.stdout
        assert "1 " in done.stdout
        assert "\x1b" not in done.stdout
        document = until("a sample came", lambda: sampled(lab))
        assert document["nodes"][0]["sample"]["cpu_percent"] >= 0
        assert [(one["id"], one["state"]) for one in document["tasks"]] == [(1, "running")]
        client.cancel([1])
        client.wait([1])


def test_without_a_terminal_a_master_or_textual_there_is_one_line_and_the_cure(lab: Lab) -> None:
    lab.start()
    refused = lab.muster("top")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == error_line("bad_request", "top_needs_terminal") + "\n"
    hidden = "import sys; sys.modules['textual'] = None; from client.cli.main import main; sys.exit(main())"
    master, slave = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", hidden, "top", "--conf", str(lab.conf)],
        cwd=ROOT, env=lab.environment(), stdin=slave, stdout=slave, stderr=slave, timeout=60, check=False,
    )  # fmt: skip
    os.close(slave)
    said = os.read(master, 1000).decode()
    os.close(master)
    assert done.returncode == 1
    assert error_line("config", "top_needs_textual") in said
    lab.stop_master()
    assert lab.muster("top", "--once").returncode == 3


def test_on_a_real_terminal_a_quiet_screen_needs_hardly_a_line(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        client.submit_batch(["sleep 100"] * 10, gpus=1)
        until("all but two run", lambda: len(client.tasks(states=["running"])) == 8)
    with Terminal(str(lab.conf)) as terminal:
        terminal.shows(b"live")
        # What it draws first, and a busy machine draws late, is much; a screen that is never quiet is never still.
        until("little is drawn", lambda: len(terminal.reads(QUIET_S)) / QUIET_S < SLOW_LINE / 4, 6 * QUIET_S)
        with lab.client() as client:
            client.cancel(everything=True)
        os.write(terminal.screen, b"q")
        assert terminal.ends()[0] == 0


class Counted(Trust):
    """Counts the connections that were made safe."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__("elsewhere")
        self.wanted = fingerprint
        self.connections = 0

    def secure(self, dial: Callable[[], socket.socket], host: str) -> ssl.SSLSocket:
        self.connections += 1
        return super().secure(dial, host)


def test_a_master_elsewhere_is_followed_over_tls(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    lab.start()
    with lab.client() as client:
        until("online", lambda: client.node("node0")["state"] == "online")
    address = find(str(lab.conf))
    with pytest.raises(UntrustedError) as refused:
        Session(address.host, address.data, trust=Trust("elsewhere")).connect()
    address.trust = trust = Counted(re.findall(r"sha256:\w+", str(refused.value))[0])
    with Client(address, None) as client:
        client.info()
    assert collect(address, None).nodes.keys() == {"node0"}
    assert trust.connections == 1 + len(FEEDS)
