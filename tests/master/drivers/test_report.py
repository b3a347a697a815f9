"""Agents that dial in, played over real TLS: whose token opens, who takes whose place, who is waited for."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from master.core.cordon import Note
from master.core.inventory import NodeSpec, NodeState
from master.core.task import Task, TaskState
from master.drivers import node_tokens, report
from master.drivers.report import Report, ReportDriver
from master.nodes.link import Link
from master.ports import hub
from master.tls.policy import Tls
from tests.master.in_process import LIMITS, InProcess, Us, run, settled
from wire.framing import encode, strict_loads
from wire.pinning import fingerprint, pinned

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
        async with asyncio.timeout(5):
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
        self.core, self.desk = self.master.core, self.master.place.desk
        self.driver = ReportDriver("a", self.desk, self.stale_s)
        self.link = Link("a", self.driver, self.master.engine, Us(), self.master.hub)
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
        before = self.desk.tokens("a")
        text, fresh = node_tokens.make("ann", time.time())
        after = node_tokens.rotated(before, fresh, time.time()) if rotate else (fresh,)
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
        said = {"node": "a", "token": token, "state_id": "s1", "version": self.desk.version, **keys}
        agent.send("report", **said)
        return agent, await agent.read()

    async def join(self, token: str, state_id: str = "s1", attempts: tuple[Any, ...] = ()) -> Far:
        """Report, and shake hands: the node is online then."""
        agent, answer = await self.call(token, state_id=state_id)
        assert answer == {"op": "reported", "version": self.desk.version}
        assert (await agent.read())["op"] == "hello"
        agent.send("welcome", **{**WELCOME, "state_id": state_id, "version": self.desk.version})
        agent.send("inventory", attempts=list(attempts))
        agent.send("sample", at=1.0)
        await settled(lambda: self.node.state is NodeState.ONLINE)
        return agent


# -- tokens ---------------------------------------------------------------------------------------------------


def test_a_token_opens_and_only_its_digest_is_kept() -> None:
    text, token = node_tokens.make("ann", 5.0)
    name, _, secret = text.partition(".")
    assert (token.id, token.by, token.at) == (name, "ann", 5.0)
    assert secret not in msgspec.json.encode(token).decode()
    assert token.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert node_tokens.find([token], text, 6.0) is token


@pytest.mark.parametrize(
    "spoil", [str.upper, str.swapcase, lambda text: text + "x", lambda text: text[:-1], lambda _: ""]
)
def test_what_is_nearly_the_token_opens_nothing(spoil: Any) -> None:
    text, token = node_tokens.make("ann", 5.0)
    assert node_tokens.find([token], spoil(text), 6.0) is None
    assert node_tokens.find([], text, 6.0) is None
    assert node_tokens.find([token], "\ud83d.\ud83d", 6.0) is None


def test_the_one_before_opens_for_ten_minutes_and_the_one_before_that_no_longer_than_it_had() -> None:
    first, one = node_tokens.make("ann", 0.0)
    second, two = node_tokens.make("ann", 100.0)
    tokens = node_tokens.rotated([one], two, 100.0)
    assert node_tokens.find(tokens, first, 699.0) is not None
    assert node_tokens.find(tokens, first, 700.0) is None
    assert node_tokens.find(tokens, second, 1e9) is not None
    third, three = node_tokens.make("ann", 200.0)
    again = node_tokens.rotated(tokens, three, 200.0)
    assert node_tokens.find(again, first, 201.0) is None
    assert node_tokens.find(again, second, 799.0) is not None
    assert node_tokens.find(again, third, 1e9) is not None


# -- dialling in ----------------------------------------------------------------------------------------------


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
            for op, size in (("authority", -1), ("archive", len(far.desk.archive))):
                agent = Far(*await asyncio.open_connection(*far.master.address())) if plain else await far.dial()
                agent.send(op)
                answers.append(await (agent.reader.read() if size < 0 else agent.reader.readexactly(size)))
                agent.writer.close()
            told = json.loads(answers[0])
            assert fingerprint(told["certificate"]) == far.master.tls.fingerprint()
            assert told["cluster"] == "c"
            assert hashlib.sha256(answers[1]).hexdigest() == far.desk.sha256
            await settled(lambda: not far.desk._givings)

    run(story())


def test_the_archive_arrives_whole_over_a_line_slower_than_a_close_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "SHUTDOWN_S", 1e-6)

    async def story() -> None:
        async with Reporting(tmp_path) as far:
            far.desk.archive = b"x" * (16 << 20)  # more than the kernel keeps on the way
            agent = await far.dial()
            agent.send("archive")
            assert await agent.reader.readexactly(len(far.desk.archive)) == far.desk.archive

    run(story())


def test_who_never_takes_the_archive_is_cut_off_and_there_are_never_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "GIVING_S", 0.2)
    monkeypatch.setattr(report, "GIVINGS", 1)

    async def story() -> None:
        async with Reporting(tmp_path) as far:
            first, second = await far.dial(), await far.dial()
            first.send("archive")
            await settled(lambda: far.desk._givings)
            second.send("archive")
            assert (await second.read())["code"] == "busy"
            with suppress(ConnectionError):
                await first.reader.read()
            assert not far.desk._givings

    run(story())


@pytest.mark.parametrize("op", ["authority", "archive", "report"])
def test_a_master_without_tls_receives_nobody_and_makes_no_certificate(tmp_path: Path, op: str) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            far.desk.tls = Tls.of(msgspec.structs.replace(far.master.place.config, tls="off"))
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
            ReportDriver("b", far.desk, 60.0)
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
            agent.send("report", node="a", token=token, state_id="s", version=far.desk.version)
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
            agent.writer.write(b'{"op":"report","node":"' + b"x" * LIMITS.frame_unidentified)
            answer = await agent.reader.read()
            assert b"more than" in answer

    run(story())


def test_an_agent_of_another_version_is_told_which_to_fetch_unless_it_cannot(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            token = far.new_token()
            _, answer = await far.call(token, version="0" * 16)
            size = len(far.desk.archive)
            assert answer == {"op": "outdated", "version": far.desk.version, "size": size, "sha256": far.desk.sha256}
            _, answer = await far.call(token, version="0" * 16, stays=True)
            assert answer["op"] == "reported"

    run(story())


# -- whose place ----------------------------------------------------------------------------------------------


def test_an_agent_that_comes_again_takes_the_place_of_its_dead_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            token = far.new_token()
            first = await far.join(token)
            second, answer = await far.call(token)
            assert answer["op"] == "reported"
            await first.gone()
            assert (await second.read())["op"] == "hello"

    run(story())


def test_of_two_agents_with_one_token_the_one_that_is_connected_stays(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            token = far.new_token()
            await far.join(token, "s1")
            _, answer = await far.call(token, state_id="s2")
            assert (answer["code"], answer["final"]) == ("busy", False)
            assert far.node.state is NodeState.ONLINE

    run(story())


def test_a_machine_with_a_copy_of_the_state_folder_does_not_put_the_first_one_out(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            token = far.new_token()
            first, _ = await far.call(token, boot_id="boot")
            _, answer = await far.call(token, boot_id="another")
            assert (answer["code"], answer["final"]) == ("busy", False)
            again, answer = await far.call(token, boot_id="boot")  # the same one, whose connection broke
            assert answer["op"] == "reported"
            await first.gone()
            again.writer.transport.abort()  # it restarts, and that its connection is dead has been noticed
            await settled(lambda: far.driver.objection(Report("a", "", "s1", "v", boot_id="another")) is None)
            assert (await far.call(token, boot_id="another"))[1]["op"] == "reported"

    run(story())


def test_a_second_agent_does_not_take_over_while_tasks_run_with_the_first(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            token = far.new_token()
            first = await far.join(token, "s1")
            draft = Task(id=0, owner="ann", command="sleep 9", cwd="/", gpus=1)
            task = far.master.engine.client_change(lambda: far.core.submit([draft], 1.0))[0]
            await settled(lambda: far.core.tasks[task.id].state is TaskState.STARTING)
            first.writer.transport.abort()
            await settled(lambda: far.node.state is NodeState.CONNECTING)
            _, answer = await far.call(token, state_id="s2")
            assert (answer["code"], answer["final"]) == ("busy", False)
            assert "node lost a" in answer["message"]
            assert far.core.tasks[task.id].state is TaskState.STARTING
            launch = far.core.tasks[task.id].launch
            assert launch is not None
            there = {"launch_id": launch.launch_id, "state": "running", "started_at": 5.0, "pid": 7}
            await far.join(token, "s1", (there,))
            await settled(lambda: far.core.tasks[task.id].state is TaskState.RUNNING)

    run(story())


def test_a_revoked_token_puts_the_agent_out_and_its_tasks_stay_in_the_books(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            token = far.new_token()
            agent = await far.join(token)
            far.master.engine.event(lambda: far.core.set_tokens("a", ()))
            far.driver.look_at_token()
            await agent.gone()
            await settled(lambda: far.node.state is NodeState.CONNECTING)
            assert "token opens nothing any more; `muster node token a` makes one" in (far.node.reason or "")
            _, answer = await far.call(token)
            assert answer["final"] is True
            assert far.core.notes == {}

    run(story())


def test_a_rotated_token_lets_the_old_one_go_on_until_its_grace_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_tokens, "GRACE_S", 0.3)

    async def story() -> None:
        async with Reporting(tmp_path) as far:
            old = far.new_token()
            agent = await far.join(old)
            new = far.new_token(rotate=True)
            far.link.send({"op": "ping"})
            while (await agent.read())["op"] != "ping":
                pass
            await agent.gone()
            assert (await far.call(old))[1]["final"] is True
            assert (await far.call(new))[1]["op"] == "reported"

    run(story())


def test_an_agent_that_was_stopped_is_sent_away_until_it_is_started(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            token = far.new_token()
            far.master.engine.event(lambda: far.core.set_stopped("a", "ann"))
            _, answer = await far.call(token)
            assert (answer["code"], answer["final"]) == ("stopped", False)
            far.master.engine.event(lambda: far.core.set_stopped("a", None))
            await far.join(token)

    run(story())


def test_a_node_that_left_the_registry_may_come_back_and_one_that_was_removed_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path) as far:
            token = far.new_token()
            assert far.core.notes["a"] != Note()
            await far.driver.close()
            far.master.engine.event(lambda: far.core.set_nodes(()))
            _, answer = await far.call(token)
            assert (answer["code"], answer["final"]) == ("no_node", False)
            far.master.engine.event(lambda: far.core.forget_note("a"))
            assert (await far.call(token))[1]["final"] is True

    run(story())


# -- waiting --------------------------------------------------------------------------------------------------


def test_a_node_is_connecting_while_it_may_come_and_unreachable_when_it_was_away_for_long(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path, stale_s=0.3) as far:
            token = far.new_token()
            began = time.monotonic()
            assert far.node.state is NodeState.CONNECTING
            await settled(lambda: far.node.state is NodeState.UNREACHABLE)
            assert time.monotonic() - began >= 0.3
            assert "has not been heard from for 0 s" in (far.node.reason or "")
            agent = await far.join(token)
            agent.writer.transport.abort()
            await settled(lambda: far.node.state is NodeState.CONNECTING)
            await settled(lambda: far.node.state is NodeState.UNREACHABLE)
            await far.join(token)

    run(story())


def test_an_agent_that_nobody_takes_is_not_kept_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "HELD_S", 0.1)

    async def story() -> None:
        async with Reporting(tmp_path) as far:
            far.job.cancel()
            await asyncio.gather(far.job, return_exceptions=True)
            agent, answer = await far.call(far.new_token())
            assert answer["op"] == "reported"
            await agent.gone()

    run(story())


def test_tokens_survive_in_the_state_of_the_master(tmp_path: Path) -> None:
    async def first() -> str:
        async with Reporting(tmp_path) as far:
            token = far.new_token()
            await settled(lambda: not far.master.engine._unsynced)
            return token

    token = run(first())
    files = b"".join(path.read_bytes() for path in (tmp_path / "task_info").iterdir() if path.is_file())
    assert token.partition(".")[2].encode() not in files
    assert token.partition(".")[0].encode() in files
