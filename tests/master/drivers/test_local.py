"""The driver `local` and a real agent: started once, found again, and said in one line when it cannot be."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from master.drivers.agent_archive import Archive, Pack, build
from master.drivers.local import LocalDriver, state_base, state_name
from master.nodes.driver import CannotConnectError
from tests.master.in_process import run
from tests.testbed.archives import archive_of
from tests.waiting import settled
from wire.framing import encode

GARBAGE = archive_of(b"this is no program\n")


class Line(asyncio.Protocol):
    """Says hello and keeps what it hears."""

    def __init__(self) -> None:
        self.heard = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        hello = {"op": "hello", "protocol": 1, "cluster": "c", "epoch": 1, "incarnation": "i", "lineage": [[1, "i"]]}
        transport.write(encode(hello))

    def data_received(self, data: bytes) -> None:
        self.heard += data

    async def welcome(self) -> dict[str, Any]:
        await settled(lambda: b"\n" in self.heard)
        message: dict[str, Any] = json.loads(self.heard.split(b"\n")[0])
        assert message["op"] == "welcome", message
        return message

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """Where the agents of a test have their state; whatever runs there is ended afterwards."""
    folder = tmp_path / ("deep-" * 20) / ("er" * 20)
    yield folder
    for lock in folder.glob("*/lock"):
        with suppress(ProcessLookupError, ValueError):
            os.kill(int(lock.read_text(encoding="ascii")), signal.SIGKILL)


@pytest.mark.parametrize("name", ["a", "节点 一", "x" * 64, "节" * 64, ".hidden", "with.dots+and:colons"])
def test_the_agent_is_started_where_there_is_none_and_found_again_where_there_is(base: Path, name: str) -> None:
    async def story() -> None:
        first, second = Line(), Line()
        driver = LocalDriver(name, "cluster", build(), base)
        await driver.connect(first)
        pid = (await first.welcome())["pid"]
        await driver.connect(second)
        assert (await second.welcome())["pid"] == pid
        first.close()
        second.close()

    run(story())


def test_who_finds_an_agent_running_makes_no_archive(base: Path) -> None:
    """A master that is restarted: people wait for it."""

    def make() -> bytes:
        raise AssertionError

    unmade = Archive("0123456789abcdef", Pack(make), Pack(make))

    async def story() -> None:
        first, second = Line(), Line()
        await LocalDriver("a", "c", build(), base).connect(first)
        await LocalDriver("a", "c", unmade, base).connect(second)
        assert (await second.welcome())["pid"] == (await first.welcome())["pid"]
        first.close()
        second.close()

    run(story())


def test_two_nodes_and_two_masters_have_agents_of_their_own(base: Path) -> None:
    async def story() -> None:
        pids = set()
        for node, cluster in (("a", "c1"), ("b", "c1"), ("a", "c2")):
            line = Line()
            await LocalDriver(node, cluster, build(), base).connect(line)
            pids.add((await line.welcome())["pid"])
            line.close()
        assert len(pids) == 3

    run(story())


def _no_program(base: Path) -> LocalDriver:
    return LocalDriver("a", "c", GARBAGE, base)


def _a_file_in_the_way(base: Path) -> LocalDriver:
    base.parent.mkdir(parents=True)
    base.write_text("", encoding="utf-8")
    return LocalDriver("a", "c", build(), base)


def _a_file_instead_of_the_state_folder(base: Path) -> LocalDriver:
    base.mkdir(parents=True)
    (base / "c-a").write_text("", encoding="utf-8")
    return LocalDriver("a", "c", build(), base)


@pytest.mark.parametrize("made", [_no_program, _a_file_in_the_way, _a_file_instead_of_the_state_folder])
def test_an_agent_that_cannot_be_started_is_told_in_one_line(base: Path, made: Callable[[Path], LocalDriver]) -> None:
    async def story() -> None:
        with pytest.raises(CannotConnectError) as caught:
            await made(base).connect(Line())
        assert "\n" not in str(caught.value)
        assert caught.value.why.key == "agent_not_started"

    run(story())


def test_a_folder_that_others_may_write_to_is_made_ours_alone(base: Path) -> None:
    base.mkdir(parents=True)
    base.chmod(0o777)

    async def story() -> None:
        line = Line()
        await LocalDriver("a", "c", build(), base).connect(line)
        await line.welcome()
        line.close()

    run(story())
    assert base.stat().st_mode & 0o777 == 0o700


def test_the_state_lies_where_that_of_a_node_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert state_base() == tmp_path / "state" / "muster"


def test_any_name_that_a_registry_allows_fits_a_folder() -> None:
    assert state_name("c", "gpu1") == "c-gpu1"
    names = {state_name("c0ffee", "节" * 63 + last) for last in "ab点"}
    assert len(names) == 3
    assert all(name.isascii() and len(name) <= 255 and "/" not in name for name in names)


def test_the_version_is_the_archives() -> None:
    assert LocalDriver("a", "c", GARBAGE, Path("/nowhere")).version == GARBAGE.version
