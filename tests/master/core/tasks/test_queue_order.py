"""The queue's order, kept through all that can happen to tasks: always what sorting all of them anew would give."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from master.core.core import Core
from master.core.nodes.inventory import NodeSpec
from master.core.tasks.backlog import order_of
from master.core.tasks.queue_order import FEW
from master.core.tasks.task import QUEUED, Task, TaskState
from wire.errors import MusterError


def sorted_anew(core: Core) -> list[int]:
    return [task.id for task in sorted((t for t in core.tasks.values() if t.state in QUEUED), key=order_of)]


def core_of(count: int) -> Core:
    core = Core((NodeSpec(name="a", gpu_models=("GPU",)),), lambda task, no: f"{task}.{no}")
    core.submit([Task(id=0, command="true", priority=number % 3) for number in range(count)], 1.0)
    return core


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_that_of_sorting_anew_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    core = core_of(100)
    for step in range(300):
        for _ in range(chance.choice((1, 1, 3, 90))):
            _something(core, chance)
        if step % chance.choice((1, 2, 5)) == 0:
            for task in list(core.tasks.values())[:1]:
                core.queue_order.before(task)
            begin, end = chance.randrange(3), chance.choice((1, 5, 10_000))
            for _ in range(2):  # before somebody asked for the whole, and behind him
                assert [task.id for task in core.queued(begin, end)] == sorted_anew(core)[begin:end]
                assert [task.id for task in core.queue()] == sorted_anew(core)
    for place, task in enumerate(core.queue()):
        assert core.queue_order.before(task) == place


def _something(core: Core, chance: random.Random) -> None:
    ids = list(core.tasks)
    task_id = chance.choice(ids) if ids else 1
    what = chance.randrange(9)
    try:
        if what == 0:
            core.submit([Task(id=0, command="true", urgent=chance.random() < 0.1)], 2.0)
        elif what == 1:
            core.cancel(task_id, 2.0)
        elif what == 2:
            core.remove(task_id, 2.0)
        elif what == 3:
            core.retry(task_id)
        elif what == 4:
            core.hold(task_id)
        elif what == 5:
            core.release(task_id)
        elif what == 6:
            core.force(task_id)
        elif what == 7:
            core.move(task_id, chance.randrange(1, 50))
        elif core.oldest_ended(5):
            core.drop_archived([task.id for task in core.oldest_ended(5)])
    except MusterError:
        pass  # it is in a state in which this cannot be done: then nothing may have changed


@pytest.mark.parametrize("count", [FEW - 1, FEW, 3 * FEW])
def test_new_tasks_beside_one_that_changed_leave_it_in_one_place(count: int) -> None:
    core = core_of(10)
    assert [task.id for task in core.queue()] == sorted_anew(core)
    core.force(7)
    core.submit([Task(id=0, command="true", priority=1) for _ in range(count)], 2.0)
    assert [task.id for task in core.queue()] == sorted_anew(core)
    assert len(core.queue_order) == 10 + count


def test_a_list_that_was_given_out_stays_as_it_was() -> None:
    core = core_of(3)
    before = core.queue()
    ids = [task.id for task in before]
    core.submit([Task(id=0, command="true")], 2.0)
    assert [task.id for task in before] == ids
    assert len(core.queue()) == 4


def test_a_loaded_queue_is_in_order() -> None:
    core = core_of(0)
    tasks = {n: Task(id=n, command="true", priority=n % 4, state=TaskState.HELD if n % 2 else TaskState.WAITING)
             for n in range(1, 200)}  # fmt: skip
    core.load(tasks, {}, 200)
    assert [task.id for task in core.queue()] == sorted_anew(core)


def steps(act: Callable[[], object]) -> int:
    """The instructions that the interpreter carries out for it."""
    count = 0

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def steps_of_a_part(count: int) -> list[int]:
    """For fifty of a queue of so many, each time something has changed."""
    core, taken = core_of(count), []
    core.queue_order.keys()
    changes: list[Callable[[], object]] = [
        lambda: core.submit([Task(id=0, command="true")], 2.0),
        lambda: core.force(7),
        lambda: core.cancel(20, 2.0),
    ]
    for change in changes:
        change()
        taken.append(steps(lambda: core.queued(0, 50)))
    return taken


def test_a_part_of_a_long_queue_takes_no_more_steps_than_one_of_a_short_queue() -> None:
    assert steps_of_a_part(3_000) == steps_of_a_part(300)
