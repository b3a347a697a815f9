"""Defects that queues for GPUs are known to have, each by its name: none of them is to come back here."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.attempts.launching import LaunchSettings, launch_message
from master.core.core import Core
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import ENDED, After, Task, TaskState
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from wire.errors import ImpossibleError

CARD_MIB = 24_564
ONE = NodeSpec(name="a", gpu_models=("RTX4090",), gpu_memory_mib=(CARD_MIB,))


def seen(core: Core, used: int, *processes: Holder, at: float = 10.0) -> None:
    core.gpus_seen("a", [GpuReport(0, memory_total_mib=CARD_MIB, memory_used_mib=used, processes=processes)], at)
    core.plan(at)


def begun(core: Core, task: Task, at: float = 2.0) -> None:
    core.plan(at)
    core.started(task.allocation[0].node, launch_of(task), at, at, pid=7)


def loaded(core: Core) -> Core:
    """The next master, with what is on disk."""
    again = core_with(*(node.spec for node in core.inventory.nodes.values()), online=False)
    tasks = {number: msgspec.json.decode(msgspec.json.encode(task), type=Task) for number, task in core.tasks.items()}
    again.load(tasks, {}, core.next_id)
    return again


def test_six_shared_tasks_do_not_land_on_one_gpu_while_the_samples_still_show_it_free() -> None:
    core = core_with(ONE)
    seen(core, 300)
    tasks = [submit(core, gpus=1, share=True, gpu_memory_mib=8000) for _ in range(6)]
    for at in range(11, 40):
        seen(core, 300, at=float(at))
    assert [task.id for task in tasks if task.state is TaskState.STARTING] == [1, 2, 3]


def test_an_exclusive_task_does_not_land_on_a_gpu_that_a_foreign_process_uses_a_little() -> None:
    core = core_with(ONE)
    task = submit(core, gpus=1)
    seen(core, 310, Holder(99, "eve", 1))
    assert task.state is TaskState.WAITING
    seen(core, 309, at=12.0)
    assert task.state is TaskState.STARTING


def test_a_successor_of_a_deleted_task_does_not_wait_for_ever() -> None:
    core = core_with()
    first = submit(core)
    core.hold(first.id)
    second = submit(core, after=[After(first.id, "ok")])
    core.remove(first.id, 2.0)
    core.plan(3.0)
    assert second.state in ENDED or second.state is TaskState.STARTING


def test_a_request_that_no_node_can_ever_meet_does_not_wait_in_silence() -> None:
    core = core_with()
    with pytest.raises(ImpossibleError, match="8"):
        submit(core, gpus=9)
    task = submit(core, gpus=8)
    core.set_nodes((NodeSpec(name="a", gpu_models=("GPU",) * 4),))
    core.plan(1.0)
    assert str(core.reason(task)).startswith("can never start")


def test_tasks_do_not_start_one_at_a_time() -> None:
    core = core_with()
    tasks = [submit(core, gpus=1) for _ in range(8)]
    core.plan(1.0)
    assert {task.state for task in tasks} == {TaskState.STARTING}


def test_a_large_task_at_the_head_of_the_line_does_not_block_those_behind_it() -> None:
    core = core_with()
    core.plan(0.0)
    holder = submit(core, gpus=1)
    begun(core, holder)
    large, small = submit(core, gpus=8, priority=9), submit(core, gpus=1)
    core.plan(3.0)
    assert (large.state, small.state) == (TaskState.WAITING, TaskState.STARTING)


def test_a_priority_is_not_ignored() -> None:
    core = core_with(ONE)
    low, high = submit(core, gpus=1, priority=1), submit(core, gpus=1, priority=2)
    core.plan(1.0)
    assert (low.state, high.state) == (TaskState.WAITING, TaskState.STARTING)


def test_among_equals_chance_decides_nothing() -> None:
    for order in itertools.permutations(range(3)):
        core = core_with(ONE)
        tasks = [submit(core, gpus=1) for _ in range(3)]
        again = core_with(ONE)
        again.load({tasks[at].id: tasks[at] for at in order}, {}, 4)
        again.plan(1.0)
        assert [task.id for task in again.tasks.values() if task.state is TaskState.STARTING] == [1]


def test_a_time_limit_is_not_forgotten() -> None:
    core = core_with(ONE)
    task = submit(core, gpus=1, time_limit_s=60.0)
    begun(core, task)
    sent = launch_message(task, task.allocation[0], LaunchSettings(conda="/conda", task_env={}, grace_s=3.0))
    assert sent["time_limit_s"] == 60.0, "its node keeps it"
    core.exited("a", Exit(launch_of(task), "timed_out", 62.0), 62.0)
    assert task.state is TaskState.TIMED_OUT
    assert core.inventory.nodes["a"].free_gpus == [0]


def test_a_retry_has_an_end() -> None:
    core = core_with(ONE)
    task = submit(core, gpus=1, max_retries=2)
    starts = 0
    for turn in range(20):
        at = 1e6 * (1 + turn)
        core.plan(at)
        if task.state is TaskState.STARTING:
            starts += 1
            core.exited("a", Exit(launch_of(task), "exited", at, 1), at)
    assert (starts, task.state) == (3, TaskState.FAILED)


def test_a_dropped_connection_neither_fails_a_task_nor_frees_its_gpu() -> None:
    core = core_with(ONE)
    task, other = submit(core, gpus=1), submit(core, gpus=1)
    begun(core, task)
    core.node_state("a", NodeState.UNREACHABLE, "cut")
    core.plan(1e6)
    assert (task.state, other.state) == (TaskState.RUNNING, TaskState.WAITING)
    assert core.inventory.nodes["a"].free_gpus == []


def test_a_reconnect_does_not_mark_a_busy_gpu_free() -> None:
    core = core_with(ONE)
    task, other = submit(core, gpus=1), submit(core, gpus=1)
    begun(core, task)
    core.node_state("a", NodeState.UNREACHABLE, "cut")
    core.node_state("a", NodeState.CONNECTING, None, BOOT)
    core.reconcile("a", [Seen(launch_of(task), 2.0)], 9.0)
    core.node_state("a", NodeState.ONLINE)
    core.plan(10.0)
    assert (task.state, other.state) == (TaskState.RUNNING, TaskState.WAITING)


def test_a_restart_neither_fails_what_runs_nor_strands_it_or_its_gpu() -> None:
    core = core_with(ONE)
    task, other = submit(core, gpus=1), submit(core, gpus=1)
    begun(core, task)
    again = loaded(core)
    task, other = again.tasks[task.id], again.tasks[other.id]
    again.plan(3.0)
    assert (task.state, other.state) == (TaskState.RUNNING, TaskState.WAITING)
    again.node_state("a", NodeState.CONNECTING, None, BOOT)
    again.reconcile("a", [Seen(launch_of(task), exit=Exit(launch_of(task), "exited", 4.0, 0))], 5.0)
    again.node_state("a", NodeState.ONLINE)
    again.plan(6.0)
    assert (task.state, other.state) == (TaskState.SUCCEEDED, TaskState.STARTING)


def test_a_gpu_is_not_freed_before_all_that_a_task_started_is_dead() -> None:
    core = core_with(ONE)
    task, other = submit(core, gpus=1), submit(core, gpus=1)
    begun(core, task)
    core.cancel(task.id, 3.0)
    core.plan(4.0)
    assert (task.state, other.state) == (TaskState.RUNNING, TaskState.WAITING), "the kill has only been sent"
    core.exited("a", Exit(launch_of(task), "killed", 5.0), 5.0)
    core.plan(5.0)
    assert (task.state, other.state) == (TaskState.CANCELLED, TaskState.STARTING)
