"""Several tasks on one GPU: by memory, by number, beside others' processes, and never more than there is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.effects import Kill
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeSpec
from master.core.tasks.attempt import AskedEnd
from master.core.tasks.task import Task, TaskState
from tests.faults import refusing, said, says
from tests.master.core.small_core import core_with, launch_of, submit
from wire.errors import ImpossibleError
from wire.message import Message, ids, names

RTX = NodeSpec(name="a", gpu_models=("RTX4090",), gpu_memory_mib=(24_564,))
TWO = NodeSpec(name="a", gpu_models=("RTX4090",) * 2, gpu_memory_mib=(24_564,) * 2)
MIXED = NodeSpec(name="a", gpu_models=("RTX3090", "A100-SXM4-80GB"), gpu_memory_mib=(24_576, 81_920))


def share(core: Core, mib: int | None = 8000, **wants: object) -> Task:
    return submit(core, gpus=1, share=True, gpu_memory_mib=mib, **wants)


def started(tasks: list[Task]) -> list[int]:
    return [task.id for task in tasks if task.state is TaskState.STARTING]


def place(task: Task) -> tuple[str, list[int]]:
    return task.allocation[0].node, task.allocation[0].gpus


def sample(core: Core, *reports: GpuReport, at: float = 10.0) -> None:
    core.gpus_seen("a", list(reports), at)


def end(core: Core, task: Task, at: float = 20.0) -> None:
    core.exited(task.allocation[0].node, Exit(launch_of(task), "exited", at, 0), at)


def report(used: int, *processes: Holder, index: int = 0, utilization: float | None = 0.0) -> GpuReport:
    return GpuReport(index, memory_total_mib=24_564, memory_used_mib=used, utilization=utilization, processes=processes)


def test_six_tasks_that_ask_8000_mib_of_a_card_of_24564_three_run() -> None:
    core = core_with(RTX)
    tasks = [share(core) for _ in range(6)]
    core.plan(0.0)
    assert started(tasks) == [1, 2, 3]
    assert [part.gpu_mib for task in tasks[:3] for part in task.allocation] == [8000] * 3
    assert str(core.reason(tasks[3])).startswith(
        "needs 8000 MiB of 1 GPU: a: 0 of 1 GPUs fit (tasks 1-3; GPU 0: 564 MiB left)"
    )
    core.plan(0.0)
    assert started(tasks) == [1, 2, 3], "and no more slip in before a sample shows what they use"
    end(core, tasks[0])
    core.plan(0.0)
    assert started(tasks) == [2, 3, 4]


def test_of_how_many_gpus_none_fits_is_what_the_node_has_as_with_whole_ones() -> None:
    core = core_with(TWO)
    for _ in range(6):
        share(core)
    late, only = share(core), share(core, gpu_ids=[1])
    core.plan(0.0)
    assert "a: 0 of 2 GPUs fit (tasks 1-6; " in str(core.reason(late))
    assert "a: 0 of 1 GPUs fit (tasks " in str(core.reason(only)), "only the one that it names is looked at"


def test_what_a_task_uses_beyond_what_it_asked_for_is_counted_and_ends_nobody() -> None:
    core = core_with(RTX)
    first, second = share(core, 2000), share(core, 8000)
    core.plan(0.0)
    ours = Holder(7, memory_mib=15_000, launch_id=launch_of(first))
    sample(core, report(15_300, ours))
    third = share(core, 8000)
    core.plan(0.0)
    assert started([first, second, third]) == [1, 2]
    sample(core, report(3000, Holder(7, memory_mib=2000, launch_id=launch_of(first))), at=12.0)
    core.plan(0.0)
    assert third.state is TaskState.WAITING, "it has given the memory back, but may take it again: it is young"
    sample(core, report(3000, Holder(7, memory_mib=2000, launch_id=launch_of(first))), at=71.0)
    core.plan(0.0)
    assert third.state is TaskState.STARTING, "it has given the memory back"


def test_what_a_task_was_seen_to_use_in_its_first_minute_counts_for_all_of_that_minute() -> None:
    core = core_with(RTX)
    first = share(core, 8000)
    core.plan(0.0)
    uses = {"launch_id": launch_of(first)}
    sample(core, report(8340, Holder(7, memory_mib=8040, **uses)), at=10.0)
    sample(core, report(2300, Holder(7, memory_mib=2000, **uses)), at=12.0)
    second = share(core, 16_540)
    core.plan(12.0)
    assert (second.state, "16524 MiB left" in str(core.reason(second))) == (TaskState.WAITING, True)
    sample(core, report(2300, Holder(7, memory_mib=2000, **uses)), at=69.9)
    core.plan(69.9)
    assert second.state is TaskState.WAITING
    sample(core, report(2300, Holder(7, memory_mib=2000, **uses)), at=70.0)
    core.plan(70.0)
    assert second.state is TaskState.STARTING


def test_a_clock_that_is_put_back_makes_a_task_young_for_a_minute_and_no_longer() -> None:
    core = core_with(RTX)
    first = share(core, 8000)
    core.plan(0.0)
    uses = {"launch_id": launch_of(first)}
    sample(core, report(12_300, Holder(7, memory_mib=12_000, **uses)), at=90_000.0)
    for at in (10.0, 70.0):  # the day before
        sample(core, report(2300, Holder(7, memory_mib=2000, **uses)), at=at)
    beside, idle = share(core, 8000), share(core, 2000, min_free_util=50)
    core.plan(70.0)
    assert started([beside]) == [beside.id]
    core.cancel(beside.id, 70.0)
    end(core, beside, 70.0)
    core.plan(70.0)
    assert started([idle]) == [idle.id], "how much of its time is used is known again, too"


def test_a_card_on_which_a_task_uses_more_than_its_share_gets_nobody_more_until_that_is_over() -> None:
    core = core_with(TWO)
    first, beside = share(core, 2000, gpu_ids=[0]), share(core, 2000, gpu_ids=[0])
    core.plan(0.0)
    mine = Holder(7, memory_mib=3000, launch_id=launch_of(first))
    sample(core, report(3300, mine), report(300, index=1), at=10.0)
    late, elsewhere = share(core, 2000, gpu_ids=[0]), share(core, 2000)
    core.plan(10.0)
    assert [one.state for one in (late, elsewhere)] == [TaskState.WAITING, TaskState.STARTING]
    assert elsewhere.allocation[0].gpus == [1], "though less is left over on the other"
    assert says(core.why_it_waits(late), "card_outgrown")
    assert says(core.why_it_waits(late), "held_by", tasks=ids([first.id, beside.id]))
    fits = Holder(7, memory_mib=2000, launch_id=launch_of(first))
    sample(core, report(2300, fits), report(300, index=1), at=70.0)
    core.plan(70.0)
    assert late.state is TaskState.STARTING


def test_a_card_is_open_again_once_the_task_that_used_more_than_its_share_has_ended() -> None:
    core = core_with(RTX)
    first, late = share(core, 2000), share(core, 23_000)
    core.plan(0.0)
    sample(core, report(3300, Holder(7, memory_mib=3000, launch_id=launch_of(first))), at=10.0)
    core.force(late.id)
    core.plan(10.0)
    assert [one.task for one in core.reservations] == [late.id], "the card is kept for it, though it is closed now"
    end(core, first)
    sample(core, report(300), at=22.0)
    core.plan(22.0)
    assert late.state is TaskState.STARTING


def test_who_outgrows_his_share_is_told_so_until_he_gives_it_back_or_has_ended() -> None:
    core = core_with(RTX)
    first, second = share(core, 2000), share(core, 8000)
    core.plan(0.0)
    for task in (first, second):
        core.started("a", launch_of(task), 9.0, 9.0, pid=task.id)
    mine = Holder(1, memory_mib=15_000, launch_id=launch_of(first))
    beside = Holder(2, memory_mib=8050, launch_id=launch_of(second))
    sample(core, report(23_300, mine, beside))
    assert core.what_looks_wrong(first) == Message("share_outgrown", node="a", gpu=0, used=15_000, share=2000)
    assert core.warned() == [first.id], "a context of the driver's is nothing to tell of"
    core.take_outcome()
    sample(core, report(23_400, Holder(1, memory_mib=15_100, launch_id=launch_of(first)), beside), at=12.0)
    assert core.take_outcome() is None, "it is written down once"
    sample(core, report(10_300, Holder(1, memory_mib=2000, launch_id=launch_of(first)), beside), at=14.0)
    assert core.warned() == []
    sample(core, report(23_300, mine, beside), at=16.0)
    end(core, first)
    assert (core.warned(), core.some_may_be_warned()) == ([], False)


def of_two_that_share(mib: int | None = 2000, **wants: object) -> tuple[Core, Task, Callable[..., None]]:
    """A lab that ends who outgrows his share for a minute; the task, which runs; and what lets a sample show how much
    it uses."""
    core = core_with(RTX)
    core.tuning.set("scheduler.end_outgrown_after_s", 60.0, "ann", 1.0)
    first, second = share(core, mib, **wants), share(core, 8000)
    core.plan(0.0)
    for task in (first, second):
        core.started("a", launch_of(task), 9.0, 9.0, pid=task.id)
    core.take_outcome()

    def uses(used: int, at: float) -> None:
        sample(core, report(used + 300, Holder(1, memory_mib=used, launch_id=launch_of(first))), at=at)

    return core, first, uses


def kills(core: Core) -> list[str]:
    outcome = core.take_outcome()
    return [] if outcome is None else [one.launch_id for one in outcome.effects if isinstance(one, Kill)]


def killed(core: Core, task: Task, cause: str = "killed", code: int | None = None) -> None:
    core.exited("a", Exit(launch_of(task), cause, 90.0, code), 90.0)


def test_who_outgrows_his_share_for_as_long_as_the_lab_bears_is_ended_once_and_reads_why() -> None:
    core, task, uses = of_two_that_share(max_retries=3)
    uses(15_000, 10.0)
    so_far = Message("share_outgrown_so_far", node="a", gpu=0, used=15_000, share=2000, after=60.0)
    assert core.what_looks_wrong(task) == so_far
    uses(15_100, 69.0)
    assert kills(core) == []
    uses(15_200, 70.0)
    assert kills(core) == [launch_of(task)]
    uses(15_300, 72.0)
    assert kills(core) == [], "it is told once"
    killed(core, task)
    assert task.state is TaskState.FAILED, "and is not tried again: it would do the same"
    assert (task.reason_key, task.asked_end) == ("ended_for_share", AskedEnd("limit"))
    assert task.reason_args == {"node": "a", "gpu": 0, "used": 15_200, "share": 2000}
    assert core.warned() == []
    core.sanity_check()


def test_a_peak_that_is_over_ends_nobody_and_what_comes_after_it_counts_anew() -> None:
    core, task, uses = of_two_that_share()
    uses(15_000, 10.0)
    uses(2000, 60.0)
    uses(15_000, 65.0)
    uses(15_000, 124.0)
    assert kills(core) == []
    uses(15_000, 125.0)
    assert kills(core) == [launch_of(task)]


def test_who_never_said_how_much_he_needs_is_told_and_not_ended() -> None:
    core = core_with(RTX)
    core.tuning.set("scheduler.end_outgrown_after_s", 60.0, "ann", 1.0)
    before = share(core, None)
    core.plan(0.0)
    core.started("a", launch_of(before), 4.0, 4.0, pid=1)
    sample(core, report(2300, Holder(1, memory_mib=2000, launch_id=launch_of(before))), at=5.0)
    end(core, before, at=6.0)
    sample(core, report(300), at=7.0)
    task = share(core, None)
    core.plan(8.0)
    assert task.allocation[0].gpu_mib == 2200, "as its like used, and a tenth more"
    core.started("a", launch_of(task), 9.0, 9.0, pid=1)
    for at in (10.0, 100.0):
        sample(core, report(15_300, Holder(1, memory_mib=15_000, launch_id=launch_of(task))), at=at)
    assert kills(core) == []
    assert says(core.what_looks_wrong(task), "share_outgrown")


def test_the_setting_holds_for_what_runs_and_none_ends_nobody() -> None:
    core, task, uses = of_two_that_share()
    core.tuning.set("scheduler.end_outgrown_after_s", 0.0, "ann", 1.0)
    uses(15_000, 10.0)
    uses(15_000, 1000.0)
    assert kills(core) == []
    assert says(core.what_looks_wrong(task), "share_outgrown")
    core.tuning.set("scheduler.end_outgrown_after_s", 3600.0, "ann", 1.0)
    uses(15_000, 1002.0)
    assert says(core.what_looks_wrong(task), "share_outgrown_so_far", after=3600.0)
    assert kills(core) == []
    core.tuning.set("scheduler.end_outgrown_after_s", 60.0, "ann", 1.0)
    uses(15_000, 1004.0)
    assert kills(core) == [launch_of(task)], "it has been so for long"


@pytest.mark.parametrize("wants", [{"share": True, "gpu_memory_mib": 1000}, {}])
def test_room_is_kept_for_who_asks_for_unused_time_until_those_who_use_it_have_ended(wants: dict[str, object]) -> None:
    core = core_with(RTX)
    sample(core, report(300))
    holder = submit(core, gpus=1, time_limit_s=3600.0, **wants)
    core.plan(0.0)
    core.started("a", launch_of(holder), 1.0, 1.0, pid=7)
    ours = Holder(7, memory_mib=900, launch_id=launch_of(holder))
    for step in range(40):
        sample(core, report(1200, ours, utilization=90.0), at=14.0 + 2 * step)
    gated = submit(core, gpus=1, min_free_util=60.0, urgent=True, **wants)
    core.plan(100.0)
    assert core.holds["a"].holders == (holder.id,)
    (way, *_) = core.would_start(gated, core.wait(gated), 100.0, lambda _: True)
    assert says(way, "would_end_by", tasks=ids([holder.id]))
    end(core, holder, at=101.0)
    later = submit(core, gpus=1)
    for at, still in ((101.0, None), (102.0, report(1200, utilization=90.0)), (104.0, report(300, utilization=90.0))):
        if still is not None:
            sample(core, still, at=at)
        core.plan(at)
        assert gated.state is TaskState.STARTING or [one.task for one in core.reservations] == [gated.id]
    assert started([gated, later]) == [gated.id]


def test_who_asks_for_unused_time_does_not_get_a_gpu_that_others_use_when_its_last_task_ends() -> None:
    core = core_with(RTX)
    sample(core, report(300))
    holder = share(core, 1000, time_limit_s=3600.0)
    core.plan(0.0)
    core.started("a", launch_of(holder), 1.0, 1.0, pid=7)
    ours, others = Holder(7, memory_mib=900, launch_id=launch_of(holder)), Holder(99, "eve", 500)
    for step in range(40):
        sample(core, report(1700, ours, others, utilization=90.0), at=14.0 + 2 * step)
    gated = share(core, 1000, min_free_util=60.0, urgent=True)
    core.plan(100.0)
    end(core, holder, at=101.0)
    for at in (102.0, 104.0):
        sample(core, report(800, others, utilization=90.0), at=at)
        core.plan(at)
        assert gated.state is TaskState.WAITING
    for at in (106.0, 108.0, 110.0):
        sample(core, report(800, others, utilization=5.0), at=at)
    core.plan(110.0)
    assert gated.state is TaskState.STARTING


@pytest.mark.parametrize(
    ("cause", "code", "state", "reason"),
    [
        ("exited", 0, TaskState.SUCCEEDED, None),
        ("exited", 3, TaskState.FAILED, "exit_code"),
        ("timed_out", 143, TaskState.TIMED_OUT, "time_limit"),
    ],
)
def test_what_ended_by_itself_before_it_was_ended_for_its_share_counts_as_what_it_is(
    cause: str, code: int, state: TaskState, reason: str | None
) -> None:
    core, task, uses = of_two_that_share()
    uses(15_000, 10.0)
    uses(15_000, 70.0)
    assert kills(core) == [launch_of(task)]
    killed(core, task, cause, code)
    assert (task.state, task.reason_key) == (state, reason)


def test_who_cancels_what_is_ended_for_its_share_has_cancelled_it() -> None:
    core, task, uses = of_two_that_share()
    uses(15_000, 10.0)
    uses(15_000, 70.0)
    core.cancel(task.id, 71.0, by="ann")
    killed(core, task)
    assert (task.state, task.reason, task.asked_end) == (TaskState.CANCELLED, None, AskedEnd("cancel", "ann"))


def test_of_a_gang_all_parts_end_when_one_outgrows_its_share() -> None:
    core = core_with(RTX, NodeSpec(name="b", gpu_models=("RTX4090",), gpu_memory_mib=(24_564,)))
    core.tuning.set("scheduler.end_outgrown_after_s", 60.0, "ann", 1.0)
    task = share(core, 2000, nodes=2)
    core.plan(0.0)
    first, second = (part.launch_id for part in task.allocation)
    for name, launch in (("a", first), ("b", second)):
        core.started(name, launch, 9.0, 9.0, pid=1)
    for at in (10.0, 70.0):
        sample(core, report(15_300, Holder(1, memory_mib=15_000, launch_id=first)), at=at)
    assert sorted(kills(core)) == sorted([first, second])
    for name, launch in (("b", second), ("a", first)):
        core.exited(name, Exit(launch, "killed", 90.0), 90.0)
    assert task.state is TaskState.FAILED
    assert "it used 15000 MiB of GPU 0 of a, had asked for 2000" in str(task.reason)


def test_a_whole_gpu_is_never_outgrown() -> None:
    core = core_with(RTX)
    task = submit(core, gpus=1, gpu_memory_mib=2000)
    core.plan(0.0)
    core.started("a", launch_of(task), 9.0, 9.0, pid=1)
    sample(core, report(20_300, Holder(1, memory_mib=20_000, launch_id=launch_of(task))))
    assert core.warning(task) is None


def test_a_foreign_process_takes_memory_from_those_that_share_and_the_whole_gpu_from_others() -> None:
    core = core_with(RTX)
    alone = submit(core, gpus=1)
    shared = [share(core) for _ in range(3)]
    sample(core, report(9000, Holder(99, "bob", 8700)))
    core.plan(0.0)
    assert started([alone, *shared]) == [2]
    end(core, shared[0])
    core.plan(0.0)
    assert started([alone, *shared]) == [3], "still nobody has it to himself"
    sample(core, report(300), at=12.0)
    core.plan(0.0)
    assert started([alone, *shared]) == [3, 4]


def test_memory_that_no_process_owns_up_to_is_not_given_out() -> None:
    core = core_with(RTX)
    task = share(core, 8000)
    sample(core, report(20_000))
    core.plan(0.0)
    assert started([task]) == []


def test_what_is_still_in_use_of_a_task_that_ended_is_not_given_to_the_next_ones() -> None:
    core = core_with(RTX)
    first, second, third = share(core, 20_000), share(core, 10_000), share(core, 10_000)
    core.plan(0.0)
    sample(core, report(20_300, Holder(7, memory_mib=19_800, launch_id=launch_of(first))))
    end(core, first)
    core.plan(0.0)
    assert started([second, third]) == [], "the last sample shows its memory in use"
    sample(core, report(8000), at=21.0)
    core.plan(0.0)
    assert started([second, third]) == [2], "what nobody owns up to comes on top of what the second will use"
    sample(core, report(300), at=23.0)
    core.plan(0.0)
    assert started([second, third]) == [2, 3]


def test_a_driver_that_tells_of_no_process_shows_what_was_asked_for() -> None:
    core = core_with(RTX)
    tasks = [share(core, 8000), share(core, 8000)]
    core.plan(0.0)
    for at in (10.0, 12.0):
        sample(core, report(15_900), at=at)
    more = share(core, 8000)
    core.plan(0.0)
    assert started([*tasks, more]) == [1, 2, 3]


def test_a_gpu_with_shares_is_not_given_out_whole_and_one_that_is_held_whole_not_in_shares() -> None:
    core = core_with(TWO)
    first, whole, second, other = share(core), submit(core, gpus=1), share(core), submit(core, gpus=1)
    core.plan(0.0)
    assert started([first, whole, second, other]) == [1, 2, 3]
    assert first.allocation[0].gpus == second.allocation[0].gpus != whole.allocation[0].gpus


def test_shares_go_where_the_least_is_left_over_so_that_whole_gpus_stay_free() -> None:
    core = core_with(RTX, NodeSpec(name="b", gpu_models=("RTX4090",), gpu_memory_mib=(24_564,)))
    tasks = [share(core) for _ in range(3)]
    core.plan(0.0)
    assert len({task.allocation[0].node for task in tasks}) == 1
    whole = submit(core, gpus=1)
    core.plan(0.0)
    assert whole.state is TaskState.STARTING


@pytest.mark.parametrize(
    "nodes", [(TWO,), (RTX, NodeSpec(name="b", gpu_models=("RTX4090",), gpu_memory_mib=(24_564,)))], ids=["one", "two"]
)
def test_an_empty_gpu_is_no_tighter_while_the_memory_of_its_last_task_is_in_use(nodes: tuple[NodeSpec, ...]) -> None:
    core = core_with(*nodes)
    used = [15_000, 7700]

    def look(at: float) -> None:
        of = iter(used)
        for node in nodes:
            core.gpus_seen(node.name, [report(next(of), index=gpu) for gpu in range(len(node.gpu_models))], at)

    last, shared = share(core, mib=20_000), share(core)
    core.plan(0.0)
    look(10.0)
    look(12.0)
    before = place(last)
    end(core, last)
    third, fourth = share(core), share(core, mib=17_000)
    core.plan(20.0)
    assert place(third) == place(shared), "it is not alone"
    used[0] = 0
    look(30.0)
    core.plan(30.0)
    assert place(fourth) == before


def test_a_task_that_would_share_and_of_which_nothing_is_known_runs_alone() -> None:
    core = core_with(RTX)
    first, second = share(core, None), share(core, 1000)
    core.plan(0.0)
    assert started([first, second]) == [1]
    assert first.allocation[0].gpu_mib is None


def test_margins_and_the_number_of_tasks_a_gpu_are_the_labs_to_say_and_hold_from_then_on() -> None:
    core = core_with(RTX)
    core.tuning.set("scheduler.keep_gpu_memory", 0.1, "ann", 1.0)
    tasks = [share(core) for _ in range(3)]
    core.plan(0.0)
    assert started(tasks) == [1, 2], "a tenth of 24,564 MiB is kept free"
    core.tuning.forget("scheduler.keep_gpu_memory")
    core.tuning.set("scheduler.max_tasks_per_gpu", 3, "ann", 1.0)
    more = [share(core, 100) for _ in range(3)]
    core.plan(0.0)
    assert (started(tasks), started(more)) == ([1, 2, 3], [])
    assert says(core.why_it_waits(more[1]), "card_tasks", tasks=3, most=3)


def test_a_gate_of_utilisation_opens_when_the_gpu_is_idle_enough_and_no_task_on_it_is_new() -> None:
    core = core_with(RTX)
    first, gated = share(core, 1000), share(core, 1000, min_free_util=60.0)
    core.plan(0.0)
    assert started([first, gated]) == [1, 2], "nothing is known of a node that tells nothing"
    core = core_with(RTX)
    sample(core, report(300, utilization=0.0))
    first = share(core, 1000)
    core.plan(0.0)
    gated = share(core, 1000, min_free_util=60.0)
    ours = Holder(7, memory_mib=900, launch_id=launch_of(first))
    sample(core, report(1200, ours), at=12.0)
    core.plan(0.0)
    assert started([first, gated]) == [1], "for a minute nobody knows how much of it the first will use"
    for step in range(40):
        sample(core, report(1200, ours, utilization=90.0), at=14.0 + 2 * step)
    core.plan(0.0)
    assert started([first, gated]) == [1]
    assert says(core.why_it_waits(gated), "card_busy")
    assert "60 % unused" in str(core.why_it_waits(gated))
    for step in range(10):
        sample(core, report(1200, ours, utilization=10.0), at=100.0 + 2 * step)
    core.plan(0.0)
    assert started([first, gated]) == [1, 2]


@pytest.mark.parametrize(
    ("wanted", "gpus"),
    [("A100", [1]), ("3090", [0]), ("rtx 3090", [0]), ("A10", None), ("3090 Ti", None), ("NVIDIA A100", None)],
)
def test_only_gpus_of_the_models_asked_for_are_given(wanted: str, gpus: list[int] | None) -> None:
    core = core_with(MIXED)
    if gpus is None:
        with pytest.raises(ImpossibleError, match="but node a has only RTX3090, A100-SXM4-80GB"):
            submit(core, gpus=1, gpu_models=[wanted])
        return
    task = submit(core, gpus=1, gpu_models=[wanted])
    core.plan(0.0)
    assert task.allocation[0].gpus == gpus


def test_memory_beyond_the_card_is_refused_at_once_with_the_reason() -> None:
    core = core_with(MIXED)
    with refusing(ImpossibleError, "gpus_too_small", nodes=names(["a"]), most=81_920):
        share(core, 90_000)
    with pytest.raises(ImpossibleError, match="node a has 1 GPU with 40000 MiB"):
        submit(core, gpus=2, gpu_memory_mib=40_000)
    task = submit(core, gpus=1, gpu_memory_mib=40_000)
    core.plan(0.0)
    assert task.allocation[0].gpus == [1]


def test_of_whole_gpus_with_so_much_memory_the_smallest_that_do_are_taken() -> None:
    core = core_with(MIXED)
    task = submit(core, gpus=1, gpu_memory_mib=20_000)
    core.plan(0.0)
    assert task.allocation[0].gpus == [0]


def test_a_range_takes_as_many_gpus_as_are_free_at_the_start() -> None:
    core = core_with()
    first, second, third = (submit(core, gpus=1, gpus_max=6) for _ in range(3))
    core.plan(0.0)
    assert [len(task.allocation[0].gpus) for task in (first, second)] == [6, 2]
    assert "1 to 6 GPUs" in str(core.reason(third))


def test_a_range_goes_where_most_of_it_is_free_and_not_where_it_only_just_fits() -> None:
    core = core_with(
        NodeSpec(name="a", gpu_models=("GPU",) * 2),
        NodeSpec(name="b", gpu_models=("GPU",) * 8),
        NodeSpec(name="c", gpu_models=("GPU",) * 4),
    )
    ranged, single = submit(core, gpus=1, gpus_max=4), submit(core, gpus=1)
    core.plan(0.0)
    assert [(part.node, len(part.gpus)) for task in (ranged, single) for part in task.allocation] == [
        ("c", 4),
        ("a", 1),
    ]


def test_memory_of_the_node_is_counted_and_excluded_nodes_are_left_out() -> None:
    core = core_with(NodeSpec(name="a"), NodeSpec(name="b"))  # each has 1000 MiB
    first, second = (submit(core, memory_mib=600, exclude=["b"]) for _ in range(2))
    core.plan(0.0)
    assert started([first, second]) == [1]
    assert says(core.why_it_waits(second), "memory_free", free=400, has=1000)
    with refusing(ImpossibleError, "is_excluded", nodes=names(["a"])):
        submit(core, node="a", exclude=["a"])


def test_licences_are_counted_over_all_nodes() -> None:
    core = core_with(NodeSpec(name="a"), NodeSpec(name="b"), licences={"matlab": 2})
    tasks = [submit(core, licences={"matlab": 1}) for _ in range(3)]
    core.plan(0.0)
    assert started(tasks) == [1, 2]
    assert "the cluster: 0 of 2 matlab licences free" in str(core.reason(tasks[2]))
    end(core, tasks[0])
    core.plan(0.0)
    assert started(tasks) == [2, 3]
    with pytest.raises(ImpossibleError, match="the cluster has 0 ansys licences"):
        submit(core, licences={"ansys": 1})


WANTS = st.one_of(
    st.fixed_dictionaries({"gpus": st.integers(1, 2)}),
    st.fixed_dictionaries(
        {"gpus": st.integers(1, 2), "share": st.sampled_from([True]), "gpu_memory_mib": st.integers(500, 24_000)}
    ),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["submit", "end", "sample"]), WANTS, st.integers(0, 5), st.integers(0, 24_000)),
    max_size=30,
)


@given(STEPS)
def test_never_more_memory_is_given_out_than_there_is_and_nothing_that_fits_waits(
    steps: list[tuple[str, dict[str, object], int, int]],
) -> None:
    core = core_with(TWO)
    tasks: list[Task] = []
    for at, (what, wants, which, used) in enumerate(steps, 10):
        alive = [task for task in tasks if task.state is TaskState.STARTING]
        if what == "submit":
            tasks.append(submit(core, **wants))
        elif what == "sample":
            sample(core, report(used), report(0, index=1), at=float(at))
        elif which < len(alive):
            end(core, alive[which], float(at))
        core.plan(0.0)
        node = core.inventory.nodes["a"]
        for gpu, holders in node.gpu_holders.items():
            assert sum(mib if mib is not None else 24_564 for mib in holders.values()) <= 24_564, gpu
            assert len(holders) == 1 or None not in holders.values()
        for task in tasks:
            if task.state is TaskState.WAITING:
                assert "next" not in str(core.reason(task))


def test_a_sample_that_tells_for_the_first_time_what_a_gpu_is_starts_who_waits_for_such_a_one() -> None:
    for wants in ({"gpu_memory_mib": 20_000}, {"gpu_models": ["4090"]}):
        core = core_with(NodeSpec(name="a", gpu_models=("GPU",)), NodeSpec(name="b", gpu_models=("RTX4090",)))
        submit(core, gpus=1, node="b")
        task = submit(core, gpus=1, **wants)
        core.plan(0.0)
        assert task.state is TaskState.WAITING
        told = GpuReport(0, model="NVIDIA GeForce RTX 4090", memory_total_mib=24_564, memory_used_mib=0)
        sample(core, told)
        assert core.plan_needed
        core.plan(0.0)
        assert task.state is TaskState.STARTING


def test_when_samples_tell_of_a_gpu_again_who_asks_for_its_memory_starts() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("RTX4090",)))
    first = share(core)
    sample(core, report(0))
    core.plan(11.0)
    assert started([first]) == [1]
    end(core, first)
    core.gpus_unseen("a")
    later = share(core)
    core.plan(21.0)
    assert started([later]) == []
    sample(core, report(0), at=30.0)
    assert core.plan_needed
    core.plan(31.0)
    assert started([later]) == [2]


def beyond(core: Core, **wants: object) -> tuple[Message, ...]:
    """What of it the nodes that come closest do not have."""
    with pytest.raises(ImpossibleError) as found:
        submit(core, **wants)
    why = said(found.value)
    assert why.key == "asks_beyond"
    lacks = why.args["beyond"]
    assert isinstance(lacks, tuple)
    return tuple(one for one in lacks if isinstance(one, Message))


def test_a_refusal_names_the_models_that_there_are() -> None:
    kinds = (("RTX3090",) * 2, ("RTX3090", "A100"), ("RTX3090",) * 2)
    core = core_with(*(NodeSpec(name=f"n{number}", gpu_models=kind) for number, kind in enumerate(kinds)))
    assert beyond(core, gpus=1, gpu_models=["H100", "A10O"]) == (
        Message("has_only_models", there=("RTX3090",), nodes=names(["n0", "n2"])),
        Message("has_only_models", there=("RTX3090", "A100"), nodes=names(["n1"])),
    )
    [*_, last] = beyond(core, gpus=2, gpu_models=["A100"])
    assert last == Message("has_of_model", count=1, models=("A100",), nodes=names(["n1"]))
    none = Message("has_of_model", count=0, models=("A100",), nodes=names(["n1"]))
    assert none in beyond(core, node="n1", gpus=1, gpu_ids=[0], gpu_models=["A100"])


def test_a_refusal_names_what_comes_closest_however_many_kinds_of_nodes_there_are() -> None:
    core = core_with(*(NodeSpec(name=f"n{count}", gpu_models=("A100",) * count) for count in (1, 2, 3, 4, 8, 5)))
    closest = [one.args["nodes"] for one in beyond(core, gpus=9)]
    assert closest[:2] == [names(["n8"]), names(["n5"])]
    small = tuple(
        NodeSpec(name=f"m{gib}", gpu_models=("A100",), gpu_memory_mib=(gib * 1000,)) for gib in (8, 11, 24, 12, 80, 48)
    )
    lacks = beyond(core_with(*small), gpus=1, gpu_memory_mib=90_000)
    assert lacks[0] == Message("gpus_too_small", most=80_000, nodes=names(["m80"]))
    assert (lacks[1].key, lacks[1].args["nodes"]) == ("gpus_too_small", names(["m48"]))
