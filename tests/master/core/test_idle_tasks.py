"""Tasks that hold GPUs and do nothing: what the lab does about them."""

from __future__ import annotations

import pytest

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.effects import Kill
from master.core.nodes.inventory import NodeSpec
from master.core.tasks.task import Task, TaskState
from tests.master.core.small_core import core_with, launch_of, submit
from wire.message import Message, ids

FOUR = NodeSpec(name="a", gpu_models=("GPU",) * 4)
AFTER_S = 1800.0
LATE = 10_000.0
WHERE = (Message("gpus_on_node", numbers=(0,), node="a"),)
MARK = Message("idle", since=7200, gpus=1, where=WHERE)


def lab(action: str) -> Core:
    core = core_with(FOUR)
    core.tuning.set("scheduler.idle_action", action, "ann", 1.0)
    return core


def runs(core: Core, **wants: object) -> Task:
    task = submit(core, **{"gpus": 1, "owner": "eve", **wants})
    core.plan(0.0)
    core.started("a", launch_of(task), 2.0, 2.0, pid=7)
    return task


def idle(core: Core, task: Task, now: float = LATE, *, again: bool = True) -> None:
    """A watcher marks it, and looks a second time."""
    core.warn(task.id, MARK)
    if again:
        core.still_idle(task.id, launch_of(task), now)


def kills(core: Core) -> list[str]:
    outcome = core.take_outcome()
    return [] if outcome is None else [one.launch_id for one in outcome.effects if isinstance(one, Kill)]


@pytest.mark.parametrize("action", ["tell", "hold_next"])
def test_nobody_is_ended_unless_the_lab_says_so(action: str) -> None:
    core = lab(action)
    task = runs(core)
    idle(core, task)
    assert (kills(core), task.asked_end) == ([], None)


def test_where_the_lab_says_so_it_is_ended_at_the_second_look_and_reads_why() -> None:
    core = lab("end")
    task = runs(core, max_retries=3)
    core.take_outcome()
    idle(core, task, again=False)
    assert kills(core) == []
    idle(core, task)
    assert kills(core) == [launch_of(task)]
    idle(core, task)
    assert kills(core) == [], "once"
    core.exited("a", Exit(launch_of(task), "killed", LATE + 1, 143), LATE + 1)
    assert task.state is TaskState.FAILED
    assert task.reason_key == "ended_as_idle"


def test_a_task_that_is_younger_than_that_time_is_not_ended() -> None:
    core = lab("end")
    task = runs(core)
    idle(core, task, 2.0 + AFTER_S - 1)
    assert kills(core) == []
    core.tuning.set("scheduler.idle_after_s", 0, "ann", 1.0)
    idle(core, task)
    assert kills(core) == [], "nobody is idle then"


def test_a_task_that_stands_still_or_is_to_is_not_ended_for_it() -> None:
    core = lab("end")
    task = runs(core)
    core.pause(task.id, "eve", 3.0)
    idle(core, task)
    assert kills(core) == []
    core.stands("a", launch_of(task), stands=True)
    idle(core, task)
    assert kills(core) == []
    core.resume_task(task.id)
    idle(core, task)
    assert kills(core) == []
    core.stands("a", launch_of(task), stands=False)
    idle(core, task)
    assert kills(core) == [launch_of(task)]


def test_what_is_over_and_runs_again_is_not_ended_for_what_was() -> None:
    core = lab("end")
    task = runs(core, max_retries=1)
    old = launch_of(task)
    core.exited("a", Exit(old, "exited", 5.0, 1), 5.0)
    core.plan(100.0)
    core.started("a", launch_of(task), 101.0, 101.0, pid=8)
    core.warn(task.id, MARK)
    core.take_outcome()
    core.still_idle(task.id, old, LATE)
    assert kills(core) == []


def test_a_cancel_counts_before_it() -> None:
    core = lab("end")
    task = runs(core)
    core.cancel(task.id, 5.0, by="eve")
    idle(core, task)
    core.exited("a", Exit(launch_of(task), "killed", LATE + 1, 143), LATE + 1)
    assert task.state is TaskState.CANCELLED


def test_the_owners_next_tasks_with_gpus_wait_and_say_which_task_is_idle() -> None:
    core = lab("hold_next")
    task = runs(core)
    core.warn(task.id, MARK)
    next_one, without, others = submit(core, gpus=1, owner="eve"), submit(core, owner="eve"), submit(core, gpus=1)
    core.plan(10.0)
    assert [one.state for one in (next_one, without, others)] == [
        TaskState.WAITING, TaskState.STARTING, TaskState.STARTING
    ]  # fmt: skip
    assert core.why_it_waits(next_one) == Message(
        "over_quota", obstacles=(Message("idle_holds_next", tasks=ids([1]), owner="eve"),)
    )
    assert core.preview(Task(id=0, command="true", gpus=1, owner="eve"), 10.0) is None
    core.take_outcome()
    core.warn(task.id, None)
    assert core.plan_needed
    core.plan(20.0)
    assert next_one.state is TaskState.STARTING


@pytest.mark.parametrize("how", ["cancel", "pause", "exit", "setting"])
def test_they_start_as_soon_as_it_is_to_end_or_stands_or_the_lab_wants_it_otherwise(how: str) -> None:
    core = lab("hold_next")
    task = runs(core)
    core.warn(task.id, MARK)
    waits = submit(core, gpus=1, owner="eve")
    core.plan(10.0)
    assert (waits.state, core.plan_needed) == (TaskState.WAITING, False)
    if how == "cancel":
        core.cancel(task.id, 11.0, by="eve")
    elif how == "pause":
        core.pause(task.id, "eve", 11.0)
    elif how == "exit":
        core.exited("a", Exit(launch_of(task), "exited", 11.0, 0), 11.0)
    else:
        core.tuning.set("scheduler.idle_action", "tell", "ann", 11.0)
    assert core.plan_needed
    core.plan(12.0)
    assert waits.state is TaskState.STARTING


def test_they_start_also_where_a_task_stood_still_before_any_task_was_idle() -> None:
    """The listeners are asked once for each pair of states which moves concern them."""
    core = lab("hold_next")
    earlier, task = runs(core), runs(core)
    core.pause(earlier.id, "eve", 3.0)
    core.warn(task.id, MARK)
    waits = submit(core, gpus=1, owner="eve")
    core.plan(10.0)
    assert (waits.state, core.plan_needed) == (TaskState.WAITING, False)
    core.pause(task.id, "eve", 11.0)
    assert core.plan_needed
    core.plan(12.0)
    assert waits.state is TaskState.STARTING


def test_an_admins_start_passes_an_idle_task_and_nobody_elses() -> None:
    core = lab("hold_next")
    task = runs(core)
    core.warn(task.id, MARK)
    by_owner, by_admin = submit(core, gpus=1, owner="eve"), submit(core, gpus=1, owner="eve")
    core.force(by_owner.id)
    core.force(by_admin.id, over_quota=True)
    core.plan(10.0)
    assert (by_owner.state, by_admin.state) == (TaskState.WAITING, TaskState.STARTING)


def test_no_room_is_kept_for_a_task_that_waits_for_an_idle_one() -> None:
    core = lab("hold_next")
    task = runs(core)
    core.warn(task.id, MARK)
    large, small = submit(core, gpus=4, owner="eve", urgent=True), submit(core, gpus=3)
    core.plan(10.0)
    assert (large.state, small.state, core.holds) == (TaskState.WAITING, TaskState.STARTING, {})


def test_tasks_within_an_allocation_take_no_more_gpus_and_start() -> None:
    core = lab("hold_next")
    held = submit(core, gpus=2, is_allocation=True, name="exp", owner="eve")
    task = runs(core)
    core.warn(task.id, MARK)
    within = submit(core, gpus=1, within=held.id, owner="eve")
    core.plan(10.0)
    assert within.state is TaskState.STARTING
