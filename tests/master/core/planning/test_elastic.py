"""Elastic tasks: they grow where nobody waits, give way where somebody does, and go on from their checkpoint."""

from __future__ import annotations

import msgspec
import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.attempts.launching import LaunchSettings, launch_message
from master.core.core import Core
from master.core.effects import Kill, SeekCheckpoint, Start, WakeAt
from master.core.nodes.gpu_watch import GpuReport
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.people.quota import Quota
from master.core.planning.resizing import LOOK_AGAIN_S
from master.core.tasks.task import EarlySignal, Resizing, Task, TaskState
from tests.faults import says
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from wire.errors import ConflictError

FOUR = NodeSpec(name="a", gpu_models=("GPU",) * 4)
AFTER = 600.0
"""`scheduler.resize_after`."""
SETTINGS = LaunchSettings(conda="/conda", task_env={}, grace_s=10.0, log_folder="/logs")


def elastic(core: Core, **wants: object) -> Task:
    return submit(core, **{"gpus": 1, "gpus_max": 4, "elastic": True, "checkpoint": "out/*.pt", **wants})


def begin(core: Core, task: Task, at: float) -> None:
    """It gets its place, if it has none, and runs."""
    if not task.allocation:
        core.plan(at)
    core.started(task.allocation[0].node, launch_of(task), at, at, pid=7)


def see(core: Core, task: Task, newest: float | None, now: float) -> None:
    core.checkpoint_seen(launch_of(task), newest, now)


def end(core: Core, task: Task, cause: str, at: float, code: int | None = None) -> None:
    core.exited(task.allocation[0].node, Exit(launch_of(task), cause, at, code), at)


def gpus(task: Task) -> list[int]:
    return task.allocation[0].gpus


def effects(core: Core, kind: type) -> list[object]:
    outcome = core.take_outcome()
    return [] if outcome is None else [one for one in outcome.effects if isinstance(one, kind)]


def small_one_that_runs(core: Core, *neighbours: int, **wants: object) -> Task:
    """An elastic task that began beside neighbours with so many GPUs each, which have ended since."""
    others = [submit(core, gpus=count) for count in neighbours]
    core.plan(1.0)
    task = elastic(core, **wants)
    begin(core, task, 10.0)
    for other in others:
        begin(core, other, 10.0)
        end(core, other, "exited", 20.0, 0)
    core.plan(20.0)
    core.take_outcome()
    return task


def large_one_that_runs(core: Core, **wants: object) -> Task:
    """An elastic task that has all four GPUs."""
    task = elastic(core, **wants)
    begin(core, task, 10.0)
    core.take_outcome()
    return task


def test_it_grows_when_its_neighbour_has_ended_and_nobody_waits() -> None:
    core = core_with(FOUR)
    task = small_one_that_runs(core, 3)
    assert gpus(task) == [3]
    core.plan(10.0 + AFTER)
    assert [one.task.id for one in effects(core, SeekCheckpoint)] == [task.id]  # type: ignore[attr-defined]
    see(core, task, 500.0, 611.0)
    core.plan(611.0)
    assert (task.asked_end.why, task.resizing.gpus) == ("resize", 4)  # type: ignore[union-attr]
    assert task.reason_key == "to_grow"
    assert len(effects(core, Kill)) == 1
    end(core, task, "killed", 615.0)
    assert task.state is TaskState.STARTING
    assert gpus(task) == [0, 1, 2, 3]
    assert (task.attempt, task.retries, task.resizes, task.resizing) == (2, 0, 1, None)
    ended = task.attempts[0]
    assert (ended.reason_key, ended.reason_args) == ("was_resized", {"was": 1, "gpus": 4})
    assert len(effects(core, Start)) == 1


def test_it_gives_up_as_many_as_the_first_who_waits_needs() -> None:
    core = core_with(FOUR)
    task = large_one_that_runs(core)
    waiter = submit(core, gpus=2)
    core.plan(700.0)
    see(core, task, 500.0, 701.0)
    core.plan(701.0)
    assert task.resizing == Resizing(gpus=2, was=4, waiter=waiter.id, at=701.0)
    assert says(core.why_it_waits(waiter), "gives_up", id=task.id, count=2)
    end(core, task, "killed", 705.0)
    core.plan(705.0)
    assert (gpus(task), gpus(waiter)) == ([0, 1], [2, 3])
    assert waiter.state is TaskState.STARTING


def test_it_never_has_fewer_than_it_asked_for_at_least() -> None:
    core = core_with(FOUR)
    task = large_one_that_runs(core, gpus=2)
    submit(core, gpus=3)
    core.plan(700.0)
    see(core, task, 500.0, 701.0)
    core.plan(701.0)
    assert task.resizing is None


def test_without_a_checkpoint_that_is_newer_than_its_attempt_it_keeps_what_it_has_and_says_why() -> None:
    core = core_with(FOUR)
    task = small_one_that_runs(core, 3)
    core.plan(700.0)
    see(core, task, 9.0, 701.0)
    core.plan(701.0)
    assert task.asked_end is None
    assert "out/*.pt is newer" in str(core.warning(task))
    assert (core.warned(), core.some_may_be_warned()) == ([task.id], True)
    effects(core, Kill)
    core.plan(720.0)
    assert effects(core, SeekCheckpoint) == [], "nobody looks at once again"
    core.plan(701.0 + LOOK_AGAIN_S)
    assert len(effects(core, SeekCheckpoint)) == 1
    see(core, task, 760.0, 762.0)
    core.plan(762.0)
    assert task.resizing is not None
    assert core.warning(task) is None


def test_it_is_not_resized_before_it_has_run_for_long_enough_and_the_planner_wakes_for_it() -> None:
    core = core_with(FOUR)
    task = large_one_that_runs(core)
    submit(core, gpus=2)
    core.plan(10.0 + AFTER - 1)
    outcome = core.take_outcome()
    assert outcome is not None
    assert [one.at for one in outcome.effects if isinstance(one, WakeAt)] == [10.0 + AFTER]
    assert not any(isinstance(one, SeekCheckpoint) for one in outcome.effects)
    core.woken()
    core.plan(10.0 + AFTER)
    assert len(effects(core, SeekCheckpoint)) == 1
    assert task.asked_end is None


def test_free_gpus_are_left_to_those_who_wait_for_them_though_they_are_too_few_for_now() -> None:
    core = core_with(FOUR)
    task = small_one_that_runs(core, 2)  # beside it one more GPU is free
    core.plan(15.0)
    submit(core, gpus=4)
    core.plan(700.0)
    see(core, task, 500.0, 701.0)
    core.plan(701.0)
    assert task.resizing is None


def test_who_waits_for_other_nodes_keeps_nobody_from_growing() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 8))
    task = elastic(core, node="a", gpus=1, gpus_max=3)
    first = submit(core, node="a", gpus=3)
    core.force(first.id)
    core.plan(1.0)
    begin(core, task, 10.0)
    begin(core, first, 10.0)
    end(core, first, "exited", 20.0, 0)
    big = submit(core, gpus=8)
    other = submit(core, gpus=8)
    core.plan(30.0)
    assert (big.state, other.state) == (TaskState.STARTING, TaskState.WAITING)
    core.plan(700.0)
    see(core, task, 500.0, 701.0)
    core.plan(701.0)
    assert task.resizing is not None
    assert task.resizing.gpus == 3


def test_two_give_up_some_where_one_has_not_enough() -> None:
    core = core_with(FOUR)
    one, two = elastic(core, gpus_max=2), elastic(core, gpus_max=2)
    begin(core, one, 10.0)
    begin(core, two, 10.0)
    assert (len(gpus(one)), len(gpus(two))) == (2, 2)
    waiter = submit(core, gpus=2)
    core.plan(700.0)
    for task in (one, two):
        see(core, task, 600.0, 701.0)
    core.plan(701.0)
    assert [task.resizing.gpus for task in (one, two) if task.resizing] == [1, 1]
    end(core, one, "killed", 705.0)
    core.plan(705.0)
    assert waiter.state is TaskState.WAITING
    assert len(gpus(one)) == 1, "what it gave up is not taken back meanwhile"
    end(core, two, "killed", 706.0)
    core.plan(706.0)
    assert waiter.state is TaskState.STARTING


def test_where_the_waiter_has_gone_meanwhile_it_goes_on_with_all_that_it_had() -> None:
    core = core_with(FOUR)
    task = large_one_that_runs(core)
    waiter = submit(core, gpus=2)
    core.plan(700.0)
    see(core, task, 500.0, 701.0)
    core.plan(701.0)
    core.cancel(waiter.id, 702.0)
    end(core, task, "killed", 705.0)
    core.plan(705.0)
    assert gpus(task) == [0, 1, 2, 3]


def test_where_others_took_the_free_gpus_meanwhile_it_goes_on_with_its_own() -> None:
    core = core_with(FOUR)
    task = small_one_that_runs(core, 3)
    core.plan(700.0)
    see(core, task, 500.0, 701.0)
    core.plan(701.0)
    other = submit(core, gpus=2)
    core.plan(702.0)
    assert gpus(other) == [0, 1]
    end(core, task, "killed", 705.0)
    assert gpus(task) == [2, 3]


def being_resized(core: Core, **wants: object) -> Task:
    task = large_one_that_runs(core, **wants)
    submit(core, gpus=2)
    core.plan(700.0)
    see(core, task, 500.0, 701.0)
    core.plan(701.0)
    assert task.resizing is not None
    return task


def test_what_ends_well_by_itself_meanwhile_has_succeeded() -> None:
    core = core_with(FOUR)
    task = being_resized(core)
    end(core, task, "exited", 702.0, 0)
    assert (task.state, task.resizing, task.resizes) == (TaskState.SUCCEEDED, None, 0)


def test_what_fails_by_itself_meanwhile_has_failed_and_is_tried_again_as_its_owner_said() -> None:
    core = core_with(FOUR)
    task = being_resized(core, max_retries=1)
    end(core, task, "exited", 702.0, 1)
    assert (task.state, task.retries, task.resizes) == (TaskState.WAITING, 1, 0)
    core = core_with(FOUR)
    task = being_resized(core)
    end(core, task, "exited", 702.0, 1)
    assert (task.state, task.resizing) == (TaskState.FAILED, None)


def test_who_cancels_it_meanwhile_has_it_ended() -> None:
    core = core_with(FOUR)
    task = being_resized(core)
    core.cancel(task.id, 702.0, by="ann")
    assert (task.asked_end.why, task.resizing, task.reason) == ("cancel", None, None)  # type: ignore[union-attr]
    end(core, task, "killed", 703.0)
    assert task.state is TaskState.CANCELLED


def test_it_is_not_paused_while_it_is_being_resized_nor_resized_while_it_is_paused() -> None:
    core = core_with(FOUR)
    task = being_resized(core)
    with pytest.raises(ConflictError):
        core.pause(task.id, "ann", 702.0)
    core = core_with(FOUR)
    task = large_one_that_runs(core)
    core.pause(task.id, "ann", 20.0)
    submit(core, gpus=2)
    core.plan(700.0)
    assert effects(core, SeekCheckpoint) == []


def test_what_its_time_limit_ends_meanwhile_has_run_out_of_time() -> None:
    core = core_with(FOUR)
    task = being_resized(core, time_limit_s=5000.0)
    end(core, task, "timed_out", 702.0)
    assert task.state is TaskState.TIMED_OUT
    assert task.asked_end is not None
    assert task.asked_end.why == "limit"


def test_its_time_limit_holds_for_all_its_attempts_together() -> None:
    core = core_with(FOUR)
    task = being_resized(core, time_limit_s=5000.0)
    end(core, task, "killed", 710.0)
    assert task.ran_s == 700.0
    message = launch_message(task, task.allocation[0], SETTINGS)
    assert message["time_limit_s"] == 4300.0
    assert message["env"]["MUSTER_RESUME"] == "1"
    assert message["env"]["MUSTER_CHECKPOINT"] == "out/*.pt"
    assert message["log_new"] is False


def test_one_whose_time_limit_or_the_signal_before_it_is_near_is_left_alone() -> None:
    core = core_with(FOUR)
    large_one_that_runs(core, time_limit_s=1500.0, signal=EarlySignal("USR1", 400.0))
    submit(core, gpus=2)
    core.plan(700.0)
    assert effects(core, SeekCheckpoint) == []


def test_an_attempt_begins_anew_when_its_owner_asks_for_it() -> None:
    core = core_with(FOUR)
    task = being_resized(core)
    end(core, task, "killed", 710.0)
    begin(core, task, 711.0)
    end(core, task, "exited", 720.0, 1)
    core.retry(task.id)
    assert (task.resizes, task.ran_s) == (0, 0.0)


def test_it_goes_on_where_it_was_after_a_crash_between_the_kill_and_the_end() -> None:
    core = core_with(FOUR)
    task = being_resized(core)
    stored = {one.id: msgspec.json.decode(msgspec.json.encode(one), type=Task) for one in core.tasks.values()}
    fresh = core_with(FOUR, online=False)
    fresh.load(stored, {}, 3)
    again = fresh.tasks[task.id]
    fresh.plan(720.0)
    fresh.node_state("a", NodeState.CONNECTING, None, BOOT)
    ended = Exit(launch_of(again), "killed", 715.0)
    fresh.reconcile("a", [Seen(launch_of(again), 10.0, ended)], 721.0)
    fresh.node_state("a", NodeState.ONLINE)
    fresh.plan(721.0)
    assert (again.state, gpus(again)) == (TaskState.STARTING, [0, 1])
    assert gpus(fresh.tasks[2]) == [2, 3]


def test_the_kill_is_sent_again_to_an_agent_that_comes_back() -> None:
    core = core_with(FOUR)
    task = being_resized(core)
    core.take_outcome()
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    core.node_state("a", NodeState.CONNECTING, None, BOOT)
    core.reconcile("a", [Seen(launch_of(task), 10.0, None, pid=7)], 720.0)
    assert len(effects(core, Kill)) == 1


def test_where_its_node_takes_nothing_any_more_it_waits_as_any_other_and_goes_elsewhere() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    task = large_one_that_runs(core)
    other = submit(core, gpus=4, node="b")
    core.plan(20.0)
    submit(core, gpus=2, node="a")
    core.plan(700.0)
    see(core, task, 500.0, 701.0)
    core.plan(701.0)
    core.drain("a", "why", "ann", 702.0)
    end(core, task, "killed", 705.0)
    core.plan(705.0)
    assert task.state is TaskState.WAITING
    begin(core, other, 706.0)
    end(core, other, "exited", 707.0, 0)
    core.plan(707.0)
    assert (task.allocation[0].node, len(gpus(task))) == ("b", 4)


def test_it_is_lost_with_its_node_like_any_other() -> None:
    core = core_with(FOUR)
    task = being_resized(core)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    core.give_up("a", "ann", 710.0)
    assert (task.state, task.resizing) == (TaskState.LOST, None)
    assert task.asked_end is not None
    assert task.asked_end.why == "node_lost"


def test_it_does_not_grow_beyond_a_quota() -> None:
    core = core_with(FOUR)
    core.people.add("ann")
    core.people.edit("ann", quota=Quota(max_total_gpus=2))
    task = small_one_that_runs(core, 3, owner="ann")
    core.plan(700.0)
    see(core, task, 500.0, 701.0)
    core.plan(701.0)
    assert task.resizing is not None
    assert task.resizing.gpus == 2
    core.people.edit("ann", quota=Quota(max_total_gpus=1))
    end(core, task, "killed", 705.0)
    assert len(gpus(task)) == 1, "the quota was lowered meanwhile"


def test_who_waits_for_his_quota_makes_nobody_give_up_anything() -> None:
    core = core_with(FOUR)
    core.people.add("ann")
    core.people.edit("ann", quota=Quota(max_running=1))
    task = large_one_that_runs(core, owner="ann")
    submit(core, gpus=2, owner="ann")
    core.plan(700.0)
    assert effects(core, SeekCheckpoint) == []
    assert task.resizing is None


def test_within_an_allocation_it_gives_way_to_those_within_and_grows_on_its_gpus_only() -> None:
    core = core_with(FOUR)
    held = submit(core, name="exp", is_allocation=True, gpus=3)
    core.plan(1.0)
    first = submit(core, gpus=2, within=held.id)
    core.plan(2.0)
    task = elastic(core, within=held.id)
    begin(core, task, 10.0)
    begin(core, first, 10.0)
    end(core, first, "exited", 20.0, 0)
    core.plan(700.0)
    see(core, task, 500.0, 701.0)
    core.plan(701.0)
    end(core, task, "killed", 702.0)
    assert gpus(task) == [0, 1, 2]
    begin(core, task, 703.0)
    submit(core, gpus=2)  # outside: it is not its matter
    second = submit(core, gpus=1, within=held.id)
    core.plan(1400.0)
    see(core, task, 1399.0, 1401.0)
    core.plan(1401.0)
    end(core, task, "killed", 1402.0)
    core.plan(1402.0)
    assert (len(gpus(task)), len(gpus(second))) == (2, 1)


def test_a_task_on_several_nodes_starts_where_elastic_tasks_on_them_give_way() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    one, two = elastic(core), elastic(core)
    begin(core, one, 10.0)
    begin(core, two, 10.0)
    gang = submit(core, gpus=2, nodes=2)
    core.plan(700.0)
    for task in (one, two):
        see(core, task, 600.0, 701.0)
    core.plan(701.0)
    for task in (one, two):
        end(core, task, "killed", 705.0)
    core.plan(705.0)
    assert [len(part.gpus) for part in gang.allocation] == [2, 2]


def test_its_own_gpus_are_not_waited_for_where_samples_have_not_shown_them_free_yet() -> None:
    core = core_with(FOUR)
    task = being_resized(core)
    reports = [GpuReport(gpu, memory_total_mib=1000, memory_used_mib=0) for gpu in range(4)]
    core.gpus_seen("a", reports, 702.0)
    end(core, task, "killed", 705.0)
    assert gpus(task) == [0, 1]
    core.plan(705.0)
    assert core.tasks[2].state is TaskState.WAITING, "another waits until they are seen to be free"
    core.gpus_seen("a", reports, 707.0)
    core.plan(707.0)
    assert gpus(core.tasks[2]) == [2, 3]


@pytest.mark.parametrize("change", ["more", "fewer"])
def test_what_runs_of_a_user_who_was_disabled_is_not_ended_for_another_number_of_gpus(change: str) -> None:
    core = core_with(FOUR)
    core.people.add("ada", role="admin")
    core.people.add("kim")
    task = small_one_that_runs(core, 3, owner="kim") if change == "more" else large_one_that_runs(core, owner="kim")
    if change == "fewer":
        submit(core, gpus=2)
    core.plan(700.0)
    see(core, task, 500.0, 701.0)
    core.disable_user("kim", "ada")
    core.plan(701.0)
    assert (task.state, task.asked_end) == (TaskState.RUNNING, None)
    core.enable_user("kim")
    core.plan(702.0)
    assert task.asked_end is not None
