"""Tasks that compute on a GPU which they were not given: their owner gets a warning, others are kept away,
and the lab may end them."""

from __future__ import annotations

import pytest

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.effects import Kill
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeSpec
from master.core.tasks.task import Task, TaskState
from tests.faults import says
from tests.master.core.small_core import core_with, launch_of, submit
from wire.message import Message, ids

TWO = NodeSpec(name="a", gpu_models=("RTX4090",) * 2, gpu_memory_mib=(24_564,) * 2)


def report(index: int, used: int, *processes: Holder) -> GpuReport:
    return GpuReport(index, memory_total_mib=24_564, memory_used_mib=used, utilization=0.0, processes=processes)


def on(task: Task, mib: int, pid: int = 7) -> Holder:
    return Holder(pid, user="lab", memory_mib=mib, launch_id=launch_of(task))


def runs(core: Core, **wants: object) -> Task:
    task = submit(core, **wants)
    core.plan(0.0)
    core.started("a", launch_of(task), 2.0, 2.0, pid=7)
    return task


def kills(core: Core) -> list[str]:
    outcome = core.take_outcome()
    return [] if outcome is None else [one.launch_id for one in outcome.effects if isinstance(one, Kill)]


@pytest.mark.parametrize("gpus", [0, 1])
def test_its_owner_is_told_until_it_leaves_the_gpu_or_has_ended(gpus: int) -> None:
    core = core_with(TWO)
    task = runs(core, gpus=gpus)
    core.take_outcome()
    core.gpus_seen("a", [report(0, 300), report(1, 9300, on(task, 9000))], 10.0)
    assert says(core.what_looks_wrong(task), "stray_task", node="a", gpus=ids([1]))
    assert core.warned() == [task.id]
    outcome = core.take_outcome()
    assert outcome is not None
    assert [one.id for one in outcome.change.tasks] == [task.id], "whoever follows it is told"
    core.gpus_seen("a", [report(0, 300), report(1, 9400, on(task, 9100))], 12.0)
    assert core.take_outcome() is None, "once"
    core.gpus_seen("a", [report(0, 300), report(1, 300)], 14.0)
    assert (core.warning(task), core.some_may_be_warned()) == (None, False)
    core.gpus_seen("a", [report(0, 300), report(1, 9300, on(task, 9000))], 16.0)
    assert kills(core) == [], "nobody is ended unless the lab says so"
    core.exited("a", Exit(launch_of(task), "exited", 20.0, 0), 20.0)
    assert (task.state, core.warned(), core.some_may_be_warned()) == (TaskState.SUCCEEDED, [], False)


def test_on_a_gpu_that_another_task_shares_nobody_more_is_let_in_and_the_other_is_not_to_blame() -> None:
    core = core_with(TWO)
    shares = runs(core, gpus=1, share=True, gpu_memory_mib=8000, gpu_ids=[0])
    stray = runs(core, gpus=0)
    core.gpus_seen("a", [report(0, 18_300, on(shares, 8000), on(stray, 10_000, 8)), report(1, 300)], 10.0)
    assert core.warned() == [stray.id], "what the stray uses is not the other's"
    beside, elsewhere = (submit(core, gpus=1, share=True, gpu_memory_mib=1000, gpu_ids=[gpu]) for gpu in (0, 1))
    core.plan(10.0)
    assert (beside.state, elsewhere.state) == (TaskState.WAITING, TaskState.STARTING)
    said = f"GPU 0: used by task {stray.id} (pid 8), which was not given it"
    assert said in str(core.reason(beside))
    core.gpus_seen("a", [report(0, 8300, on(shares, 8000)), report(1, 300)], 12.0)
    core.plan(12.0)
    assert beside.state is TaskState.STARTING


@pytest.mark.parametrize("who", ["a task", "a visitor"])
def test_who_uses_a_gpu_without_having_it_is_there_still_when_a_task_on_it_has_ended(who: str) -> None:
    core = core_with(TWO)
    sharing = runs(core, gpus=1, share=True, gpu_memory_mib=8000)
    stray = runs(core, gpus=0)
    there = on(stray, 9000, 8) if who == "a task" else Holder(99, user="bob", memory_mib=9000)
    core.gpus_seen("a", [report(0, 16_300, on(sharing, 7000), there), report(1, 300)], 10.0)
    core.exited("a", Exit(launch_of(sharing), "exited", 11.0, 0), 11.0)
    large = submit(core, gpus=2)
    core.plan(12.0)
    key = core.inventory.nodes["a"].kept_back[0].key
    assert key == ("gpu_strays" if who == "a task" else "gpu_used"), "and not only what the last one has left"
    assert large.state is TaskState.WAITING
    shares = submit(core, gpus=1, gpu_ids=[0], node="a", share=True, gpu_memory_mib=2000)
    core.plan(12.0)
    assert (shares.state is TaskState.WAITING) is (who == "a task"), "of a visitor only the memory is counted"
    core.gpus_seen("a", [report(0, 300), report(1, 300)], 14.0)
    core.plan(14.0)
    assert "starting" in (large.state, shares.state)


def test_what_it_uses_where_it_was_not_given_anything_is_not_learned_of_its_like() -> None:
    core = core_with(TWO)
    task = runs(core, gpus=1, share=True, gpu_memory_mib=8000, gpu_ids=[0])
    core.gpus_seen("a", [report(0, 5300, on(task, 5000)), report(1, 20_300, on(task, 20_000))], 10.0)
    core.exited("a", Exit(launch_of(task), "exited", 20.0, 0), 20.0)
    assert task.gpu_peak_mib == 5000


def test_where_the_lab_says_so_it_is_ended_at_the_second_sample_and_reads_why() -> None:
    core = core_with(TWO)
    core.tuning.set("scheduler.stray_tasks", "end", "ann", 1.0)
    task = runs(core, gpus=1, max_retries=3)
    core.take_outcome()
    stray = [report(0, 300), report(1, 9300, on(task, 9000))]
    core.gpus_seen("a", stray, 10.0)
    assert kills(core) == [], "one sample may have been taken while it was just leaving"
    core.gpus_seen("a", [report(0, 300), report(1, 300)], 12.0)
    core.gpus_seen("a", stray, 14.0)
    assert kills(core) == []
    core.gpus_seen("a", stray, 16.0)
    assert kills(core) == [launch_of(task)]
    core.gpus_seen("a", stray, 18.0)
    assert kills(core) == [], "once"
    core.exited("a", Exit(launch_of(task), "killed", 20.0, 143), 20.0)
    assert task.state is TaskState.FAILED
    assert (task.reason_key, task.reason_args) == (
        "ended_as_stray",
        Message("ended_as_stray", node="a", gpus=ids([1])).plain_args(),
    )


def test_tasks_within_an_allocation_have_what_they_were_given_of_it() -> None:
    core = core_with(TWO)
    core.tuning.set("scheduler.stray_tasks", "end", "ann", 1.0)
    held = submit(core, gpus=2, is_allocation=True, name="exp")
    core.plan(0.0)
    within = runs(core, gpus=1, within=held.id)
    (mine,) = within.allocation[0].gpus
    core.gpus_seen("a", [report(gpu, 900, *([on(within, 600)] if gpu == mine else [])) for gpu in (0, 1)], 10.0)
    assert core.warned() == []
    core.gpus_seen("a", [report(gpu, 900, on(within, 600)) for gpu in (0, 1)], 12.0)
    assert f"GPU {1 - mine}" in str(core.warning(within))


def test_what_is_left_of_an_earlier_attempt_is_no_stray_of_the_next_one() -> None:
    core = core_with(TWO)
    task = runs(core, gpus=1, gpu_ids=[0], max_retries=1)
    old = on(task, 9000)
    core.exited("a", Exit(launch_of(task), "exited", 5.0, 1), 5.0)
    core.plan(100.0)
    core.gpus_seen("a", [report(0, 300), report(1, 9300, old)], 101.0)
    assert core.warned() == []
