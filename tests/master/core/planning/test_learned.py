"""What earlier runs say of the next: by command first, then by ever more; and nothing that failed says anything."""

from __future__ import annotations

import pytest

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeSpec
from master.core.planning.expected import Expected
from master.core.planning.learned import masked
from master.core.tasks.task import Task, TaskState
from tests.calls import calls_of
from tests.master.core.small_core import core_with, launch_of

CARD = NodeSpec(name="a", gpu_models=("GPU",) * 8, gpu_memory_mib=(24_564,) * 8)
TRAIN = ["python", "train.py", "--lr", "0.1"]


def run_for(core: Core, seconds: float, *, code: int = 0, **wants: object) -> Task:
    (task,) = core.submit([Task(id=0, **{"command": TRAIN, **wants})], 0.0)  # type: ignore[arg-type]
    core.plan(0.0)
    core.started("a", launch_of(task), 0.0, 0.0)
    core.exited("a", Exit(launch_of(task), "exited", seconds, code), seconds)
    return task


def like(**wants: object) -> Task:
    return Task(id=0, **{"command": TRAIN, **wants})  # type: ignore[arg-type]


def test_of_the_last_seven_runs_the_median_and_what_four_of_five_did_not_exceed() -> None:
    core = core_with()
    assert core.learned.expected(like()) is None
    for seconds in (1000.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0):
        run_for(core, seconds)
    assert core.learned.expected(like()) == Expected(40.0, 60.0, "command", 7)


def test_numbers_in_a_command_are_masked_and_words_are_not() -> None:
    assert masked(["python", "train.py", "--lr", "0.1"]) == masked(["python", "train.py", "--lr", "1e-4"])
    assert masked("python a.py --seed=3") == masked("python a.py --seed=17")
    assert masked("python resnet50.py") != masked("python resnet101.py")


def test_the_narrowest_kind_that_has_runs_is_asked() -> None:
    core = core_with()
    run_for(core, 10.0, owner="ann", gpus=1)
    for task, source in (
        (like(owner="ann", gpus=1), "command"),
        (like(owner="ann", gpus=1, command="other"), "gpus"),
        (like(owner="ann", gpus=2), "owner"),
        (like(owner="bob"), "all"),
    ):
        expected = core.learned.expected(task)
        assert expected is not None
        assert expected.source == source


def test_a_limit_caps_what_is_expected_and_a_failed_run_says_nothing() -> None:
    core = core_with()
    run_for(core, 5.0, code=1)
    assert core.learned.expected(like()) is None
    run_for(core, 100.0)
    assert core.learned.expected(like(time_limit_s=60.0)) == Expected(60.0, 60.0, "command", 1)
    assert core.learned.at_most(like(command="x", owner="bob", time_limit_s=5.0)) == 5.0


def test_what_was_learned_is_there_after_a_restart() -> None:
    core, again = core_with(), core_with()
    tasks = {task.id: task for task in (run_for(core, 100.0), run_for(core, 300.0), run_for(core, 1.0, code=1))}
    again.load(tasks, {}, 4)
    assert again.learned.expected(like()) == core.learned.expected(like()) == Expected(100.0, 300.0, "command", 2)


@pytest.mark.parametrize("restart", [False, True])
def test_who_would_share_and_says_not_how_much_gets_what_its_like_used_and_so_do_those_that_wait(
    *, restart: bool
) -> None:
    core = core_with(CARD)
    first, second = core.submit([like(gpus=8, share=True), like(gpus=8, share=True)], 0.0)
    core.plan(0.0)
    assert (first.allocation[0].gpu_mib, second.state) == (None, TaskState.WAITING), "nobody knows: it runs alone"
    core.started("a", launch_of(first), 0.0, 0.0)
    ours = Holder(7, memory_mib=4000, launch_id=launch_of(first))
    core.gpus_seen("a", [GpuReport(index, memory_used_mib=4300, processes=(ours,)) for index in range(8)], 1.0)
    core.exited("a", Exit(launch_of(first), "exited", 9.0, 0), 9.0)
    assert (first.gpu_peak_mib, second.learned_gpu_mib) == (4000, 4000)
    if restart:
        tasks = core.tasks
        core = core_with(CARD)
        core.load(tasks, {}, 3)
    (third,) = core.submit([like(gpus=8, share=True)], 10.0)
    core.gpus_seen("a", [GpuReport(index, memory_used_mib=0) for index in range(8)], 10.0)
    core.plan(10.0)
    assert [task.allocation[0].gpu_mib for task in (second, third)] == [4400, 4400]
    core.sanity_check()


def used(core: Core, mib: int) -> Task:
    """One that left its memory open has run, and was seen to use so much of a GPU."""
    (task,) = core.submit([like(gpus=1, share=True)], 0.0)
    core.plan(0.0)
    core.started("a", launch_of(task), 0.0, 0.0)
    ours = Holder(7, memory_mib=mib, launch_id=launch_of(task))
    core.gpus_seen("a", [GpuReport(0, memory_total_mib=24_564, memory_used_mib=mib, processes=(ours,))], 1.0)
    core.exited("a", Exit(launch_of(task), "exited", 9.0, 0), 9.0)
    core.gpus_seen("a", [GpuReport(0, memory_total_mib=24_564, memory_used_mib=0)], 10.0)
    return task


@pytest.mark.parametrize("registered", [24_564, 24_000])
@pytest.mark.parametrize("kept_free", [0.0, 0.1])
def test_a_task_that_was_seen_to_fill_a_gpu_gets_one_again_though_it_might_need_a_little_more(
    registered: int, kept_free: float
) -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",), gpu_memory_mib=(registered,)))
    core.tuning.set("scheduler.keep_gpu_memory", kept_free, "ann", 1.0)
    used(core, 24_100)
    task, other = core.submit([like(gpus=1, share=True), Task(id=0, command="o", gpus=1, share=True)], 11.0)
    small = core.submit([Task(id=0, command="s", gpus=1, share=True, gpu_memory_mib=100)], 11.0)[0]
    core.plan(11.0)
    assert task.state is TaskState.STARTING, core.reason(task)
    assert task.allocation[0].gpu_mib == registered - round(registered * kept_free)
    assert {other.state, small.state} == {TaskState.WAITING}, "and nothing is left of it"


def test_a_restart_takes_nothing_from_those_that_wait_of_what_was_learned_for_them_and_moved_to_the_history() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",), gpu_memory_mib=(24_564,)))
    first = used(core, 4000)
    holder = core.submit([Task(id=0, command="x", gpus=1)], 11.0)[0]
    core.plan(11.0)
    (waits,) = core.submit([like(gpus=1, share=True)], 11.0)
    core.drop_archived([first.id])
    again = core_with(NodeSpec(name="a", gpu_models=("GPU",), gpu_memory_mib=(24_564,)))
    again.load({task.id: task for task in (holder, waits)}, {}, 4)
    assert waits.learned_gpu_mib == 4000
    again.sanity_check()


def test_a_run_changes_what_is_said_of_its_owners_tasks_and_of_those_whose_owner_has_no_runs_and_of_no_others() -> None:
    core = core_with()
    for name, seconds in (("ann", 10.0), ("bob", 20.0)):
        run_for(core, seconds, owner=name)
    at_most = core.learned.at_most
    ann, anns_other, bob, cem = (
        like(owner="ann"), like(owner="ann", command="other"), like(owner="bob"), like(owner="cem"),
    )  # fmt: skip
    assert [at_most(one) for one in (ann, anns_other, bob, cem)] == [10.0, 10.0, 20.0, 20.0]
    known = calls_of(lambda: at_most(bob))
    run_for(core, 40.0, owner="ann")
    assert calls_of(lambda: at_most(bob)) == known, "nothing of bob's is worked out anew"
    assert [at_most(one) for one in (ann, anns_other, bob, cem)] == [40.0, 40.0, 20.0, 40.0]
    run_for(core, 5.0, owner="cem", command="other")
    assert at_most(cem) == 5.0, "they have runs now, and those of others say nothing"


def test_of_the_owners_who_ran_those_are_told_who_ran_since() -> None:
    core = core_with()
    for owner in ("ann", "bob", "cem"):
        run_for(core, 10.0, owner=owner)
    before = core.learned.runs().total
    assert not core.learned.runs().owners_since(before)
    run_for(core, 10.0, owner="ann")
    assert core.learned.runs().owners_since(before) == {"ann"}
    assert core.learned.runs().owners_since(before - 1) == {"ann", "cem"}
