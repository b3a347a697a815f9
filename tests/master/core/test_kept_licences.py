"""A task that waits for a licence: it keeps no GPU idle, and nobody takes the licence before it for ever."""

from __future__ import annotations

import msgspec

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.inventory import NodeSpec
from master.core.planning.reservations import Reservation
from master.core.tasks.attempt import Place
from master.core.tasks.task import Task
from tests.faults import says
from tests.master.core.small_core import core_with, launch_of, submit
from wire.message import Message, ids

SOLVER = Message("licence", name="solver")

FOUR = NodeSpec(name="a", gpu_models=("GPU",) * 4, slots=4)
TWO_NODES = (FOUR, NodeSpec(name="b", gpu_models=("GPU",) * 4, slots=4))
HOUR = 3600.0
ONE, BOTH = {"solver": 1}, {"solver": 2}


def begun(core: Core, task: Task, at: float) -> Task:
    core.plan(at)
    for part in task.allocation:
        core.started(part.node, part.launch_id, at, at)
    assert task.allocation
    return task


def end(core: Core, task: Task, at: float) -> None:
    core.exited(task.allocation[0].node, Exit(launch_of(task), "exited", at, 0), at)
    core.plan(at)


def states(*tasks: Task) -> list[str]:
    return [str(task.state) for task in tasks]


def kept(core: Core) -> list[tuple[int, dict[str, list[int]]]]:
    return [(one.task, {place.node: place.gpus for place in one.places}) for one in core.reservations]


def test_a_forced_task_that_lacks_a_licence_keeps_no_gpu_idle() -> None:
    core = core_with(FOUR, licences=ONE)
    holder = begun(core, submit(core, gpus=1, licences=ONE), 1.0)
    forced = submit(core, gpus=3, licences=ONE)
    core.force(forced.id)
    others = [submit(core, gpus=1) for _ in range(3)]
    core.plan(2.0)
    assert states(forced, *others) == ["waiting", *["starting"] * 3]
    assert kept(core) == [(forced.id, {"licence solver": []})]
    after = ids([holder.id])
    assert says(core.why_it_waits(forced), "kept_for_it", node=SOLVER, gpus=ids(()), tasks=after)
    assert "0 of 1 solver licence" in " ".join(map(str, core.wait(forced).obstacles))


def test_who_asks_why_a_task_waits_takes_nothing_of_what_is_kept() -> None:
    core = core_with(*TWO_NODES, licences=BOTH)
    begun(core, submit(core, gpus=4, node="a"), 1.0)
    forced = submit(core, gpus=4, node="a", licences=ONE)
    core.force(forced.id)
    core.plan(2.0)
    other = submit(core, gpus=1, licences=ONE)
    for _ in range(3):
        assert core.why_it_waits(other) == Message("next")
    core.plan(3.0)
    assert states(forced, other) == ["waiting", "starting"]


def test_of_what_is_free_and_kept_nobody_is_named_who_has_it() -> None:
    core = core_with(*TWO_NODES, licences=ONE)
    holder = begun(core, submit(core, gpus=4, node="a"), 1.0)
    forced = submit(core, gpus=4, node="a", licences=ONE)
    core.force(forced.id)
    core.plan(2.0)
    other = submit(core, gpus=1, licences=ONE)
    core.plan(3.0)
    why = core.why_it_waits(forced)
    assert says(why, "kept_for_it", node="a", gpus=ids(range(4)), tasks=ids([holder.id]))
    assert says(why, "kept_for_it_free", node=SOLVER, gpus=ids(()))
    assert says(core.why_it_waits(other), "kept_for_another_free", node=SOLVER, task=forced.id)


def test_a_licence_that_falls_free_is_for_whom_it_was_kept_and_then_room_is_kept_too() -> None:
    core = core_with(FOUR, licences=ONE)
    holder = begun(core, submit(core, gpus=1, licences=ONE), 1.0)
    beside = begun(core, submit(core, gpus=3), 1.0)
    forced = submit(core, gpus=3, licences=ONE)
    core.force(forced.id)
    core.plan(2.0)
    late = submit(core, gpus=1, licences=ONE)
    end(core, holder, 3.0)
    assert states(forced, late) == ["waiting", "waiting"], "three of its GPUs are still held"
    assert kept(core)[0][1].keys() == {"licence solver", "a"}
    assert says(core.why_it_waits(late), "kept_for_another_until", node=SOLVER, task=forced.id)
    end(core, beside, 4.0)
    assert states(forced, late) == ["starting", "waiting"]
    assert kept(core) == []


def test_one_that_needs_several_gets_them_though_each_that_falls_free_is_wanted() -> None:
    core = core_with(FOUR, licences=BOTH)
    running = [begun(core, submit(core, licences=ONE), 1.0) for _ in range(2)]
    large = submit(core, licences=BOTH)
    core.plan(2.0)
    patience = 6 * HOUR
    core.woken()
    core.plan(1.0 + patience)
    assert kept(core) == [(large.id, {"licence solver": []})]
    small = submit(core, licences=ONE)
    end(core, running[0], 2.0 + patience)
    assert states(large, small) == ["waiting", "waiting"]
    end(core, running[1], 3.0 + patience)
    assert states(large, small) == ["starting", "waiting"]


def test_who_gives_it_back_before_passes() -> None:
    core = core_with(FOUR, licences=BOTH)
    begun(core, submit(core, licences=ONE, time_limit_s=HOUR), 1.0)
    large = submit(core, licences=BOTH)
    core.force(large.id)
    quick, slow = (submit(core, licences=ONE, time_limit_s=limit) for limit in (HOUR / 2, 2 * HOUR))
    core.plan(60.0)
    assert states(large, quick, slow) == ["waiting", "starting", "waiting"]
    assert says(core.why_it_waits(large), "kept_for_it_until", node=SOLVER)


def test_what_it_does_not_need_of_them_is_for_others() -> None:
    core = core_with(FOUR, licences={"solver": 3, "editor": 1})
    begun(core, submit(core, licences=BOTH), 1.0)
    large = submit(core, licences=BOTH)
    core.force(large.id)
    one, two, other = (submit(core, licences=some) for some in (ONE, ONE, {"editor": 1}))
    core.plan(2.0)
    assert states(large, one, two, other) == ["waiting", "starting", "waiting", "starting"]


def test_the_parts_of_a_gang_are_kept_until_the_last_of_them_is_free() -> None:
    core = core_with(*TWO_NODES)
    for name, hours in (("a", 1), ("b", 3)):
        begun(core, submit(core, gpus=2, node=name, time_limit_s=hours * HOUR), 1.0)
    gang = submit(core, gpus=4, nodes=2)
    core.force(gang.id)
    passing, late = (submit(core, gpus=1, node="a", time_limit_s=hours * HOUR) for hours in (2, 4))
    core.plan(60.0)
    assert states(gang, passing, late) == ["waiting", "starting", "waiting"]
    assert {hold.until for hold in core.holds.values()} == {1.0 + 3 * HOUR}


def test_where_nobody_knows_of_one_part_nobody_passes_on_the_other() -> None:
    core = core_with(*TWO_NODES)
    begun(core, submit(core, gpus=2, node="a", time_limit_s=HOUR), 1.0)
    begun(core, submit(core, gpus=2, node="b"), 1.0)
    gang = submit(core, gpus=4, nodes=2)
    core.force(gang.id)
    quick = submit(core, gpus=1, node="a", time_limit_s=60.0)
    core.plan(60.0)
    assert states(gang, quick) == ["waiting", "waiting"]


def test_a_master_that_comes_back_keeps_the_licence_and_no_gpu_that_an_earlier_one_kept_idle_for_it() -> None:
    core = core_with(FOUR, licences=ONE)
    holder = begun(core, submit(core, gpus=1, licences=ONE), 1.0)
    forced = submit(core, gpus=1, licences=ONE)
    core.force(forced.id)
    core.plan(2.0)
    earlier = (Reservation(forced.id, [Place("a", [1])], 2.0),)
    for before in (core.reservations, earlier):
        again = core_with(FOUR, licences=ONE)
        tasks = {task.id: msgspec.convert(msgspec.to_builtins(task), Task) for task in (holder, forced)}
        again.load(tasks, {}, 3, {"reservations": msgspec.Raw(msgspec.json.encode(before))})
        again.plan(3.0)
        assert kept(again) == [(forced.id, {"licence solver": []})]
    end(core, holder, 4.0)
    assert states(forced) == ["starting"]
