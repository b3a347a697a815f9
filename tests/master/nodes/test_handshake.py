"""The way from the hello of a master to the node being online, with an agent that is played by the test."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from master.core.nodes.inventory import NodeState
from master.core.tasks.task import TaskState
from master.nodes.agent_context import Hooks
from tests.master.in_process import run
from tests.master.nodes.played_agent import WELCOME, Linked
from tests.waiting import settled
from wire.agent import TELLS_DOUBT
from wire.framing import encode
from wire.message import Message


def test_a_node_is_online_after_welcome_and_inventory_and_its_task_goes_through(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            agent = await here.session()
            await agent.shake_hands()
            launch = await agent.read()
            assert (launch["op"], launch["env"]["CUDA_VISIBLE_DEVICES"]) == ("launch", "0")
            assert here.node.state is NodeState.ONLINE
            assert here.node.facts is not None
            assert here.node.facts.hostname == "here"
            now = time.time()
            agent.say("started", launch_id=launch["launch_id"], pid=1, at=now)
            agent.say(
                "exit", launch_id=launch["launch_id"], code=3, cause="exited", error="", started_at=now, at=now + 1
            )
            assert await agent.read() == {"op": "ack", "launch_ids": [launch["launch_id"]]}
            task = here.master.core.tasks[1]
            assert (task.state, task.exit_code, task.started_at, task.ended_at) == (TaskState.FAILED, 3, now, now + 1)

    run(story())


def test_nothing_is_sent_before_the_agent_said_what_it_has(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            assert (await agent.read())["op"] == "hello"
            here.link.send({"op": "kill", "launch_id": "early"})
            agent.writer.write(encode(WELCOME))
            agent.say("inventory", attempts=[])
            await settled(lambda: here.node.state is NodeState.ONLINE)
            here.link.send({"op": "kill", "launch_id": "late"})
            assert (await agent.read())["launch_id"] == "late"

    run(story())


def test_an_attempt_that_nobody_owns_is_ended_and_one_that_ended_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", hold=True)
            await peer.call("task.remove", id=1)  # so it is no attempt that the lab has forgotten
            agent = await here.session()
            ended = {"code": 0, "cause": "exited", "error": "", "started_at": 1.0, "at": 2.0}
            await agent.shake_hands(
                {"launch_id": "1.1.x", "state": "running", "started_at": 1.0},
                {"launch_id": "1.1.y", "state": "ended", **ended},
            )
            assert await agent.read() == {"op": "kill", "launch_id": "1.1.x"}
            assert await agent.read() == {"op": "ack", "launch_ids": ["1.1.y"]}

    run(story())


def test_an_agent_that_cannot_account_for_attempts_is_left_with_each_of_them_counted_once(tmp_path: Path) -> None:
    facts = {"machine": "m1", "protocol": TELLS_DOUBT}

    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            agent = await here.session()
            await agent.shake_hands(**facts)
            for at in range(2):
                await peer.call("task.submit", command="true", gpus=1)
                launch = await agent.read()
                agent.say("started", launch_id=launch["launch_id"], pid=7 + at, pid_start=8, at=time.time())
            tasks = here.master.core.tasks
            await settled(lambda: [task.state for task in tasks.values()] == [TaskState.RUNNING] * 2)
            lost, doubted = (task.allocation[0].launch_id for task in tasks.values())
            agent.writer.close()
            agent = await here.session()
            has = [{"launch_id": one, "state": "running", "doubt": True} for one in (doubted, "9.1.unknown")]
            await agent.shake_hands(*has, **facts)
            told = await agent.read()
            assert (told["op"], [one["launch_id"] for one in told["attempts"]]) == ("adopt", [lost, doubted])
            agent.say("inventory", attempts=has)
            await settled(lambda: here.node.state is NodeState.UNREACHABLE)
            assert here.node.link_says == Message("attempts_unaccounted", count=3, name="a")
            assert [task.state for task in tasks.values()] == [TaskState.RUNNING] * 2

    run(story())


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "with its last task over"])
def test_a_node_that_left_before_its_agent_said_what_it_has_is_not_told_to_be_up(tmp_path: Path, is_busy: bool) -> None:  # noqa: FBT001
    async def story() -> None:
        up: list[str] = []
        async with Linked(tmp_path, Hooks(on_inventory=lambda: up.append("up"))) as here:
            agent, attempts = await here.session(), []
            if is_busy:
                await (await here.master.peer()).call("task.submit", command="true", gpus=1)
                await agent.shake_hands()
                launch = await agent.read()
                agent.writer.close()
                agent = await here.session()
                ended = {"code": 0, "cause": "exited", "error": "", "started_at": 1.0, "at": 2.0}
                attempts = [{"launch_id": launch["launch_id"], "state": "ended", **ended}]
            agent.writer.write(encode(WELCOME))
            await settled(lambda: here.node.state is NodeState.CONNECTING and here.node.facts is not None)
            up.clear()
            here.master.engine.event(lambda: here.master.core.set_nodes(()))
            agent.say("inventory", attempts=attempts)
            await settled(lambda: here.link.is_up and "a" not in here.master.core.inventory.nodes)
            assert up == []

    run(story())
