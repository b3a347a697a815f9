"""The attempts of a task are kept, over retries and over nodes that could not start it, with who wanted their ends."""

from __future__ import annotations

import msgspec
import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Kill
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.attempt import KEPT, AskedEnd, Attempt, Part
from master.core.tasks.task import Task, TaskPage, TaskState
from tests.master.core.small_core import core_with, launch_of, run, submit


def ended(core_node: str, task: Task, cause: str = "exited", code: int | None = 0, *, fault: str = "") -> Exit:
    assert task.allocation[0].node == core_node
    return Exit(launch_of(task), cause, 4.0, code, "why", None, fault)


def test_a_retry_leaves_the_attempt_before_as_it_ended() -> None:
    core = core_with()
    task = submit(core, gpus=2)
    run(core, task, 3)
    first = task.attempts
    core.retry(task.id)
    assert (task.state, task.attempt, task.attempts) == (TaskState.WAITING, 1, first)
    assert (task.started_at, task.ended_at, task.exit_code, task.reason, task.reason_key) == (None,) * 5
    run(core, task)
    one, two = task.attempts
    assert [one] == first
    assert one == Attempt(
        no=1,
        parts=[Part("a", [0, 1], one.parts[0].launch_id, "boot-1", "state-1")],
        asked_end=None,
        started_at=2.0,
        ended_at=3.0,
        exit_code=3,
        reason="exit code 3",
        reason_key="exit_code",
        reason_args={"code": 3},
    )
    assert (two.no, two.exit_code, two.reason) == (2, 0, None)
    assert one.parts[0].launch_id != two.parts[0].launch_id


def test_an_edit_of_an_ended_task_keeps_its_attempt_too() -> None:
    core = core_with()
    task = submit(core)
    run(core, task, 1)
    core.edit(msgspec.structs.replace(task, command="better"))
    assert [attempt.exit_code for attempt in task.attempts] == [1]


def test_a_task_that_was_tried_again_and_cancelled_before_it_began_has_one_attempt() -> None:
    core = core_with()
    task = submit(core)
    run(core, task, 1)
    core.retry(task.id)
    core.cancel(task.id, 9.0, by="ada")
    assert (task.state, task.asked_end, task.allocation) == (TaskState.CANCELLED, None, [])
    assert [(attempt.no, attempt.ended_at) for attempt in task.attempts] == [(1, 3.0)]


def test_a_try_that_its_node_could_not_start_is_an_attempt() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",)), NodeSpec(name="b", gpu_models=("GPU",)))
    task = submit(core, gpus=1)
    core.plan(0.0)
    core.exited("a", ended("a", task, "not_started", None, fault="node"), 4.0)
    core.plan(0.0)
    tried, runs = task.attempts
    assert (tried.no, tried.parts[0].node, tried.started_at, tried.ended_at) == (1, "a", None, 4.0)
    assert (tried.reason_key, tried.reason_args) == ("not_started", {"said": "why"})
    assert (runs.no, runs.parts[0].node, runs.ended_at) == (2, "b", None)


def test_who_cancels_first_is_who_wanted_the_end() -> None:
    core = core_with()
    task = submit(core)
    core.plan(0.0)
    core.cancel(task.id, 2.0, by="ada")
    core.cancel(task.id, 3.0, by="bob")
    assert task.asked_end == AskedEnd("cancel", "ada")
    assert task.cancel_requested
    core.exited("a", ended("a", task, "killed", 143), 4.0)
    assert (task.state, task.attempts[-1].asked_end) == (TaskState.CANCELLED, AskedEnd("cancel", "ada"))
    core.retry(task.id)
    assert (task.asked_end, task.cancel_requested) == (None, False)


@pytest.mark.parametrize(
    ("cause", "code", "asked"),
    [("timed_out", 143, "limit"), ("log_too_large", 143, "limit"), ("exited", 0, None), ("rebooted", None, None)],
)
def test_a_limit_is_why_an_attempt_was_ended_and_what_ends_by_itself_was_asked_by_nobody(
    cause: str, code: int | None, asked: str | None
) -> None:
    core = core_with()
    task = submit(core)
    core.plan(0.0)
    core.exited("a", ended("a", task, cause, code), 4.0)
    told = task.attempts[-1].asked_end
    assert (told.why if told else None) == asked


def test_a_cancel_outranks_the_limit_that_came_before_its_end() -> None:
    core = core_with()
    task = submit(core)
    core.plan(0.0)
    core.cancel(task.id, 2.0, by="ada")
    core.exited("a", ended("a", task, "timed_out", 143), 4.0)
    assert (task.state, task.reason, task.asked_end) == (TaskState.CANCELLED, None, AskedEnd("cancel", "ada"))


def test_who_gives_a_node_up_wanted_the_end_of_what_ran_there() -> None:
    core = core_with()
    task = submit(core)
    core.plan(0.0)
    core.node_state("a", NodeState.UNREACHABLE)
    core.give_up("a", "ada", 5.0)
    assert (task.state, task.attempts[-1].asked_end) == (TaskState.LOST, AskedEnd("node_lost", "ada"))


def test_of_many_attempts_the_first_and_the_newest_are_kept_and_the_numbers_go_on() -> None:
    core = core_with()
    task = submit(core)
    for _ in range(KEPT + 5):
        run(core, task, 1)
        core.retry(task.id)
    run(core, task, 1)
    assert [attempt.no for attempt in task.attempts] == [1, *range(7, KEPT + 7)]
    assert len(task.attempts) == KEPT + 1 == 31
    assert task.attempt == KEPT + 6


def test_attempts_are_on_disk_only_where_there_are_any_and_come_back() -> None:
    core = core_with()
    task = submit(core)
    assert not {"earlier", "allocation", "asked_end"} & msgspec.to_builtins(task).keys()
    run(core, task, 1)
    assert "earlier" not in msgspec.to_builtins(task)
    core.retry(task.id)
    run(core, task)
    again = msgspec.json.decode(msgspec.json.encode(task), type=Task)
    assert again == task
    assert again.attempts == task.attempts
    assert msgspec.convert(again, TaskPage, from_attributes=True).attempts == task.attempts


def changed_tasks(core: Core) -> list[int]:
    outcome = core.take_outcome()
    return [] if outcome is None else [task.id for task in outcome.change.tasks]


def test_what_is_told_of_a_running_attempt_is_written_down_once() -> None:
    core = core_with()
    task = submit(core, gpus=1)
    core.plan(0.0)
    launch_id = task.allocation[0].launch_id
    core.started("a", launch_id, 2.0, 2.0)
    core.take_outcome()
    for written in ([task.id], []):
        core.started("a", launch_id, 2.0, 2.0, pid=7, pid_start=8)
        assert changed_tasks(core) == written
    core.started("a", launch_id, 2.0, 2.0, pid=9, pid_start=9)
    assert (task.allocation[0].pid, changed_tasks(core)) == (7, []), "an attempt is one process"


def test_that_a_log_is_near_its_limit_is_shown_and_not_written_down() -> None:
    core = core_with()
    task = submit(core, gpus=1)
    core.plan(0.0)
    launch_id = task.allocation[0].launch_id
    core.started("a", launch_id, 2.0, 2.0)
    core.take_outcome()
    for size in (80, 90):
        core.log_grows("a", launch_id, size, 100)
        outcome = core.take_outcome()
        assert outcome is not None
        assert (outcome.moves, bool(outcome.change)) == ([(task, task.state, task.state)], False)
        core.log_grows("a", launch_id, size, 100)
        assert core.take_outcome() is None


def test_what_an_agent_need_not_say_again_is_known_as_such() -> None:
    core = core_with()
    task, other = submit(core, gpus=1), submit(core, gpus=1)
    core.plan(0.0)
    first, second = (one.allocation[0].launch_id for one in (task, other))
    assert not core.was_started("a", first, 7)
    core.started("a", first, 2.0, 2.0, pid=7, pid_start=8)
    assert [core.was_started("a", first, pid) for pid in (0, 7, 9)] == [True] * 3
    assert not core.was_started("b", first, 7), "that is not its node"
    core.started("a", second, 2.0, 2.0)
    assert [core.was_started("a", second, pid) for pid in (0, 7)] == [True, False], "its process is not known yet"


def test_who_cancels_again_and_again_asks_the_node_once() -> None:
    core = core_with()
    task = submit(core, gpus=1)
    core.plan(0.0)
    core.started("a", launch_of(task), 2.0, 2.0)
    core.take_outcome()
    core.cancel(task.id, 3.0, by="kim")
    outcome = core.take_outcome()
    assert outcome is not None
    assert outcome.effects == [Kill("a", launch_of(task))]
    core.cancel(task.id, 4.0, by="kim")
    assert core.take_outcome() is None
    core.reconcile("a", [Seen(launch_of(task), 2.0)], 5.0)
    outcome = core.take_outcome()
    assert outcome is not None
    assert outcome.effects == [Kill("a", launch_of(task))], "it may have been away"


def test_of_a_log_that_is_near_its_limit_nothing_is_kept_after_the_end() -> None:
    core = core_with()
    task = submit(core, gpus=1)
    core.plan(0.0)
    launch_id = task.allocation[0].launch_id
    core.started("a", launch_id, 2.0, 2.0)
    core.log_grows("a", launch_id, 80, 0)
    assert core.what_looks_wrong(task) is None, "it has no limit"
    core.log_grows("a", launch_id, 80, 100)
    assert core.what_looks_wrong(task) is not None
    core.exited("a", Exit(launch_id, "exited", 3.0, 0), 3.0)
    core.retry(task.id)
    core.plan(4.0)
    core.started("a", task.allocation[0].launch_id, 5.0, 5.0)
    assert core.what_looks_wrong(task) is None


def test_what_is_told_of_an_attempt_that_is_unknown_or_over_changes_nothing() -> None:
    core = core_with()
    task = submit(core, gpus=1)
    core.plan(0.0)
    launch_id = task.allocation[0].launch_id
    core.take_outcome()
    core.started("a", "unheard of", 2.0, 2.0, pid=7)
    core.started("b", launch_id, 2.0, 2.0, pid=7)
    core.log_grows("a", "unheard of", 80, 100)
    core.checkpoint_seen("unheard of", 2.0, 2.0)
    assert changed_tasks(core) == []


def test_a_plan_takes_up_all_that_called_for_it() -> None:
    core = core_with()
    submit(core, gpus=1)
    assert core.plan_needed
    core.plan(0.0)
    assert not core.plan_needed
    core.woken()
    assert core.plan_needed
