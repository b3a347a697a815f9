"""Trying again: as often as the owner allowed, for the ends that he named, and nobody hears of an end that was none."""

from __future__ import annotations

from typing import Any

import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Ack, Kill, WakeAt
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.attempt import AskedEnd
from master.core.tasks.later import LEAST_TURN_S, LONGEST_RETRY_S, pause_s
from master.core.tasks.task import After, Task, TaskState
from tests.master.core.small_core import BOOT, REBOOTED, core_with, launch_of, submit
from wire.message import Message

ONE_SLOT = NodeSpec(name="a", slots=1)
BEGUN = 1_000_000.0


def attempted(core: Core, task: Task, now: float, cause: str = "exited", code: int | None = 1) -> None:
    """One attempt, planned and over at this moment."""
    core.plan(now)
    assert task.state is TaskState.STARTING, f"{task.state}: {core.reason(task)}"
    node, launch = task.allocation[0].node, launch_of(task)
    core.started(node, launch, now, now)
    core.exited(node, Exit(launch, cause, now, code, started_at=now), now)


def test_a_retry_without_end_is_impossible() -> None:
    core = core_with()
    task = submit(core, max_retries=2)
    now, starts = BEGUN, 0
    for _ in range(100):
        now += LONGEST_RETRY_S
        core.plan(now)
        if task.state is TaskState.STARTING:
            starts += 1
            core.exited("a", Exit(launch_of(task), "exited", now, 1), now)
    assert (starts, task.state, task.exit_code, task.retries) == (3, TaskState.FAILED, 1, 2)
    assert [attempt.exit_code for attempt in task.attempts] == [1, 1, 1]


def test_no_retry_is_made_where_nobody_asked_for_one() -> None:
    core = core_with()
    task = submit(core)
    attempted(core, task, BEGUN)
    assert task.state is TaskState.FAILED


def test_a_task_that_is_tried_again_goes_from_running_to_waiting_in_one_record_and_gives_its_gpus_back() -> None:
    core = core_with()
    task = submit(core, gpus=8, max_retries=1)
    core.plan(BEGUN)
    core.started("a", launch_of(task), BEGUN, BEGUN)
    core.take_outcome()
    launch = launch_of(task)
    core.exited("a", Exit(launch, "exited", BEGUN + 1, 3), BEGUN + 1)
    outcome = core.take_outcome()
    assert outcome is not None
    assert [(one.id, one.state) for one in outcome.change.tasks] == [(task.id, TaskState.WAITING)]
    assert outcome.effects == [Ack("a", launch)]
    assert core.inventory.nodes["a"].free_gpus == list(range(8))
    assert (task.allocation, task.started_at, task.ended_at, task.exit_code) == ([], None, None, None)
    assert [(one.no, one.exit_code, one.reason) for one in task.attempts] == [(1, 3, "exit code 3")]


def test_successors_hear_of_the_last_end_only() -> None:
    core = core_with()
    first = submit(core, max_retries=1)
    if_well, if_not = submit(core, after=[After(first.id, "ok")]), submit(core, after=[After(first.id, "fail")])
    attempted(core, first, BEGUN)
    assert (if_well.state, if_not.state) == (TaskState.WAITING, TaskState.WAITING)
    assert (len(if_well.waits_for), len(if_not.waits_for)) == (1, 1)
    attempted(core, first, BEGUN + 100, code=0)
    assert first.state is TaskState.SUCCEEDED
    assert (if_well.waits_for, if_not.state) == ([], TaskState.CANCELLED)


def test_each_pause_is_twice_the_one_before_up_to_the_longest_and_the_planner_is_asked_at_its_end() -> None:
    core = core_with()
    task = submit(core, max_retries=8)
    now, pauses = BEGUN, []
    for _ in range(8):
        attempted(core, task, now)
        core.take_outcome()
        assert task.not_before == task.eligible_at
        core.plan(now)
        assert core.plan(task.not_before - 0.1 if task.not_before else 0.0) == 0
        outcome = core.take_outcome()
        assert outcome is not None
        assert outcome.effects == [WakeAt(task.not_before or 0.0)]
        pauses.append((task.not_before or 0.0) - now)
        now = task.not_before or 0.0
    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600]
    assert pause_s(1000, 10.0) == LONGEST_RETRY_S
    assert pause_s(3, 3600.0) == 3600.0, "whoever sets a longer one than the longest means it"


@pytest.mark.parametrize(
    ("cause", "code", "retry_on", "becomes"),
    [
        ("exited", 1, [], "waiting"),
        ("exited", 137, [], "waiting"),
        ("unknown", None, [], "waiting"),
        ("rebooted", None, [], "waiting"),
        ("not_started", None, [], "waiting"),
        ("exited", 0, [], "succeeded"),
        ("killed", 143, [], "cancelled"),
        ("timed_out", 143, [], "timed_out"),
        ("log_too_large", 143, [], "failed"),
        ("exited", 1, ["fail"], "waiting"),
        ("exited", 1, ["lost"], "failed"),
        ("unknown", None, ["lost"], "waiting"),
        ("unknown", None, ["fail", "oom"], "lost"),
        ("exited", 1, ["oom", "lost"], "failed"),
    ],
)
def test_only_what_the_owner_named_is_tried_again(
    cause: str, code: int | None, retry_on: list[str], becomes: str
) -> None:
    core = core_with()
    task = submit(core, max_retries=1, retry_on=retry_on)
    attempted(core, task, BEGUN, cause, code)
    assert (task.state, task.retries) == (becomes, int(becomes == "waiting"))


def test_what_was_lost_with_its_machine_is_tried_again_once_that_is_known_and_no_sooner() -> None:
    core = core_with()
    task = submit(core, max_retries=1)
    core.plan(BEGUN)
    core.started("a", launch_of(task), BEGUN, BEGUN)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    core.plan(BEGUN + 10_000)
    assert task.state is TaskState.RUNNING, "silence is no death"
    core.node_state("a", NodeState.CONNECTING, None, REBOOTED)
    core.reconcile("a", [], BEGUN + 20_000)
    assert (task.state, task.attempts[-1].reason_key) == (TaskState.WAITING, "claim_gone")


def test_what_was_given_up_is_tried_again_elsewhere_and_what_is_left_of_it_is_ended_if_its_node_returns() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",)), NodeSpec(name="b", gpu_models=("GPU",)))
    task = submit(core, gpus=1, max_retries=1)
    core.plan(BEGUN)
    launch = launch_of(task)
    core.started("a", launch, BEGUN, BEGUN)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    core.give_up("a", "ada", BEGUN + 60)
    assert (task.state, task.attempts[-1].asked_end) == (TaskState.WAITING, AskedEnd("node_lost", "ada"))
    core.plan(BEGUN + 70)
    assert (task.state, task.allocation[0].node) == (TaskState.STARTING, "b")
    core.take_outcome()
    core.node_state("a", NodeState.CONNECTING, None, BOOT)
    core.reconcile("a", [Seen(launch, BEGUN)], BEGUN + 80)
    outcome = core.take_outcome()
    assert outcome is not None
    assert outcome.effects == [Kill("a", launch)]
    core.exited("a", Exit(launch, "killed", BEGUN + 81, 143), BEGUN + 81)
    assert task.state is TaskState.STARTING, "an earlier attempt says nothing of this one"


def test_a_cancel_while_it_waits_to_be_tried_again_ends_it_at_once() -> None:
    core = core_with()
    task = submit(core, max_retries=5)
    attempted(core, task, BEGUN)
    assert core.cancel(task.id, BEGUN + 1, by="ada")
    assert task.state is TaskState.CANCELLED
    core.plan(BEGUN + 10_000)
    assert task.state is TaskState.CANCELLED


@pytest.mark.parametrize(
    ("cause", "code", "state"),
    [
        ("killed", 143, TaskState.CANCELLED),
        ("timed_out", 143, TaskState.CANCELLED),
        ("log_too_large", 143, TaskState.CANCELLED),
        ("exited", 1, TaskState.FAILED),
        ("exited", 0, TaskState.SUCCEEDED),
        ("rebooted", None, TaskState.LOST),
    ],
)
def test_what_was_cancelled_while_it_ran_is_never_tried_again_and_an_exit_before_our_kill_counts_as_itself(
    cause: str, code: int | None, state: TaskState
) -> None:
    core = core_with()
    task = submit(core, max_retries=5, on_timeout="requeue")
    core.plan(BEGUN)
    core.started("a", launch_of(task), BEGUN, BEGUN)
    core.cancel(task.id, BEGUN + 1, by="ada")
    core.exited("a", Exit(launch_of(task), cause, BEGUN + 2, code), BEGUN + 2)
    assert (task.state, task.exit_code) == (state, code)


def test_why_an_attempt_is_to_end_is_in_the_record_that_its_kill_waits_for() -> None:
    core = core_with()
    task = submit(core)
    core.plan(BEGUN)
    core.take_outcome()
    core.cancel(task.id, BEGUN, by="ada")
    outcome = core.take_outcome()
    assert outcome is not None
    assert [one.asked_end for one in outcome.change.tasks] == [AskedEnd("cancel", "ada")]
    assert outcome.effects == [Kill("a", launch_of(task))]


def test_what_somebody_cancels_outranks_whatever_else_was_to_become_of_it_and_nothing_outranks_that() -> None:
    cancel, limit, lost = AskedEnd("cancel", "ada"), AskedEnd("limit"), AskedEnd("node_lost", "bob")
    assert cancel.outranks(limit)
    assert cancel.outranks(lost)
    assert limit.outranks(None)
    for asked in (AskedEnd("cancel", "bob"), limit, lost):
        assert not asked.outranks(cancel)
    assert not limit.outranks(lost)


def test_a_start_that_fails_for_the_nodes_fault_is_no_retry_and_it_keeps_how_long_it_has_waited() -> None:
    core = core_with(NodeSpec(name="a", slots=1), NodeSpec(name="b", slots=1))
    task = submit(core, max_retries=1)
    core.plan(BEGUN)
    node = task.allocation[0].node
    core.exited(node, Exit(launch_of(task), "not_started", BEGUN, None, "full", None, "node"), BEGUN)
    assert (task.state, task.retries, task.not_before, task.eligible_at) == (TaskState.WAITING, 0, None, None)


def test_a_node_that_could_not_start_an_attempt_may_start_the_next_but_one() -> None:
    core = core_with(NodeSpec(name="a", slots=1), NodeSpec(name="b", slots=1))
    task = submit(core, max_retries=1)
    core.plan(BEGUN)
    core.exited(task.allocation[0].node, Exit(launch_of(task), "not_started", BEGUN, None, "full", None, "node"), BEGUN)
    assert len(task.unstarted) == 1
    attempted(core, task, BEGUN + 1)
    assert (task.state, task.unstarted, task.retries) == (TaskState.WAITING, [], 1)


def test_a_person_who_tries_again_what_was_cancelled_in_its_pause_waits_for_no_pause() -> None:
    core = core_with()
    task = submit(core, max_retries=1)
    attempted(core, task, BEGUN)
    core.cancel(task.id, BEGUN + 1)
    core.retry(task.id)
    assert core.plan(BEGUN + 2) == 1


@pytest.mark.parametrize("runs", [True, False], ids=["running", "not claimed"])
def test_who_was_cancelled_while_its_node_was_away_is_killed_when_that_returns(runs: bool) -> None:  # noqa: FBT001
    core = core_with()
    task = submit(core, max_retries=1)
    core.plan(BEGUN)
    if runs:
        core.started("a", launch_of(task), BEGUN, BEGUN)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    core.cancel(task.id, BEGUN + 1, by="ada")
    core.take_outcome()
    core.node_state("a", NodeState.CONNECTING, None, BOOT)
    core.reconcile("a", [Seen(launch_of(task), BEGUN)] if runs else [], BEGUN + 2)
    outcome = core.take_outcome()
    assert outcome is not None
    assert outcome.effects == [Kill("a", launch_of(task))]


def test_a_person_who_tries_again_gives_all_retries_anew() -> None:
    core = core_with()
    task = submit(core, max_retries=1)
    attempted(core, task, BEGUN)
    attempted(core, task, BEGUN + 100)
    assert task.state is TaskState.FAILED
    core.retry(task.id)
    assert (task.retries, task.not_before) == (0, None)
    attempted(core, task, BEGUN + 200)
    assert (task.state, task.retries) == (TaskState.WAITING, 1)


def test_a_forced_start_waits_for_no_pause() -> None:
    core = core_with()
    task = submit(core, max_retries=1)
    attempted(core, task, BEGUN)
    core.force(task.id)
    assert core.plan(BEGUN) == 1


def test_whoever_was_disabled_has_nothing_begin_again_until_he_is_enabled() -> None:
    core = core_with()
    core.people.add("bob")
    task = submit(core, owner="bob", max_retries=1)
    core.plan(BEGUN)
    core.started("a", launch_of(task), BEGUN, BEGUN)
    core.disable_user("bob", "ada")
    core.exited("a", Exit(launch_of(task), "exited", BEGUN, 1), BEGUN)
    assert (task.state, task.reason_key) == (TaskState.HELD, "owner_disabled")
    core.plan(BEGUN + 10_000)
    assert task.state is TaskState.HELD
    core.enable_user("bob")
    assert core.plan(BEGUN + 10_000) == 1


# -- the time limit -------------------------------------------------------------------------------------------


def test_past_its_limit_a_task_goes_to_the_end_of_the_queue_and_they_take_turns() -> None:
    core = core_with(ONE_SLOT)
    first, second, third = (submit(core, on_timeout="requeue") for _ in range(3))
    now, turns = BEGUN, []
    for _ in range(7):
        now += 100
        core.plan(now)
        (running,) = core.active()
        turns.append(running.id)
        core.exited("a", Exit(launch_of(running), "timed_out", now + 50, 143, started_at=now), now + 50)
    assert turns == [first.id, second.id, third.id] * 2 + [first.id]
    assert (first.retries, first.state, len(first.attempts)) == (0, TaskState.WAITING, 3)
    assert [one.asked_end for one in first.attempts] == [AskedEnd("limit")] * 3
    late = submit(core)
    assert core.queue()[-1] is late, "who comes later stands behind"


def test_its_turn_passes_no_higher_rank() -> None:
    core = core_with(ONE_SLOT)
    high, low = submit(core, on_timeout="requeue", priority=5), submit(core)
    attempted(core, high, BEGUN, "timed_out", 143)
    assert core.queue() == [high, low]


def test_where_nobody_of_its_rank_waits_its_place_is_as_before() -> None:
    core = core_with(ONE_SLOT)
    task, urgent = submit(core, on_timeout="requeue"), submit(core, urgent=True, state=TaskState.HELD)
    later = submit(core)
    core.hold(later.id)
    core.release(later.id)
    core.remove(later.id, BEGUN)
    attempted(core, task, BEGUN, "timed_out", 143)
    assert (task.position, core.queue()) == (None, [urgent, task])


def test_who_says_how_often_it_may_go_on_has_it_counted_and_then_it_has_timed_out() -> None:
    core = core_with(ONE_SLOT)
    task = submit(core, on_timeout="requeue", max_retries=2)
    for turn in range(3):
        attempted(core, task, BEGUN + 100 * turn, "timed_out", 143)
    assert (task.state, task.reason_key, task.retries) == (TaskState.TIMED_OUT, "time_limit", 2)


def test_a_limit_of_a_moment_keeps_nobody_busy() -> None:
    core = core_with(ONE_SLOT)
    task = submit(core, on_timeout="requeue", time_limit_s=0.01)
    attempted(core, task, BEGUN, "timed_out", 143)
    assert task.not_before == BEGUN + LEAST_TURN_S
    far = BEGUN + 86400.0
    core.plan(BEGUN + 20)
    core.exited("a", Exit(launch_of(task), "timed_out", far, 143, started_at=far), BEGUN + 30)
    assert (task.not_before or far) <= BEGUN + 40, "nor does a node whose clock is ahead put it off"


# -- what is said ---------------------------------------------------------------------------------------------


def said(core: Core, task: Task) -> dict[str, Any]:
    """Why it waits, for programs."""
    why = core.why_it_waits(task)
    assert isinstance(why, Message)
    return {"key": why.key, **why.args}


def test_it_is_said_when_it_is_tried_again_and_why() -> None:
    core = core_with()
    task = submit(core, max_retries=3)
    attempted(core, task, BEGUN)
    assert said(core, task) == {
        "key": "tried_again_at", "at": BEGUN + 10, "no": 1, "why": "exit code 1", "retry": 1, "most": 3,
    }  # fmt: skip
    assert "(attempt 1: exit code 1; retry 1 of 3)" in str(core.reason(task))
    core.plan(BEGUN + 10)
    attempted(core, submit(core, on_timeout="requeue"), BEGUN + 20, "timed_out", 143)
    assert core.reason(core.tasks[2]) is not None
    assert said(core, core.tasks[2])["key"] == "goes_on_at"
