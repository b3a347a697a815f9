"""Pings, the pace that an agent is told, and silence, with an agent that is played by the test."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from master.core.nodes.inventory import NodeState
from master.core.tasks.task import TaskState
from master.nodes import heartbeat
from master.nodes.heartbeat import BEATS, DOUBT_S, TOGETHER_S, together
from tests.leaps import Leap
from tests.master.in_process import run
from tests.master.nodes.played_agent import SILENCE_S, Linked, beat
from tests.waiting import settled
from wire import agent as wire
from wire.message import Message


def test_links_look_after_their_agents_in_the_same_moments_and_never_too_soon() -> None:
    due = [1000.0 + number / 100 for number in range(100)]
    looks = [together(at) for at in due]
    assert all(0 <= look - at < TOGETHER_S for at, look in zip(due, looks, strict=True))
    assert len(set(looks)) <= 1 + 1 / TOGETHER_S


def test_an_agent_that_falls_silent_is_noticed(tmp_path: Path, leap: Leap) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            leap(wire.HEARTBEAT_S)
            assert (await agent.read())["op"] == "ping"
            leap(2 * wire.HEARTBEAT_S)
            await here.session()
            assert "said nothing" in (here.node.reason or "")
            assert here.node.link_says is not None
            assert here.node.link_says.key == "agent_silent"

    run(story())


def test_an_agent_that_knows_the_word_is_told_the_pace_and_told_anew_what_an_admin_sets(
    tmp_path: Path, leap: Leap
) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands(keeps_pace=True)
            assert await agent.read() == {"op": "pace", "sample_s": 2.0, "heartbeat_s": 5.0}
            await settled(lambda: here.node.state is NodeState.ONLINE)
            leap(wire.HEARTBEAT_S)
            assert (await agent.read())["op"] == "ping", "what it knows is not said again"
            await here.set("sample_s", 0.5)
            await here.set("heartbeat_s", 1)
            leap(wire.HEARTBEAT_S)
            assert await agent.read() == {"op": "pace", "sample_s": 0.5, "heartbeat_s": 1.0}
            assert (await agent.read())["op"] == "ping"
            agent.say("sample", at=1.0, load=[1.0, 2.0, 3.0])
            await settled(lambda: here.node.load == [1.0, 2.0, 3.0])
            leap(1.0)
            assert (await agent.read())["op"] == "ping"
            leap(BEATS * 1.0)
            again = await here.session()
            assert here.node.link_says == Message("agent_silent", seconds=3.0)
            await again.shake_hands(keeps_pace=True)
            assert (await again.read())["op"] == "pace", "each connection begins anew"

    run(story())


def test_an_agent_of_before_hears_nothing_of_the_pace_and_the_heartbeat_that_it_knows(
    tmp_path: Path, leap: Leap
) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            await here.set("heartbeat_s", 1)
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            leap(2.0)
            here.link.send({"op": "kill", "launch_id": "x"})
            assert (await agent.read())["op"] == "kill", "no ping yet"
            leap(wire.HEARTBEAT_S - 2.0)
            assert (await agent.read())["op"] == "ping"
            leap(2 * wire.HEARTBEAT_S)
            await here.session()
            assert here.node.link_says == Message("agent_silent", seconds=SILENCE_S)

    run(story())


def test_an_agent_has_a_moment_to_show_that_it_is_not_silent(
    tmp_path: Path, leap: Leap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "DOUBT_S", wire.HEARTBEAT_S)

    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            leap(wire.HEARTBEAT_S)
            assert (await agent.read())["op"] == "ping"
            leap(wire.HEARTBEAT_S)
            await settled(lambda: not here.turns.is_hurried)
            assert (await agent.read())["op"] == "ping"
            leap(SILENCE_S)
            await settled(lambda: here.turns.is_hurried)  # in doubt: what it said may lie there unheard
            agent.say("sample", at=1.0, load=[1.0, 2.0, 3.0])
            await settled(lambda: here.node.load == [1.0, 2.0, 3.0])
            leap(wire.HEARTBEAT_S)
            assert (await agent.read())["op"] == "ping"
            assert here.node.state is NodeState.ONLINE

    run(story())


def test_an_agent_whose_words_lie_unheard_is_not_silent(tmp_path: Path, leap: Leap) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            here.turns.unheard, hurries = 2, here.turns.hurries
            leap(SILENCE_S)
            await settled(lambda: here.turns.hurries > hurries)  # in doubt
            for look in (1, 2):
                leap(2 * DOUBT_S)
                await here.turns.looked(look)
                assert here.node.state is NodeState.ONLINE
            leap(2 * DOUBT_S)
            await here.session()
            assert here.node.link_says is not None
            assert here.node.link_says.key == "agent_silent"

    run(story())


def test_what_an_agent_says_can_wait_while_nothing_is_awaited_of_it(tmp_path: Path, leap: Leap) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            await beat(agent, leap)
            assert not here.turns.is_hurried
            await peer.call("task.submit", command="true", gpus=1)
            launch_id = (await agent.read())["launch_id"]
            assert here.turns.is_hurried
            agent.say("started", launch_id=launch_id, pid=1, at=5.0)
            await settled(lambda: here.master.core.tasks[1].state is TaskState.RUNNING)
            for _ in range(3):  # it runs, and may end at any time
                await beat(agent, leap)
                assert here.turns.is_hurried
            agent.say("exit", launch_id=launch_id, code=0, cause="exited", error="", started_at=5.0, at=6.0)
            assert (await agent.read())["op"] == "ack"
            await beat(agent, leap)
            assert here.turns.is_hurried  # something was said to it since the last ping
            await beat(agent, leap)
            assert not here.turns.is_hurried

    run(story())


def test_an_agent_that_takes_its_time_to_answer_a_question_is_heard_at_once(tmp_path: Path, leap: Leap) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            asked = asyncio.create_task(here.link.questions.ask(["du"], timeout_s=3600.0))
            while (probe := await agent.read())["op"] != "probe":
                pass
            for _ in range(3):
                await beat(agent, leap)
                assert here.turns.is_hurried
            agent.say("probed", probe_id=probe["probe_id"], code=0, output="ok", truncated=False, error="")
            assert (await asked)["output"] == "ok"
            await beat(agent, leap)
            await settled(lambda: not here.turns.is_hurried)

    run(story())
