"""Named allocations in the core: granted like tasks, divided among the tasks within, and how they end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Kill, Start, WakeAt
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.people.quota import Quota
from master.core.tasks.records import Change, merge_pieces
from master.core.tasks.task import Task, TaskState
from tests.faults import refusing
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from wire.errors import ConflictError, ForbiddenError, ImpossibleError, NotFoundError

FOUR = NodeSpec(name="a", gpu_models=("A100",) * 4, gpu_memory_mib=(10_000,) * 4)
TWO = NodeSpec(name="b", gpu_models=("A100",) * 2, gpu_memory_mib=(10_000,) * 2)


def allocated(core: Core, gpus: int = 2, name: str = "exp", **wants: Any) -> Task:
    """An allocation, granted if there is room."""
    task = submit(core, gpus=gpus, name=name, is_allocation=True, **wants)
    core.plan(10.0)
    return task


def started(core: Core, task: Task) -> Task:
    """It runs, where it was sent."""
    for part in task.allocation:
        core.started(part.node, part.launch_id, 11.0, 11.0, pid=5)
    assert task.state is TaskState.RUNNING
    return task


def ended(core: Core, task: Task, now: float = 20.0, cause: str = "exited") -> None:
    """It is over on its nodes."""
    for part in list(task.allocation):
        core.exited(part.node, Exit(part.launch_id, cause, now, 0 if cause == "exited" else None), now)
    core.plan(now)


def effects_of(core: Core) -> list[object]:
    outcome = core.take_outcome()
    return [] if outcome is None else list(outcome.effects)


def gpus_of(task: Task) -> list[tuple[str, list[int]]]:
    return [(part.node, part.gpus) for part in task.allocation]


def test_an_allocation_holds_its_gpus_and_no_node_hears_of_it() -> None:
    core = core_with(FOUR)
    task = allocated(core, 3)
    assert (task.state, task.started_at, gpus_of(task)) == (TaskState.RUNNING, 10.0, [("a", [0, 1, 2])])
    assert not [one for one in effects_of(core) if isinstance(one, Start | Kill)]
    other = submit(core, gpus=2)
    core.plan(11.0)
    assert other.state is TaskState.WAITING
    assert f"task {task.id}" in str(core.why_it_waits(other))


def test_tasks_within_get_gpus_of_the_allocation_and_of_no_other() -> None:
    core = core_with(FOUR)
    exp = allocated(core)
    within = [submit(core, gpus=1, within=exp.id) for _ in range(3)]
    outside = submit(core, gpus=2)
    core.plan(11.0)
    assert [gpus_of(task) for task in within] == [[("a", [0])], [("a", [1])], []]
    assert gpus_of(outside) == [("a", [2, 3])]
    assert str(core.why_it_waits(within[2])) == (
        f"needs 1 GPU: a: 0 of 2 GPUs of allocation {exp.id} free (tasks {within[0].id}-{within[1].id})"
    )
    ended(core, started(core, within[0]))
    assert gpus_of(within[2]) == [("a", [0])]


def test_a_task_within_waits_for_the_allocation_and_starts_with_the_plan_that_grants_it() -> None:
    core = core_with(TWO)
    busy = submit(core, gpus=2)
    core.plan(2.0)
    exp = allocated(core, 1)
    inner = submit(core, gpus=1, within=exp.id)
    core.plan(11.0)
    assert str(core.why_it_waits(inner)) == f"waits for allocation {exp.id} to be granted"
    ended(core, started(core, busy))
    assert (exp.state, inner.state) == (TaskState.RUNNING, TaskState.STARTING)


def test_a_task_without_gpus_runs_on_the_allocations_node_and_takes_a_slot_there() -> None:
    core = core_with(FOUR, TWO)
    exp = allocated(core, 2, node="b")
    inner = submit(core, gpus=0, within=exp.id)
    core.plan(11.0)
    assert gpus_of(inner) == [("b", [])]
    assert core.inventory.nodes["b"].held["slots"] == 1


def test_parts_of_a_gang_within_go_to_the_allocations_nodes() -> None:
    core = core_with(FOUR, TWO)
    exp = allocated(core, 1, nodes=2)
    gang = submit(core, gpus=1, nodes=2, within=exp.id)
    core.plan(11.0)
    assert sorted(gpus_of(gang)) == sorted(gpus_of(exp))


def test_tasks_within_share_a_gpu_of_the_allocation_by_memory() -> None:
    core = core_with(TWO)
    exp = allocated(core, 1)
    shares = [submit(core, gpus=1, share=True, gpu_memory_mib=4000, within=exp.id) for _ in range(3)]
    core.plan(11.0)
    assert [gpus_of(task) for task in shares] == [[("b", [0])], [("b", [0])], []]


@pytest.mark.parametrize(
    ("wants", "error"),
    [
        ({"gpus": 3}, ImpossibleError),
        ({"gpus": 1, "nodes": 2}, ImpossibleError),
        ({"gpus": 1, "owner": "bob"}, ForbiddenError),
        ({"gpus": 1, "within": 99}, NotFoundError),
    ],
)
def test_what_can_never_run_within_is_refused(wants: dict[str, Any], error: type[Exception]) -> None:
    core = core_with(FOUR, TWO)
    exp = allocated(core, owner="ann")
    with pytest.raises(error):
        submit(core, **{"owner": "ann", "within": exp.id, **wants})


def test_a_task_is_no_allocation_to_be_within() -> None:
    core = core_with(FOUR)
    plain = submit(core, gpus=1)
    with pytest.raises(NotFoundError):
        submit(core, gpus=1, within=plain.id)


def test_digits_that_no_id_has_name_no_allocation() -> None:
    core = core_with(FOUR)
    for which in ("9" * 5000, "٣"):
        with pytest.raises(NotFoundError):
            core.allocations.find(which)


def test_a_name_is_one_allocations_until_it_is_over() -> None:
    core = core_with(FOUR)
    first = allocated(core)
    with pytest.raises(ConflictError):
        allocated(core)
    core.release_allocation(first.id, "ann", 12.0)
    second = allocated(core)
    assert core.allocations.find("exp") is second
    with pytest.raises(ConflictError):
        core.retry(first.id)  # it would have the name, too


def test_a_release_frees_the_gpus_at_once() -> None:
    core = core_with(TWO)
    exp = allocated(core)
    other = submit(core, gpus=2)
    core.release_allocation(exp.id, "ann", 12.0)
    core.plan(12.0)
    assert (exp.state, exp.ended_at, exp.asked_end and exp.asked_end.by) == (TaskState.SUCCEEDED, 12.0, "ann")
    assert other.state is TaskState.STARTING


def test_a_release_is_refused_while_tasks_are_within_unless_it_may_wait_for_them() -> None:
    core = core_with(TWO)
    exp = allocated(core)
    inner, last = submit(core, gpus=2, within=exp.id), submit(core, gpus=1, within=exp.id)
    core.plan(11.0)
    with pytest.raises(ConflictError, match=f"tasks {inner.id}-{last.id}"):
        core.release_allocation(exp.id, "ann", 12.0)
    assert exp.asked_end is None
    core.release_allocation(exp.id, "ann", 12.0, wait=True)
    with refusing(ConflictError, "allocation_is_ending", id=exp.id, name=exp.name):
        submit(core, gpus=1, within=exp.id)
    ended(core, started(core, inner))
    assert (exp.state, last.state) == (TaskState.RUNNING, TaskState.STARTING)
    ended(core, started(core, last), 30.0)
    assert (exp.state, exp.ended_at) == (TaskState.SUCCEEDED, 30.0)


def test_a_cancel_ends_the_tasks_within_first_and_keeps_the_gpus_until_the_last_is_dead() -> None:
    core = core_with(TWO)
    exp = allocated(core)
    inner, queued = submit(core, gpus=2, within=exp.id), submit(core, gpus=1, within=exp.id)
    other = submit(core, gpus=1)
    core.plan(11.0)
    started(core, inner)
    effects_of(core)
    core.cancel(exp.id, 12.0, by="ann")
    core.plan(12.0)
    assert Kill("b", launch_of(inner)) in effects_of(core)
    assert (queued.state, queued.reason_key) == (TaskState.CANCELLED, "its_allocation_ended")
    assert (exp.state, other.state) == (TaskState.RUNNING, TaskState.WAITING)
    ended(core, inner, 13.0, "killed")
    assert (exp.state, inner.state, other.state) == (TaskState.CANCELLED, TaskState.CANCELLED, TaskState.STARTING)
    assert inner.reason_key == "its_allocation_ended"


def test_a_cancel_does_not_wait_for_what_a_release_waits_for() -> None:
    core = core_with(TWO)
    exp = allocated(core)
    inner = submit(core, gpus=1, within=exp.id)
    core.plan(11.0)
    core.release_allocation(exp.id, "ann", 12.0, wait=True)
    core.cancel(exp.id, 13.0, by="ann")
    core.plan(13.0)
    assert inner.asked_end is not None
    assert exp.asked_end is not None
    assert (inner.asked_end.why, exp.asked_end.why) == ("allocation", "cancel")


def test_an_allocation_ends_when_its_time_is_over_and_the_planner_asks_to_be_woken_for_that() -> None:
    core = core_with(TWO)
    exp = allocated(core, time_limit_s=100.0)
    inner = submit(core, gpus=1, within=exp.id, max_retries=3)
    core.plan(11.0)
    assert WakeAt(110.0) in effects_of(core)
    started(core, inner)
    core.woken()
    core.plan(110.0)
    assert inner.asked_end is not None
    assert not [one for one in effects_of(core) if isinstance(one, WakeAt)], "it would be asked again and again"
    ended(core, inner, 111.0, "killed")
    assert (exp.state, exp.reason_key) == (TaskState.TIMED_OUT, "allocation_time_over")
    assert inner.state is TaskState.CANCELLED


def test_a_task_within_that_is_tried_again_stays_within() -> None:
    core = core_with(TWO)
    exp = allocated(core, 1)
    inner = submit(core, gpus=1, within=exp.id, max_retries=1)
    core.plan(11.0)
    started(core, inner)
    core.exited("b", Exit(launch_of(inner), "exited", 12.0, 1), 12.0)
    core.woken()
    core.plan(100.0)
    assert (inner.state, gpus_of(inner)) == (TaskState.STARTING, [("b", [0])])
    assert exp.state is TaskState.RUNNING


def test_an_allocation_outlives_its_machines_reboot_and_what_ran_within_does_not() -> None:
    core = core_with(TWO)
    exp = allocated(core)
    inner = submit(core, gpus=1, within=exp.id)
    core.plan(11.0)
    started(core, inner)
    core.node_state("b", NodeState.CONNECTING, None, msgspec.structs.replace(BOOT, boot_id="boot-2"))
    core.reconcile("b", [], 20.0)
    core.node_state("b", NodeState.ONLINE)
    assert (exp.state, inner.state) == (TaskState.RUNNING, TaskState.LOST)
    again = submit(core, gpus=2, within=exp.id)
    core.plan(21.0)
    assert again.state is TaskState.STARTING


def test_a_node_that_is_given_up_ends_its_allocation() -> None:
    core = core_with(FOUR, TWO)
    exp = allocated(core, 1, nodes=2)
    inner = submit(core, gpus=1, within=exp.id, node="a")
    queued = submit(core, gpus=1, nodes=2, within=exp.id)
    core.plan(11.0)
    started(core, inner)
    core.node_state("b", NodeState.UNREACHABLE, "gone")
    core.give_up("b", "ann", 12.0)
    core.plan(12.0)
    assert (exp.state, queued.state) == (TaskState.RUNNING, TaskState.CANCELLED)
    ended(core, inner, 13.0, "killed")
    assert (exp.state, exp.reason_key) == (TaskState.LOST, "allocation_node_lost")


def test_gpus_of_an_allocation_count_once_for_a_quota_and_its_tasks_as_tasks() -> None:
    core = core_with(FOUR)
    core.people.add("ann")
    core.people.edit("ann", quota=Quota(max_total_gpus=2, max_running=1))
    exp = allocated(core, owner="ann")
    within = [submit(core, gpus=1, owner="ann", within=exp.id) for _ in range(2)]
    beyond = submit(core, gpus=1, owner="ann")
    core.plan(11.0)
    assert [task.state for task in within] == [TaskState.STARTING, TaskState.WAITING]
    assert "max_running of user ann is 1" in str(core.why_it_waits(within[1]))
    assert "max_total_gpus" in str(core.why_it_waits(beyond)) or "max_running" in str(core.why_it_waits(beyond))
    assert core.quotas.uses()["user", "ann"].gpus == 2


def test_an_idle_gpu_of_an_allocation_is_watched_like_a_free_one() -> None:
    core = core_with(TWO)
    exp = allocated(core)
    strange = [GpuReport(0, processes=(Holder(9, "eve", 3000),)), GpuReport(1)]
    core.gpus_seen("b", strange, 12.0)
    inner = submit(core, gpus=1, within=exp.id)
    core.plan(12.0)
    assert gpus_of(inner) == [("b", [1])], "on the other a stranger computes"
    started(core, inner)
    core.exited("b", Exit(launch_of(inner), "exited", 13.0, 0), 13.0)
    behind = submit(core, gpus=1, within=exp.id)
    core.plan(13.0)
    assert behind.state is TaskState.WAITING, "nobody knows that the memory of the one before is free"
    core.gpus_seen("b", [strange[0], GpuReport(1, memory_used_mib=0)], 14.0)
    core.plan(14.0)
    assert gpus_of(behind) == [("b", [1])]


def test_an_allocation_stands_not_still_and_is_given_to_nobody() -> None:
    core = core_with(TWO)
    exp = allocated(core, owner="ann")
    with pytest.raises(ConflictError):
        core.pause(exp.id, "ann", 12.0)
    with pytest.raises(ConflictError):
        core.resume_task(exp.id)
    core.people.add("bob")
    with pytest.raises(ConflictError):
        core.give_to(exp.id, "bob")


def loaded(core: Core, tasks: list[Task]) -> Core:
    """The next master on what the last one wrote, in this order."""
    pieces: dict[str, msgspec.Raw] = {}
    outcome = core.take_outcome()
    if outcome is not None:
        merge_pieces(pieces, outcome.change.state)
    lines = [msgspec.json.decode(msgspec.json.encode(Change([task])), type=Change).tasks[0] for task in tasks]
    found = core_with(FOUR, TWO, online=False)
    found.load({task.id: task for task in lines}, {}, core.next_id, pieces)
    found.sanity_check()
    return found


@pytest.mark.parametrize("order", [1, -1])
def test_the_next_master_finds_allocations_and_who_is_within_in_whatever_order_they_are_read(order: int) -> None:
    core = core_with(FOUR, TWO)
    exp = allocated(core, 4)
    inner = submit(core, gpus=3, within=exp.id)
    core.plan(11.0)
    after = loaded(core, [exp, inner][::order])
    assert after.inventory.leases(exp.id)["a"].gpu_holders == {gpu: {inner.id: None} for gpu in range(3)}
    for node in ("a", "b"):
        after.node_state(node, NodeState.CONNECTING, None, BOOT)
        after.reconcile(node, [Seen(launch_of(inner), 11.0, pid=5)] if node == "a" else [], 20.0)
        after.node_state(node, NodeState.ONLINE)
    more = [submit(after, gpus=1, within=exp.id) for _ in range(2)]
    after.plan(21.0)
    assert [task.state for task in more] == [TaskState.STARTING, TaskState.WAITING]
    assert after.tasks[exp.id].state is TaskState.RUNNING


def test_a_master_that_died_between_an_allocations_end_and_that_of_its_tasks_ends_them() -> None:
    core = core_with(FOUR, TWO)
    exp = allocated(core)
    queued = submit(core, gpus=1, within=exp.id, state=TaskState.HELD)
    core.cancel(exp.id, 12.0, by="ann")  # and no plan any more
    after = loaded(core, [exp, queued])
    after.plan(20.0)
    assert (after.tasks[queued.id].state, after.tasks[exp.id].state) == (TaskState.CANCELLED, TaskState.CANCELLED)
    after.sanity_check()


def test_an_allocation_that_is_removed_while_it_waits_leaves_nobody_waiting() -> None:
    core = core_with(TWO)
    submit(core, gpus=2)
    core.plan(2.0)
    exp = allocated(core)
    inner = submit(core, gpus=1, within=exp.id)
    core.remove(exp.id, 12.0)
    core.plan(12.0)
    assert inner.state is TaskState.CANCELLED


def test_an_allocation_that_waits_with_tasks_within_is_cancelled_not_released() -> None:
    core = core_with(TWO)
    submit(core, gpus=2)
    core.plan(2.0)
    exp = allocated(core)
    inner = submit(core, gpus=1, within=exp.id)
    with pytest.raises(ConflictError, match="muster cancel"):
        core.release_allocation(exp.id, "ann", 12.0, wait=True)
    core.cancel(exp.id, 12.0)
    core.plan(12.0)
    assert inner.state is TaskState.CANCELLED


def test_a_drained_node_takes_no_task_within_either() -> None:
    core = core_with(TWO)
    exp = allocated(core)
    inner = submit(core, gpus=1, within=exp.id)
    core.drain("b", "fan", "ann", 11.0)
    core.plan(11.0)
    assert inner.state is TaskState.WAITING
    core.resume("b")
    core.plan(12.0)
    assert inner.state is TaskState.STARTING


def test_room_is_kept_for_a_large_task_until_an_allocations_time_is_over() -> None:
    core = core_with(TWO)
    exp = allocated(core, time_limit_s=100.0)
    inner = submit(core, gpus=2, within=exp.id, time_limit_s=5.0)
    core.plan(11.0)
    started(core, inner)
    large = submit(core, gpus=2)
    core.force(large.id)
    core.plan(12.0)
    assert core.holds["b"].until == 110.0, "the end of a task within frees nothing for others"


def test_nothing_is_learned_from_how_long_an_allocation_was_held() -> None:
    core = core_with(TWO)
    exp = allocated(core)
    core.release_allocation(exp.id, "", 1000.0)
    assert core.learned.expected(submit(core, gpus=2)) is None
