"""Agents that dial in, played over real TLS: what they are told, and who is refused."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.core.nodes.inventory import NodeSpec, NodeState
from master.drivers import report
from master.drivers.agent_archive import Pack
from master.drivers.report import ReportDriver
from master.ports import connection
from master.tls.policy import Tls
from tests.leaps import Leap
from tests.master.drivers.report_story import Far, Reporting
from tests.master.in_process import LIMITS, run
from tests.waiting import PATIENCE_S, settled
from wire.pinning import fingerprint


def test_an_agent_that_dials_in_is_told_what_to_do_over_its_own_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            agent = await far.join(far.new_token())
            far.link.send({"op": "ping"})
            while (await agent.read())["op"] != "ping":
                pass
            agent.send("sample", at=1.0, load=[1.0, 2.0, 3.0], gpus=[])
            await settled(lambda: far.node.load == [1.0, 2.0, 3.0])

    run(story())


@pytest.mark.parametrize("plain", [False, True], ids=["TLS", "plain text"])
def test_anybody_may_have_the_certificate_and_the_archive_which_are_no_secrets(tmp_path: Path, *, plain: bool) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            answers = []
            for op, size in (("authority", -1), ("archive", len(far.reports.archive.data))):
                agent = Far(*await asyncio.open_connection(*far.master.address())) if plain else await far.dial()
                agent.send(op)
                answers.append(await (agent.reader.read() if size < 0 else agent.reader.readexactly(size)))
                agent.writer.close()
            told = json.loads(answers[0])
            assert fingerprint(told["certificate"]) == far.master.tls.fingerprint()
            assert told["cluster"] == "c"
            assert hashlib.sha256(answers[1]).hexdigest() == far.reports.archive.checksum
            await settled(lambda: not far.reports.transfers)

    run(story())


def test_the_archive_arrives_whole_over_a_line_slower_than_a_close_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SHUTDOWN_S", 1e-6)

    async def story() -> None:
        async with Reporting(tmp_path) as far:
            far.reports.archive = Pack(lambda: b"x" * (16 << 20))  # more than the kernel keeps on the way
            agent = await far.dial()
            agent.send("archive")
            assert await agent.reader.readexactly(16 << 20) == far.reports.archive.data

    run(story())


@pytest.mark.parametrize("cap", ["TRANSFERS", "TRANSFERS_OF_ONE"])
def test_who_never_takes_the_archive_is_cut_off_and_there_are_never_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leap: Leap, cap: str
) -> None:
    monkeypatch.setattr(report, "TRANSFER_S", PATIENCE_S)
    monkeypatch.setattr(report, cap, 1)

    async def story() -> None:
        async with Reporting(tmp_path) as far:
            first, second = await far.dial(), await far.dial()
            first.send("archive")
            await settled(lambda: far.reports.transfers)
            second.send("archive")
            assert (await second.read())["code"] == "busy"
            leap(PATIENCE_S)
            with suppress(ConnectionError):
                await first.reader.read()
            assert not far.reports.transfers

    run(story())


@pytest.mark.parametrize("op", ["authority", "archive", "report"])
def test_a_master_without_tls_receives_nobody_and_makes_no_certificate(tmp_path: Path, op: str) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            far.reports.tls = Tls.of(msgspec.structs.replace(far.master.place.config, tls="off"))
            agent = Far(*await asyncio.open_connection(*far.master.address()))
            agent.send(op)
            answer = await agent.read()
            assert (answer["code"], answer["final"]) == ("plain", False)
            assert "tls" in answer["message"]
            agent.writer.close()
            assert not (tmp_path / "task_info" / "tls").exists()

    run(story())


WRONG: dict[str, dict[str, Any]] = {
    "a wrong secret": {"token": "abcd.wrong"},
    "a token of nobody": {"token": "no token at all"},
    "another node": {"node": "b"},
    "an unknown node": {"node": "nobody"},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_who_has_no_token_of_this_node_is_refused_for_good(
    tmp_path: Path, wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> str:
        async with Reporting(tmp_path) as far:
            far.core.set_nodes((far.node.spec, NodeSpec(name="b")))
            ReportDriver("b", far.reports)
            token = far.new_token()
            agent, answer = await far.call(**{"token": token, **wrong})
            assert (answer["op"], answer["code"], answer["final"]) == ("refused", "token", True)
            assert await agent.reader.read() == b""
            assert far.node.state is NodeState.CONNECTING
            return token.partition(".")[2]

    with caplog.at_level(logging.DEBUG):
        secret = run(story())
    assert "its token is not one of node" in caplog.text
    assert secret not in caplog.text
    assert "abcd.wrong" not in caplog.text


def test_a_report_in_plain_text_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            agent = Far(*await asyncio.open_connection(*far.master.address()))
            token = far.new_token()
            agent.send("report", node="a", token=token, state_id="s", version=far.reports.version)
            assert (await agent.read())["code"] == "plain"
            agent.writer.close()

    run(story())


BROKEN = {
    "no JSON": b'{"op":"report"\n',
    "no token": b'{"op":"report","node":"a"}\n',
    "a token that is a number": b'{"op":"report","node":"a","token":7,"state_id":"s","version":"v"}\n',
    "a key twice": b'{"op":"report","op":"archive"}\n',
    "an op of later": b'{"op":"dance"}\n',
    "an op that is a list": b'{"op":[]}\n',
    "half of a surrogate pair": b'{"op":"report","node":"\\ud83d","token":"a.b","state_id":"s","version":"v"}\n',
}


@pytest.mark.parametrize("said", BROKEN.values(), ids=BROKEN)
def test_a_report_that_cannot_be_read_is_refused_and_not_for_good(tmp_path: Path, said: bytes) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            agent = await far.dial()
            agent.writer.write(said)
            answer = await agent.read()
            assert (answer["op"], answer["final"]) == ("refused", False)
            assert await agent.reader.read() == b""

    run(story())


def test_a_report_that_outgrows_its_cap_is_closed(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            agent = await far.dial()
            agent.writer.write(b'{"op":"report","node":"' + b"x" * LIMITS.frame_bytes_unidentified)
            answer = await agent.reader.read()
            assert b"more than" in answer

    run(story())


def test_an_agent_of_another_version_is_told_which_to_fetch_unless_it_cannot(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            token = far.new_token()
            _, answer = await far.call(token, version="0" * 16)
            size, sha256 = len(far.reports.archive.data), far.reports.archive.checksum
            assert answer == {"op": "outdated", "version": far.reports.version, "size": size, "sha256": sha256}
            _, answer = await far.call(token, version="0" * 16, stays=True)
            assert answer["op"] == "reported"

    run(story())
