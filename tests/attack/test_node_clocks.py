"""A node whose clock is a day off, or is set while a task runs there, puts no task a day away from its submit."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.nodes.facts import Facts
from master.core.tasks.attempt import Part
from master.core.tasks.task import Task, TaskState
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from tests.master.in_process import run
from tests.master.nodes.played_agent import WELCOME, Conversation, Linked
from tests.waiting import settled
from wire.framing import encode

HOUR, DAY = 3600.0, 86400.0
NOW = 1.7e9


async def greeted(agent: Conversation, ahead: float, *attempts: dict[str, Any], **more: Any) -> None:
    """Shake hands as an agent whose clock is so far ahead."""
    assert (await agent.read())["op"] == "hello"
    agent.writer.write(encode({**WELCOME, "now": time.time() + ahead, **more}))
    agent.say("inventory", attempts=list(attempts))
    agent.say("sample", at=time.time() + ahead)


async def launch_id_of(agent: Conversation) -> str:
    while (said := await agent.read())["op"] != "launch":
        pass
    launch_id: str = said["launch_id"]
    return launch_id


def is_near(found: float | None, expected: float, since: float) -> bool:
    """Whether a time, or a span, is off by no more than what passed since `since`: a message may take that long, and
    what is known of a clock is in doubt by as much. The rest is for the rounding of floats."""
    return found is not None and abs(found - expected) <= time.time() - since + 1e-6


def part_of(task: Task) -> Part:
    return task.allocation[0]


@pytest.mark.parametrize("ahead", [DAY, -DAY, 4000 * DAY], ids=["ahead", "behind", "years"])
def test_a_day_off_a_task_begins_after_its_submit_and_took_what_it_took(tmp_path: Path, ahead: float) -> None:
    async def story() -> None:
        since = time.time()
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            task, agent = here.master.core.tasks[1], await here.session()
            await greeted(agent, ahead)
            launch_id = await launch_id_of(agent)
            began = time.time()
            agent.say("started", launch_id=launch_id, pid=7, at=began + ahead)
            await settled(lambda: task.state is TaskState.RUNNING)
            assert is_near(task.started_at, began, since)
            assert task.submitted_at <= (task.started_at or 0.0) <= time.time()
            agent.say("sample", at=time.time() + ahead, load=[1.0, 2.0, 3.0])
            await settled(lambda: here.node.load == [1.0, 2.0, 3.0])
            over = time.time() + ahead
            agent.say("exit", launch_id=launch_id, cause="exited", code=0, started_at=began + ahead, at=over)
            await settled(lambda: task.state is TaskState.SUCCEEDED)
            assert is_near((task.ended_at or 0.0) - (task.started_at or 0.0), over - ahead - began, since)
            told = (await peer.call("task.show", id=1))["allocation"][0]
            assert is_near(told["clock_offset_s"], ahead, since)
            assert is_near(here.node.clock_offset, ahead, since)

    run(story())


def test_what_ended_while_nobody_listened_is_corrected_too_and_samples_are(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            task, agent = here.master.core.tasks[1], await here.session()
            await greeted(agent, DAY)
            ended = {"launch_id": await launch_id_of(agent), "state": "ended", "cause": "exited", "code": 0}
            since = time.time()
            agent.writer.close()
            agent = await here.session()
            task.submitted_at -= HOUR
            began = task.submitted_at + HOUR / 2
            await greeted(agent, DAY, {**ended, "started_at": began + DAY, "at": began + 30.0 + DAY})
            await settled(lambda: task.state is TaskState.SUCCEEDED)
            assert is_near(task.started_at, began, since)
            assert (task.ended_at or 0.0) - (task.started_at or 0.0) == pytest.approx(30.0)
            told: list[Any] = []
            here.master.port_server.sample = lambda _node, sample: told.append(sample.told())  # type: ignore[method-assign,assignment]
            agent.say("sample", at=time.time() + DAY)
            await settled(lambda: told)
            assert is_near(told[0]["at"], time.time(), since)

    run(story())


def test_an_agent_that_does_not_say_what_time_it_is_is_measured_by_its_samples(tmp_path: Path) -> None:
    async def story() -> None:
        since = time.time()
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            task, agent = here.master.core.tasks[1], await here.session()
            await greeted(agent, DAY, now=0.0)
            agent.say("sample", at=time.time() + DAY, load=[1.0, 2.0, 3.0])
            await settled(lambda: here.node.load == [1.0, 2.0, 3.0])
            agent.say("started", launch_id=await launch_id_of(agent), pid=7, at=time.time() + DAY)
            await settled(lambda: task.state is TaskState.RUNNING)
            assert is_near(task.started_at, time.time(), since)

    run(story())


def started_on(ahead: float, **wants: Any) -> tuple[Any, Task]:
    """A core, and a task that began a minute after its submit on a node whose clock is so far ahead."""
    core = core_with()
    core.clock_told("a", NOW + ahead, NOW, NOW)
    task = submit(core, gpus=1, **wants)
    task.submitted_at = NOW
    core.plan(NOW)
    core.started("a", launch_of(task), NOW + 60.0 + ahead, NOW + 60.0, pid=7, pid_start=8)
    assert task.started_at == NOW + 60.0
    return core, task


@pytest.mark.parametrize(("before", "after"), [(0.0, DAY), (DAY, 0.0), (DAY, -DAY), (-DAY, 0.0)])
@pytest.mark.parametrize("seen", [(NOW + 100.0, NOW + 102.0), ()], ids=["seen", "unseen"])
def test_a_clock_that_is_set_while_a_task_runs_changes_nothing_of_how_long_it_took(
    before: float, after: float, seen: tuple[float, ...]
) -> None:
    core, task = started_on(before)
    for at in seen:
        core.clock_told("a", at + after, None, at)
    ended = Exit(launch_of(task), "exited", NOW + 120.0 + after, 0, started_at=NOW + 60.0 + before)
    core.exited("a", ended, NOW + 120.0)
    assert (task.started_at, task.ended_at) == (NOW + 60.0, NOW + 120.0)


def test_one_that_was_set_while_nobody_listened_makes_no_time_before_its_cause() -> None:
    core = core_with()
    task = submit(core, gpus=1)
    task.submitted_at = NOW
    core.plan(NOW)
    core.clock_told("a", NOW + 300.0, NOW + 300.0, NOW + 300.0)
    launch_id = launch_of(task)
    core.reconcile(
        "a", [Seen(launch_id, exit=Exit(launch_id, "exited", NOW + 120.0, 0, started_at=NOW + 60.0 + DAY))], NOW + 300.0
    )
    assert (task.started_at, task.ended_at) == (NOW + 120.0, NOW + 120.0)


@pytest.mark.parametrize("now", [-1e15, 1e15, 1.0])
def test_a_node_that_lies_about_its_clock_moves_no_task_away_from_now(now: float) -> None:
    core = core_with()
    core.clock_told("a", now, NOW, NOW)
    for at in (-1e15, 0.0, NOW - DAY, NOW + DAY, now - DAY, now + DAY, 1e15):
        task = submit(core, gpus=1)
        task.submitted_at = NOW
        core.plan(NOW)
        core.started("a", launch_of(task), at, NOW + 5.0)
        core.exited("a", Exit(launch_of(task), "exited", at, 0, started_at=at), NOW + 9.0)
        assert NOW <= (task.started_at or 0.0) <= (task.ended_at or 0.0) <= NOW + 9.0


def test_a_checkpoint_is_compared_by_the_clock_that_wrote_it() -> None:
    core, task = started_on(DAY, gpus_max=4, elastic=True, checkpoint="*.pt")
    core.checkpoint_seen(launch_of(task), NOW + 30.0 + DAY, NOW + 90.0)
    assert core.what_looks_wrong(task) is not None, "it was written before the attempt began"
    core.checkpoint_seen(launch_of(task), NOW + 80.0 + DAY, NOW + 90.0)
    assert core.what_looks_wrong(task) is None


def test_an_agent_that_adopts_a_task_is_told_its_start_by_its_own_clock() -> None:
    core, _ = started_on(DAY)
    anew = Facts(boot_id=BOOT.boot_id, state_id="anew", cpus=4, memory_mib=1000, protocol=BOOT.protocol)
    assert [one.started_at for one in core.adoptable("a", anew)] == [NOW + 60.0 + DAY]


def test_another_machine_in_a_nodes_name_has_another_clock() -> None:
    core, _ = started_on(DAY)
    core.forget_facts("a")
    assert core.clock_of("a").ahead is core.inventory.nodes["a"].clock_offset is None
    assert core.clock_of("gone").ahead is None
