"""Agents that dial in, played over real TLS: who takes whose place, and who is waited for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from master.core.nodes.inventory import NodeState
from master.core.nodes.notes import Note
from master.core.tasks.task import Task, TaskState
from master.drivers import report
from master.drivers.report import Report
from master.nodes import node_tokens
from tests.leaps import Leap
from tests.master.drivers.report_story import Reporting
from tests.master.in_process import run
from tests.waiting import PATIENCE_S, settled
from wire.message import Message

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
            (part,) = far.core.tasks[task.id].allocation
            there = {"launch_id": part.launch_id, "state": "running", "started_at": 5.0, "pid": 7}
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leap: Leap
) -> None:
    monkeypatch.setattr(node_tokens, "GRACE_S", PATIENCE_S)

    async def story() -> None:
        async with Reporting(tmp_path) as far:
            old = far.new_token()
            agent = await far.join(old)
            new = far.new_token(rotate=True)
            far.link.send({"op": "ping"})
            while (await agent.read())["op"] != "ping":
                pass
            leap(PATIENCE_S)
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
        began = time.monotonic()
        async with Reporting(tmp_path, stale_s=0.3) as far:
            token = far.new_token()
            assert far.node.state is NodeState.CONNECTING
            await settled(lambda: far.node.state is NodeState.UNREACHABLE)
            assert time.monotonic() - began >= 0.3
            assert far.node.link_says == Message("agent_not_heard", seconds=0.3)
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
