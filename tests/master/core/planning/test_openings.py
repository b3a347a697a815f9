"""What would let a waiting task start: each way that is told does, when it comes true."""

from __future__ import annotations

import random

import pytest

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import Task, TaskState
from tests.faults import says
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from wire.message import Message, ids, names

NOW = 10.0


def node(name: str, gpus: int = 2) -> NodeSpec:
    return NodeSpec(name=name, gpu_models=("GPU",) * gpus)


def runs(core: Core, **wants: object) -> Task:
    task = submit(core, **{"gpus": 1, **wants})
    core.plan(1.0)
    for part in task.allocation:
        core.started(part.node, part.launch_id, 2.0, 2.0, pid=7)
    return task


def waits(core: Core, **wants: object) -> Task:
    task = submit(core, **{"gpus": 1, **wants})
    core.plan(NOW)
    assert task.state is TaskState.WAITING
    return task


def ways(core: Core, task: Task) -> list[str]:
    return [str(one) for one in core.would_start(task, core.wait(task), NOW, lambda _: True)]


def ends(core: Core, *tasks: Task) -> None:
    for task in tasks:
        for part in task.allocation:
            core.exited(part.node, Exit(part.launch_id, "exited", NOW, 0), NOW)


def starts(core: Core, task: Task) -> bool:
    core.plan(NOW)
    return task.state is TaskState.STARTING


def test_the_tasks_that_have_to_end_are_told_the_soonest_first_and_with_their_end() -> None:
    core = core_with(node("a"), node("b"), node("c"))
    late, soon, some_day = (runs(core, gpus=2, time_limit_s=at) for at in (7200.0, 3600.0, None))
    task = waits(core, gpus=2)
    told = ways(core, task)
    (on,) = (part.node for part in soon.allocation)
    assert [text.split(" (expected by ")[0] for text in told] == [
        f"task {soon.id} ends on {on}", f"task {late.id} ends on {late.allocation[0].node}"
    ]  # fmt: skip
    assert all("expected by" in text for text in told)
    assert some_day.state is TaskState.RUNNING
    ends(core, soon)
    assert starts(core, task)


def test_of_tasks_whose_end_the_viewer_may_not_know_no_time_is_told() -> None:
    core = core_with(node("a"))
    runs(core, gpus=2, time_limit_s=3600.0)
    task = waits(core)
    told = core.would_start(task, core.wait(task), NOW, lambda _: False)
    assert [str(one) for one in told] == ["task 1 ends on a"]


def test_many_nodes_are_not_many_lines() -> None:
    core = core_with(*(node(f"n{number}", 1) for number in range(60)))
    for number in range(40, 50):
        core.node_state(f"n{number}", NodeState.UNREACHABLE, None)
    for number in range(50, 60):
        core.drain(f"n{number}", "ann", "disk", 1.0)
    for _ in range(40):
        runs(core)
    assert ways(core, waits(core)) == [
        "task 1 ends on n0",
        "task 2 ends on n1",
        "one of nodes n[40-49] comes back",
        "one of nodes n[50-59] takes tasks again",
    ]


def test_a_node_that_comes_back_is_one_way_and_one_that_was_drained_another() -> None:
    core = core_with(node("a"), node("b"), node("c"), node("d"))
    core.node_state("b", NodeState.UNREACHABLE, None)
    core.node_state("c", NodeState.UNREACHABLE, None)
    core.drain("d", "ann", "disk", NOW)
    runs(core, gpus=2)
    task = waits(core)
    assert ways(core, task) == ["task 1 ends on a", "one of nodes b, c comes back", "node d takes tasks again"]
    core.node_state("b", NodeState.ONLINE, None, BOOT)
    assert starts(core, task)


def test_without_a_node_that_is_ready_it_is_told_which_would_do() -> None:
    core = core_with(node("a"), node("small", 1))
    for name in ("a", "small"):
        core.node_state(name, NodeState.UNREACHABLE, None)
    task = waits(core, gpus=2)
    assert ways(core, task) == ["node a comes back"]


def test_what_can_never_start_has_no_way_and_neither_has_what_is_next() -> None:
    core = core_with(node("a"))
    first = runs(core, gpus=2)
    large, small = waits(core, gpus=2), waits(core)
    core.set_nodes((node("a", 1),))
    ends(core, first)
    assert (ways(core, large), ways(core, small)) == ([], [])
    assert starts(core, small)


def test_a_quota_is_part_of_each_way() -> None:
    core = core_with(node("a"))
    core.tuning.set("scheduler.max_running", 1, "ann", NOW)
    runs(core)
    over = waits(core)
    allowed = Message("would_be_allowed")
    assert ways(core, over) == [str(allowed)]
    larger = waits(core, gpus=2)
    ends_there = Message("would_end", tasks=ids([1]), nodes=names(["a"]))
    assert ways(core, larger) == [str(Message("would_all", conditions=(allowed, ends_there)))]
    core.tuning.set("scheduler.max_running", 9, "ann", NOW)
    assert starts(core, over)


def test_a_task_on_several_nodes_has_one_way_for_all_of_them() -> None:
    core = core_with(node("a"), node("b"))
    first, second = runs(core, gpus=2), runs(core, gpus=2)
    task = waits(core, gpus=2, nodes=2)
    assert ways(core, task) == ["tasks 1-2 end on a, b"]
    core.node_state("b", NodeState.UNREACHABLE, None)
    assert ways(core, task) == ["node b comes back and tasks 1-2 end on a, b"]
    core.node_state("b", NodeState.ONLINE, None, BOOT)
    ends(core, first, second)
    assert starts(core, task)


def test_what_is_reserved_for_another_is_told_with_what_would_pass_it() -> None:
    core = core_with(node("a"))
    holder = runs(core, gpus=1, time_limit_s=3600.0)
    large = waits(core, gpus=2, urgent=True)
    small = waits(core, gpus=1, time_limit_s=7200.0)
    told = ways(core, small)
    assert len(told) == 1
    [way] = core.would_start(small, core.wait(small), NOW, lambda _: True)
    assert says(way, "would_pass", task=large.id)
    assert holder.state is TaskState.RUNNING
    core.cancel(large.id, NOW)
    assert starts(core, small)


def test_licences_have_to_be_given_back() -> None:
    core = core_with(node("a"), licences={"matlab": 1})
    holder = runs(core, gpus=0, licences={"matlab": 1})
    task = waits(core, gpus=1, licences={"matlab": 1})
    assert ways(core, task) == [f"task {holder.id} ends"]
    ends(core, holder)
    assert starts(core, task)


def test_of_several_nodes_with_room_where_only_a_licence_lacks_it_is_told_once() -> None:
    core = core_with(node("a"), node("b"), licences={"matlab": 1})
    holder = runs(core, gpus=0, licences={"matlab": 1})
    assert ways(core, waits(core, gpus=1, licences={"matlab": 1})) == [f"task {holder.id} ends"]


def test_a_task_on_the_node_that_has_nothing_of_what_lacks_need_not_end() -> None:
    core = core_with(node("a", 1))
    other, holder = runs(core, gpus=0), runs(core, gpus=1)
    task = waits(core)
    assert ways(core, task) == [f"task {holder.id} ends on a"]
    core.force(task.id)
    core.plan(NOW)
    assert core.holds["a"].holders == (holder.id,)
    ends(core, holder)
    assert starts(core, task)
    assert other.state is TaskState.RUNNING


def test_a_task_on_another_gpu_than_those_that_are_asked_for_need_not_end() -> None:
    core = core_with(node("a", 4))
    soon = runs(core, gpu_ids=[1], node="a", time_limit_s=600.0)
    holder = runs(core, gpu_ids=[0], node="a", time_limit_s=3600.0)
    task = waits(core, gpu_ids=[0], node="a")
    assert [text.split(" (expected by ")[0] for text in ways(core, task)] == [f"task {holder.id} ends on a"]
    core.force(task.id)
    core.plan(NOW)
    assert core.holds["a"].holders == (holder.id,)
    ends(core, holder)
    assert starts(core, task)
    assert soon.state is TaskState.RUNNING


def test_a_task_that_ends_before_one_which_gives_back_enough_by_itself_need_not_end() -> None:
    core = core_with(node("a", 4))
    soon = runs(core, gpus=1, time_limit_s=600.0)
    holder = runs(core, gpus=3, time_limit_s=3600.0)
    task = waits(core, gpus=3)
    assert [text.split(" (expected by ")[0] for text in ways(core, task)] == [f"task {holder.id} ends on a"]
    ends(core, holder)
    assert starts(core, task)
    assert soon.state is TaskState.RUNNING


def test_a_gpu_whose_last_task_has_just_ended_has_to_be_shown_free() -> None:
    core = core_with(node("a", 1))
    core.gpus_seen("a", [GpuReport(0, memory_total_mib=24_564, memory_used_mib=0)], 0.0)
    holder = runs(core, gpus=1)
    ends(core, holder)
    task = waits(core)
    told = core.would_start(task, core.wait(task), NOW, lambda _: True)
    assert list(told) == [Message("would_be_open", nodes=names(["a"]))]
    core.gpus_seen("a", [GpuReport(0, memory_total_mib=24_564, memory_used_mib=0)], NOW)
    assert starts(core, task)


def test_gpus_that_strangers_use_have_to_be_free_again() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",), gpu_memory_mib=(24_564,)))
    stranger = Holder(99, user="bob", memory_mib=9000, launch_id="")
    core.gpus_seen("a", [GpuReport(0, memory_total_mib=24_564, memory_used_mib=9000, processes=(stranger,))], 5.0)
    task = waits(core)
    assert ways(core, task) == [str(Message("would_be_open", nodes=names(["a"])))]
    core.gpus_seen("a", [GpuReport(0, memory_total_mib=24_564, memory_used_mib=0)], 6.0)
    assert starts(core, task)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_told_first_lets_it_start_and_all_of_it_is_needed(seed: int) -> None:
    chance = random.Random(seed)
    core = core_with(*(node(f"n{number}", chance.choice([1, 2, 4])) for number in range(4)))
    for _ in range(20):
        task = submit(core, gpus=chance.choice([1, 2]), time_limit_s=chance.choice([None, 600.0, 6000.0]))
        core.plan(1.0)
        if task.state is TaskState.STARTING:
            core.started(task.allocation[0].node, launch_of(task), 2.0, 2.0, pid=7)
    wanted = next(one for one in core.tasks.values() if one.state is TaskState.WAITING)
    (first, *_) = core.would_start(wanted, core.wait(wanted), NOW, lambda _: True)
    for other in core.queue():
        if other.state is TaskState.WAITING and other is not wanted:
            core.cancel(other.id, NOW)
    for number in parsed(first):
        assert not starts(core, wanted), f"it starts before task {number} has ended: {first}"
        ends(core, core.tasks[number])
    assert starts(core, wanted)


def parsed(way: Message) -> list[int]:
    """The tasks that have to end."""
    ranges = [part.split("-") for part in way.args["tasks"].parts]  # type: ignore[union-attr]
    return [number for ends_of in ranges for number in range(int(ends_of[0]), int(ends_of[-1]) + 1)]
