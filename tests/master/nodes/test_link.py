"""The link to an agent that is played by the test, over a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from master.core.nodes.inventory import NodeState
from master.core.tasks.task import TaskState
from master.nodes import backoff
from tests.master.in_process import run
from tests.master.nodes.played_agent import Linked
from tests.waiting import settled


def test_who_wakes_a_link_while_it_tries_has_it_try_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "BACKOFF_S", dict.fromkeys(("short", "long"), (3600.0, 3600.0)))

    async def story() -> None:
        async with Linked(tmp_path) as here:
            here.agent.refusal = "its key is not known"
            here.agent.trying = asyncio.Event()
            await settled(lambda: here.agent.tries == 1)
            here.link.wake()
            here.agent.trying.set()
            await settled(lambda: here.agent.tries == 2)

    run(story())


def test_a_link_that_breaks_leaves_the_task_as_it_is_and_comes_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            agent = await here.session()
            await agent.shake_hands()
            launch_id = (await agent.read())["launch_id"]
            agent.say("started", launch_id=launch_id, pid=1, at=5.0)
            await settled(lambda: here.master.core.tasks[1].state is TaskState.RUNNING)
            agent.writer.close()
            again = await here.session()
            assert here.node.state is NodeState.UNREACHABLE
            assert here.master.core.tasks[1].state is TaskState.RUNNING
            assert here.node.gpu_holders == {0: {1: None}}
            await again.shake_hands({"launch_id": launch_id, "state": "running", "started_at": 5.0})
            await settled(lambda: here.node.state is NodeState.ONLINE)
            assert here.master.core.tasks[1].allocation[0].launch_id == launch_id

    run(story())


def test_why_an_agent_cannot_be_reached_is_told_as_the_reason(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            here.agent.refusal = "there is no python3 on it"
            await settled(lambda: here.node.reason == "there is no python3 on it")
            here.agent.refusal = None
            await (await here.session()).shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)

    run(story())
