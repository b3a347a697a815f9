"""A large task starts: room is kept for it, what passes it ends before, and no later task starves it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.effects import WakeAt
from master.core.nodes.gpu_watch import GpuReport
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.nodes.node import Restriction
from master.core.people.quota import Quota
from master.core.planning.reservations import Reservation
from master.core.planning.scheduler import LOOKS
from master.core.tasks.attempt import Allocation, Place
from master.core.tasks.records import Change, merge_pieces
from master.core.tasks.task import Task, TaskState
from master.executors.memory import Run
from master.executors.simulation import Job, Simulation
from tests.faults import says
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from wire.message import Message, ids

FOUR = NodeSpec(name="a", gpu_models=("GPU",) * 4)
HOUR = 3600.0
PATIENCE = 6 * HOUR


def begin(core: Core, task: Task, at: float) -> None:
    core.started(task.allocation[0].node, launch_of(task), at, at)


def end(core: Core, task: Task, at: float, code: int = 0) -> None:
    core.exited(task.allocation[0].node, Exit(launch_of(task), "exited", at, code), at)


def busy(core: Core, count: int, **wants: object) -> list[Task]:
    """So many tasks of one GPU each, running since 1.0."""
    tasks = core.submit([Task(id=0, gpus=1, **{"command": "true", **wants}) for _ in range(count)], 1.0)  # type: ignore[arg-type]
    core.plan(1.0)
    for task in tasks:
        begin(core, task, 1.0)
    return tasks


def state(*tasks: Task) -> list[str]:
    return [str(task.state) for task in tasks]


def test_a_forced_task_of_four_gpus_starts_before_the_one_gpu_tasks_that_came_later() -> None:
    core = core_with(FOUR)
    running = busy(core, 4)
    large, *small = submit(core, gpus=4), *(submit(core, gpus=1) for _ in range(10))
    core.force(large.id)
    core.plan(2.0)
    for at, task in enumerate(running, 3):
        assert state(large, *small) == ["waiting"] * 11
        end(core, task, float(at))
        core.plan(float(at))
    assert state(large, *small) == ["starting", *["waiting"] * 10]


def test_an_urgent_task_of_four_gpus_starts_before_the_sixteen_one_gpu_tasks_that_came_later() -> None:
    core = core_with(FOUR)
    running = busy(core, 4)
    large, *small = submit(core, gpus=4, urgent=True), *(submit(core, gpus=1) for _ in range(16))
    core.plan(2.0)
    assert [one.task for one in core.reservations] == [large.id]
    for at, task in enumerate(running, 3):
        assert state(large, *small) == ["waiting"] * 17
        end(core, task, float(at))
        core.plan(float(at))
    assert state(large, *small) == ["starting", *["waiting"] * 16]


def test_an_urgent_task_may_be_passed_by_what_ends_before_and_gives_way_to_a_forced_one() -> None:
    core = core_with(FOUR)
    core.tuning.set("scheduler.reservations", 1, "ann", 0.0)
    busy(core, 3, time_limit_s=HOUR)
    urgent, short, long = (
        submit(core, gpus=4, urgent=True), submit(core, gpus=1, time_limit_s=60.0), submit(core, gpus=1)
    )  # fmt: skip
    core.plan(2.0)
    assert state(urgent, short, long) == ["waiting", "starting", "waiting"]
    forced = submit(core, gpus=4)
    core.force(forced.id)
    core.plan(3.0)
    assert [one.task for one in core.reservations] == [forced.id]
    core.cancel(forced.id, 4.0)
    core.plan(4.0)
    assert [one.task for one in core.reservations] == [urgent.id]
    core.edit(msgspec.structs.replace(urgent, urgent=False))
    core.plan(5.0)
    assert core.reservations == (), "it is not urgent any more, and has not waited for long"


def test_without_being_forced_it_gets_a_reservation_after_it_has_waited_for_long_and_the_planner_wakes_for_that() -> (
    None
):
    core = core_with(FOUR)
    running = busy(core, 4)
    large = submit(core, gpus=4)
    core.take_outcome()
    core.plan(2.0)
    assert [effect.at for effect in core.take_outcome().effects] == [1.0 + PATIENCE]  # type: ignore[union-attr]
    end(core, running[0], 10.0, code=1)  # nothing is learned of it
    passing = submit(core, gpus=1)
    core.plan(10.0)
    assert state(large, passing) == ["waiting", "starting"]
    core.woken()
    core.plan(1.0 + PATIENCE)
    assert core.reservations == (Reservation(large.id, [Place("a", [0, 1, 2, 3])], 1.0 + PATIENCE),)
    end(core, running[1], 2.0 + PATIENCE, code=1)
    late = submit(core, gpus=1)
    core.plan(2.0 + PATIENCE)
    assert state(large, late) == ["waiting", "waiting"]
    assert says(core.why_it_waits(large), "kept_for_it", node="a", gpus=ids(range(4)))
    assert says(core.why_it_waits(late), "kept_for_another", node="a", gpus=ids(range(4)), task=large.id)


def test_a_task_that_ends_before_by_its_limit_passes_and_one_that_may_not_does_not() -> None:
    core = core_with(FOUR)
    running = busy(core, 3, time_limit_s=HOUR)
    large = submit(core, gpus=4)
    core.force(large.id)
    long, unlimited = (submit(core, gpus=1, time_limit_s=limit) for limit in (2 * HOUR, None))
    core.plan(60.0)
    assert state(large, long, unlimited) == ["waiting"] * 3
    assert says(core.why_it_waits(long), "kept_for_another_until", task=large.id)
    short = submit(core, gpus=1, time_limit_s=HOUR / 2)
    core.plan(60.0)
    assert state(large, short, long, unlimited) == ["waiting", "starting", "waiting", "waiting"]
    for task in (*running, short):
        end(core, task, 1000.0)
    core.plan(1000.0)
    assert state(large) == ["starting"]


def test_what_was_kept_for_a_task_that_is_cancelled_is_given_to_others_at_once() -> None:
    leaves: tuple[Callable[[Core, Task], object], ...] = (
        lambda core, task: core.cancel(task.id, 3.0),
        lambda core, task: core.remove(task.id, 3.0),
        lambda core, task: core.hold(task.id),
        lambda core, task: core.edit(msgspec.structs.replace(task, gpus=1)),
    )
    for leave in leaves:
        core = core_with(FOUR)
        busy(core, 3)
        large, small = submit(core, gpus=4, urgent=True), submit(core, gpus=1)
        core.plan(2.0)
        assert (state(large, small), core.plan_needed) == (["waiting"] * 2, False)
        leave(core, large)
        assert core.plan_needed
        core.plan(3.0)
        assert "starting" in state(large, small), "the GPU that was kept is not idle"
    core = core_with(FOUR)
    busy(core, 4)
    waits = submit(core, gpus=4)
    core.plan(2.0)
    core.cancel(waits.id, 3.0)
    assert not core.plan_needed, "nothing was kept for it"


def test_a_dry_run_says_of_a_task_that_may_pass_what_a_submit_does_and_takes_nothing() -> None:
    core = core_with(FOUR, licences={"solver": 2})
    busy(core, 2, time_limit_s=HOUR)
    large = submit(core, gpus=3, cpus=2)
    core.force(large.id)
    core.plan(60.0)
    reason = str(core.reason(large))
    for limit in (HOUR / 2, 2 * HOUR, None):
        for wish in ({"gpus": 1}, {"gpus": 2}, {"cpus": 2}, {"gpus": 1, "cpus": 1}, {"gpus": 4}):
            draft = Task(id=0, command="true", time_limit_s=limit, **wish)  # type: ignore[arg-type]
            first, second = core.preview(draft, 60.0), core.preview(draft, 60.0)
            assert first == second, f"{wish} is given out again: nothing was taken"
            filed = submit(core, time_limit_s=limit, **wish)
            core.plan(60.0)
            held = [Allocation(part.node, part.gpus, part.gpu_mib) for part in filed.allocation]
            assert (held or None) == first, f"{wish} with the limit {limit}"
            core.cancel(filed.id, 60.0)
            if filed.allocation:
                core.exited("a", Exit(launch_of(filed), "exited", 60.0, 1), 60.0)
            core.plan(60.0)
    assert str(core.reason(large)) == reason


def test_what_runs_longer_than_its_like_did_ends_at_its_limit() -> None:
    core = core_with(FOUR)
    (earlier,) = busy(core, 1)
    end(core, earlier, 3.0)
    busy(core, 3, time_limit_s=HOUR)
    large = submit(core, gpus=4)
    core.force(large.id)
    core.plan(600.0)
    short = submit(core, gpus=1, time_limit_s=HOUR / 2)
    core.plan(600.0)
    assert "nobody knows when" not in str(core.reason(large))
    assert state(large, short) == ["waiting", "starting"]


def test_what_its_like_took_says_who_passes_where_there_is_no_limit() -> None:
    core = core_with(FOUR)
    for took in (100.0, 200.0):
        (earlier,) = busy(core, 1, command=["python", "train.py", "--seed", "1"])
        end(core, earlier, 1.0 + took)
    holders = busy(core, 3, time_limit_s=HOUR)
    large = submit(core, gpus=4)
    core.force(large.id)
    (alike,) = core.submit([Task(id=0, gpus=1, command=["python", "train.py", "--seed", "2"])], 1.0)
    core.plan(1.0)
    assert state(alike) == ["starting"], "such a task takes some minutes"
    begin(core, alike, 1.0)
    for task in holders:
        end(core, task, 500.0)
    (second,) = core.submit([Task(id=0, gpus=1, command=["python", "train.py", "--seed", "3"])], 1.0)
    core.plan(500.0)
    assert state(second) == ["waiting"], "the one that is left takes longer than it should: nobody knows how long"


def ran(core: Core, owner: str, took: float, now: float) -> None:
    """A task of theirs has run for so long, until now."""
    task = submit(core, gpus=1, owner=owner, node="b")
    core.plan(now - took)
    begin(core, task, now - took)
    end(core, task, now)


def two_hold_what_one_waits_for(*, begun: bool = True) -> tuple[Core, Callable[[float], list[str]]]:
    """Ann's task is expected to run until 1100, bob's until 1200. Who asks plans, and gets who is to end first."""
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",)))
    for owner, took in (("ann", 100.0), ("bob", 200.0), ("cem", 300.0)):
        ran(core, owner, took, 900.0)
    holders = [submit(core, gpus=2, owner=owner, node="a") for owner in ("ann", "bob")]
    core.plan(1000.0)
    for task in holders if begun else holders[1:]:
        begin(core, task, 1000.0)
    core.force(submit(core, gpus=4, node="a").id)

    def in_order(now: float) -> list[str]:
        core.plan(now)
        return [core.find(holder).owner for holder in core.holds["a"].holders]

    assert in_order(1001.0) == ["ann", "bob"]
    assert in_order(1002.0) == ["ann", "bob"]
    return core, in_order


def test_one_more_run_of_an_owner_tells_anew_who_ends_first() -> None:
    core, in_order = two_hold_what_one_waits_for()
    ran(core, "cem", 1.0, 1003.0)
    assert in_order(1003.0) == ["ann", "bob"]
    ran(core, "ann", 300.0, 1004.0)
    assert in_order(1004.0) == ["bob", "ann"]


def test_a_task_that_takes_longer_than_its_like_ends_last_and_no_more_once_the_clock_is_put_back() -> None:
    _, in_order = two_hold_what_one_waits_for()
    assert in_order(1100.0) == ["ann", "bob"]
    assert in_order(1101.0) == ["bob", "ann"]
    assert in_order(1099.0) == ["ann", "bob"]


def test_a_task_that_runs_and_gets_another_owner_ends_when_theirs_do() -> None:
    core, in_order = two_hold_what_one_waits_for()
    core.people.add("cem")
    core.give_to(core.holds["a"].holders[0], "cem")
    assert in_order(1003.0) == ["bob", "cem"]


def test_what_has_not_begun_ends_the_later_the_later_it_begins() -> None:
    _, in_order = two_hold_what_one_waits_for(begun=False)
    assert in_order(1150.0) == ["bob", "ann"]


def test_gpus_that_the_large_task_does_not_need_are_given_to_others() -> None:
    core = core_with(FOUR)
    running = busy(core, 4)
    large = submit(core, gpus=2)
    core.force(large.id)
    core.plan(2.0)
    end(core, running[3], 3.0)
    other = submit(core, gpus=1)
    core.plan(3.0)
    kept = core.reservations[0].places[0].gpus
    assert (state(other) == ["starting"]) is (3 not in kept)


def test_cpus_are_kept_too() -> None:
    core = core_with(NodeSpec(name="a", cpus=4))
    holder = submit(core, cpus=2)
    core.plan(1.0)
    large, small = submit(core, cpus=4), submit(core, cpus=1)
    core.force(large.id)
    core.plan(2.0)
    assert state(large, small) == ["waiting", "waiting"]
    end(core, holder, 3.0)
    core.plan(3.0)
    assert state(large, small) == ["starting", "waiting"]


def test_a_reservation_outlives_the_master() -> None:
    core = core_with(FOUR)
    core.take_outcome()
    pieces: dict[str, msgspec.Raw] = {}
    running = busy(core, 4)
    large, small = submit(core, gpus=4), submit(core, gpus=1)
    core.plan(1.0 + PATIENCE)
    outcome = core.take_outcome()
    change: Change = outcome.change  # type: ignore[union-attr]
    merge_pieces(pieces, change.state)
    again = core_with(FOUR)
    tasks = {task.id: msgspec.convert(msgspec.to_builtins(task), Task) for task in (*running, large, small)}
    again.load(tasks, {}, 7, pieces)
    again.plan(2.0 + PATIENCE)
    assert again.reservations == core.reservations
    assert again.reservations[0].since == 1.0 + PATIENCE


def test_there_are_no_more_reservations_than_the_setting_says_and_a_higher_class_displaces_the_lowest() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    core.tuning.set("scheduler.reservations", 1, "ann", 0.0)
    busy(core, 8)
    first, second = submit(core, gpus=4), submit(core, gpus=4)
    core.plan(1.0 + PATIENCE)
    assert [one.task for one in core.reservations] == [first.id]
    forced = submit(core, gpus=3)
    core.force(forced.id)
    core.plan(2.0 + PATIENCE)
    assert [one.task for one in core.reservations] == [forced.id]
    core.cancel(forced.id, 3.0)
    core.plan(3.0 + PATIENCE)
    assert [one.task for one in core.reservations] == [first.id]
    assert second.state is TaskState.WAITING


def test_a_reservation_moves_from_a_node_that_goes_away() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    busy(core, 8)
    large = submit(core, gpus=4)
    core.force(large.id)
    core.plan(2.0)
    (before,) = core.reservations[0].places
    core.drain(before.node, "mending it", "ann", 3.0)
    core.plan(3.0)
    (after,) = core.reservations[0].places
    assert {before.node, after.node} == {"a", "b"}


@pytest.mark.parametrize("passing", [Message("folders_looked_at"), Message("remnants", count=1)])
def test_a_reservation_outlives_what_a_new_connection_to_its_node_begins_with(passing: Message) -> None:
    core = core_with(FOUR)
    busy(core, 4, time_limit_s=HOUR)
    large = submit(core, gpus=4)
    core.force(large.id)
    core.plan(2.0)
    [before] = core.reservations
    core.cordon("a", "folders", passing)
    core.plan(3.0)
    assert core.reservations == (msgspec.structs.replace(before, away_since=3.0),)
    core.node_state("a", NodeState.UNREACHABLE, None)
    core.plan(4.0)
    assert [one.task for one in core.reservations] == [large.id]
    core.node_state("a", NodeState.ONLINE, None, BOOT)
    core.cordon("a", "folders", None)
    core.plan(5.0)
    assert core.reservations == (before,)
    core.cordon("a", "folders", Message("folders_hang", said="no answer", folders=("/data",)))
    core.plan(6.0)
    assert core.reservations == ()


def seen(core: Core, at: float, *used: int, node: str = "a") -> None:
    """A sample of a node with four GPUs, which tells how much memory of each is in use."""
    core.gpus_seen(
        node, [GpuReport(gpu, memory_total_mib=24_000, memory_used_mib=mib) for gpu, mib in enumerate(used)], at
    )


def test_a_gpu_whose_last_task_has_just_ended_stays_reserved_until_a_sample_shows_it_free() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    seen(core, 1.0, 0, 0, 0, 0)
    running = busy(core, 4, node="a", time_limit_s=HOUR)
    busy(core, 4, node="b", time_limit_s=2 * HOUR)
    large = submit(core, gpus=4)
    core.force(large.id)
    core.plan(2.0)
    small = [submit(core, gpus=1, node="a") for _ in range(2)]
    before = core.reservations
    end(core, running[0], 3.0, code=1)  # nothing is learned of it
    core.plan(3.0)
    end(core, running[1], 4.0, code=1)
    core.plan(4.0)
    seen(core, 5.0, 0, 9_000, 9_000, 9_000)  # the one is free, the other not yet
    core.plan(5.0)
    assert (core.reservations, state(*small)) == (before, ["waiting"] * 2)
    for at, task in enumerate(running[2:], 6):
        end(core, task, float(at), code=1)
        core.plan(float(at))
    assert core.reservations == before
    assert core.holds["a"].until == 7.0, "it starts as soon as a sample has shown them free"
    seen(core, 8.0, 0, 0, 0, 0)
    core.plan(8.0)
    assert state(large, *small) == ["starting", "waiting", "waiting"]


def test_a_reservation_outlives_the_master_also_while_its_node_connects_later_than_others_and_shows_no_gpus_yet() -> (
    None
):
    nodes = (FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    core, pieces = core_with(*nodes), dict[str, msgspec.Raw]()
    core.take_outcome()
    running = [*busy(core, 4, node="a", time_limit_s=2 * HOUR), *busy(core, 4, node="b", time_limit_s=HOUR)]
    large, small = submit(core, gpus=4), submit(core, gpus=1)
    core.force(large.id)
    core.plan(2.0)
    merge_pieces(pieces, core.take_outcome().change.state)  # type: ignore[union-attr]
    before = core.reservations
    assert [place.node for place in before[0].places] == ["b"]
    again = core_with(*nodes, online=False)
    again.load(
        {task.id: msgspec.convert(msgspec.to_builtins(task), Task) for task in (*running, large, small)}, {}, 9, pieces
    )
    for at, node in enumerate("ab", 10):
        again.plan(float(at))  # none is there, then one
        again.node_state(node, NodeState.ONLINE, None, BOOT)
    again.plan(12.0)
    assert again.reservations == before
    again.gpus_unseen("b")
    again.plan(13.0)
    assert (again.reservations, again.holds["b"].until) == (before, 1.0 + HOUR)


def test_a_reservation_on_a_node_without_a_connection_moves_after_a_minute_and_is_nobody_elses_before() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    busy(core, 4, node="a", time_limit_s=HOUR)
    busy(core, 4, node="b", time_limit_s=2 * HOUR)
    large, next_one = submit(core, gpus=4), submit(core, gpus=4)
    core.force(large.id)
    core.plan(2.0)
    core.node_state("a", NodeState.UNREACHABLE, None)
    core.take_outcome()
    core.plan(3.0)
    assert [place.node for place in core.reservations[0].places] == ["a"]
    assert WakeAt(63.0) in core.take_outcome().effects  # type: ignore[union-attr]
    core.force(next_one.id)
    core.woken()
    core.plan(63.0)
    assert [(one.task, one.places[0].node, one.since) for one in core.reservations] == [(large.id, "b", 2.0)]


def woken_at(core: Core) -> list[float]:
    outcome = core.take_outcome()
    return [one.at for one in outcome.effects if isinstance(one, WakeAt)] if outcome else []


def test_a_time_that_was_told_and_has_passed_is_told_no_longer_though_nothing_else_happens() -> None:
    core = core_with(FOUR)
    busy(core, 4, time_limit_s=HOUR)
    large = submit(core, gpus=4, urgent=True)
    core.take_outcome()
    core.plan(2.0)
    ends = 1.0 + HOUR
    assert says(core.why_it_waits(large), "kept_for_it_until", until=ends)
    (late,) = woken_at(core)
    assert ends < late <= ends + 60.0
    core.woken()
    core.plan(late)
    assert says(core.why_it_waits(large), "kept_for_it", tasks=ids(range(1, 5)))


def test_where_nobody_knows_when_a_place_is_free_a_better_one_is_looked_for_though_nothing_else_happens() -> None:
    core = core_with(FOUR, msgspec.structs.replace(FOUR, name="b"))
    busy(core, 4, node="a")
    busy(core, 4, node="b", time_limit_s=HOUR)
    large = submit(core, gpus=4, urgent=True, exclude=["b"])
    core.plan(2.0)
    core.edit(msgspec.structs.replace(large, exclude=[]))
    core.plan(3.0)
    for _ in range(100):
        if says(core.why_it_waits(large), "kept_for_it_until", node="b"):
            return
        assert says(core.why_it_waits(large), "kept_for_it", node="a")
        (now,) = woken_at(core)
        core.woken()
        core.plan(now)
    pytest.fail("it keeps its place although another is free sooner")


def test_while_a_node_is_away_and_there_is_no_other_place_one_is_looked_for_each_minute_and_no_more_often() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",)))
    busy(core, 4, node="a", time_limit_s=HOUR)
    large = submit(core, gpus=4)
    core.force(large.id)
    core.plan(2.0)
    core.node_state("a", NodeState.UNREACHABLE, None)
    for at, wakes in ((3.0, 63.0), (10.0, 63.0), (63.0, 123.0), (150.0, 210.0)):
        core.take_outcome()
        core.woken()
        core.plan(at)
        outcome = core.take_outcome()
        assert outcome is not None
        assert [one.at for one in outcome.effects if isinstance(one, WakeAt)] == [wakes]
    core.node_state("b", NodeState.UNREACHABLE, None)
    core.woken()
    core.plan(400.0)
    outcome = core.take_outcome()
    assert [one for one in (outcome.effects if outcome else []) if isinstance(one, WakeAt)] == [], "all are away"
    assert [place.node for place in core.reservations[0].places] == ["a"]


def test_a_task_whose_reserved_node_is_away_starts_elsewhere_once() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    busy(core, 4, node="a", time_limit_s=HOUR)
    others = busy(core, 4, node="b", time_limit_s=2 * HOUR)
    large = submit(core, gpus=4)
    core.force(large.id)
    core.plan(2.0)
    core.node_state("a", NodeState.UNREACHABLE, None)
    for task in others:
        end(core, task, 3.0, code=1)
    core.plan(3.0)
    assert (state(large), large.allocation[0].node, core.reservations) == (["starting"], "b", ())


def test_a_task_that_starts_elsewhere_gives_its_reservation_back() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    running = busy(core, 8)
    large = submit(core, gpus=4)
    core.force(large.id)
    core.plan(2.0)
    other = "b" if core.reservations[0].places[0].node == "a" else "a"
    for task in running:
        if task.allocation[0].node == other:
            end(core, task, 3.0)
    core.plan(3.0)
    assert (large.allocation[0].node, core.reservations) == (other, ())


def test_what_was_kept_for_a_task_that_starts_elsewhere_is_given_in_the_same_moment_to_one_before_it() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    (first, *_), others = busy(core, 4, node="a", time_limit_s=HOUR), busy(core, 4, node="b")
    large = submit(core, gpus=4)
    core.plan(1.0 + PATIENCE)
    (kept,) = core.reservations[0].places
    there, elsewhere = ([first], others) if kept.node == "a" else (others[:1], [first])
    end(core, there[0], 2.0 + PATIENCE, code=1)
    (ahead,) = core.submit([Task(id=0, command="x", gpus=1, priority=1, node=kept.node)], 2.0 + PATIENCE)
    core.plan(2.0 + PATIENCE)
    assert state(ahead) == ["waiting"]
    for task in core.active():
        if task.allocation[0].node == elsewhere[0].allocation[0].node:
            end(core, task, 3.0 + PATIENCE, code=1)
    core.plan(3.0 + PATIENCE)
    assert state(large, ahead) == ["starting", "starting"]


def test_a_place_on_a_node_that_is_for_other_owners_now_is_given_up() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    busy(core, 8)
    large = submit(core, gpus=4, owner="ann")
    core.force(large.id)
    core.plan(2.0)
    (before,) = core.reservations[0].places
    core.restrict(before.node, Restriction(frozenset({"bob"}), Message("leaving"), as_admin=False))
    core.plan(3.0)
    (after,) = core.reservations[0].places
    assert {before.node, after.node} == {"a", "b"}


def test_a_task_that_is_edited_to_ask_for_less_keeps_no_more_than_that() -> None:
    core = core_with(FOUR)
    busy(core, 4)
    large = submit(core, gpus=4)
    core.force(large.id)
    core.plan(2.0)
    core.edit(msgspec.structs.replace(large, gpus=2))
    core.plan(3.0)
    assert [len(place.gpus) for place in core.reservations[0].places] == [2]


def test_a_task_that_may_not_start_for_a_quota_keeps_nothing_wherever_it_stands_among_its_like() -> None:
    core = core_with(FOUR)
    core.people.add("ann")
    (holder,) = busy(core, 1, owner="ann")
    large = submit(core, gpus=4, owner="ann")
    core.plan(1.0 + PATIENCE)
    assert [one.task for one in core.reservations] == [large.id]
    ahead = submit(core, gpus=4, owner="ann")
    core.move(ahead.id, 1)
    core.people.edit("ann", quota=Quota(max_running=1))
    small = submit(core, gpus=1, owner="bob")
    core.plan(2.0 + PATIENCE)
    assert core.reservations == ()
    assert state(holder, small, large) == ["running", "starting", "waiting"]


def test_a_task_with_a_reservation_is_found_behind_more_of_its_like_than_are_looked_at() -> None:
    core = core_with(FOUR, waiting_limit=10_000)
    (holder,) = busy(core, 1)
    large = submit(core, gpus=4)
    core.plan(1.0 + PATIENCE)
    later = core.submit([Task(id=0, command="x", gpus=4, priority=1) for _ in range(LOOKS + 10)], 1.0 + PATIENCE)
    core.plan(1.0 + PATIENCE)
    assert [one.task for one in core.reservations] == [large.id]
    end(core, holder, 2.0 + PATIENCE, code=1)
    core.plan(2.0 + PATIENCE)
    assert state(large) == ["starting"]
    assert {task.state for task in later} == {TaskState.WAITING}


def test_a_forced_task_does_not_wait_for_a_holder_without_an_end_where_another_node_is_free_soon() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    (endless,) = busy(core, 1, node="a", time_limit_s=HOUR)
    others = busy(core, 4, node="b", time_limit_s=2 * HOUR)
    large = submit(core, gpus=4)
    core.force(large.id)
    core.plan(2.0)
    assert [place.node for place in core.reservations[0].places] == ["a"]
    core.plan(1.0 + 1.5 * HOUR)  # its limit is over, and it goes on
    assert [place.node for place in core.reservations[0].places] == ["b"]
    assert core.reservations[0].since == 2.0
    assert endless.state is TaskState.RUNNING
    for task in others:
        end(core, task, 2 * HOUR)
    core.plan(2 * HOUR)
    assert state(large) == ["starting"]


def test_a_reservation_does_not_move_for_a_holder_that_runs_a_little_longer_than_its_like() -> None:
    core = core_with(FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4))
    (earlier,) = busy(core, 1, command="quick", node="a")
    end(core, earlier, 601.0)  # such a task takes ten minutes
    busy(core, 1, command="quick", node="a")
    busy(core, 4, node="b", time_limit_s=HOUR)
    large = submit(core, gpus=4)
    core.force(large.id)
    core.plan(2.0)
    assert [place.node for place in core.reservations[0].places] == ["a"]
    core.plan(700.0)  # nobody knows when, but hardly later than in an hour
    assert [place.node for place in core.reservations[0].places] == ["a"]
    core.plan(2000.0)  # and now b is sooner, as far as anybody can say
    assert [place.node for place in core.reservations[0].places] == ["b"]


SMALL = st.tuples(st.floats(0, 2 * HOUR), st.floats(1, 4 * HOUR), st.integers(1, 3), st.booleans())


@given(st.lists(SMALL, min_size=1, max_size=60))
def test_no_stream_of_small_tasks_starves_a_large_one(small: list[tuple[float, float, int, bool]]) -> None:
    """Each small task comes again and again, so that there is always one that fits."""
    jobs = [Job(0.0, Task(id=0, command="large", gpus=4), Run(seconds=HOUR))]
    for at, takes, gpus, limited in small:
        for again in range(24):
            wish = Task(id=0, command="small", gpus=gpus, time_limit_s=takes * 2 if limited else None)
            jobs.append(Job(at + again * 2 * HOUR, wish, Run(seconds=takes)))
    lab = Simulation((FOUR,), jobs)
    tasks = lab.play()
    large = next(task for task in tasks if task.command == "large")
    assert large.started_at is not None
    assert large.started_at <= PATIENCE + 4 * HOUR * 2 + 1.0
    assert all(task.state is TaskState.SUCCEEDED for task in tasks)
