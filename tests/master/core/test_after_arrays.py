"""A predecessor that is all of an array: as if each of its tasks were named, but with one entry, however many they are,
and over a crash."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from master.core.core import Core
from master.core.tasks.task import ACTIVE, After, Task, TaskState
from tests.master.core.small_core import core_with, submit
from tests.master.core.tasks.test_arrays import Disk, alive, array, end
from tests.walks import some
from wire.errors import BadRequestError, ConflictError, MusterError, NotFoundError
from wire.message import Message


def behind(core: Core, number: int, on: str = "ok", **wants: Any) -> Task:
    return submit(core, after=[After(number, on, array=True)], gpus=0, **wants)


def finish(core: Core, tasks: list[Task], code: int = 0) -> None:
    for task in tasks:
        alive(core)
        end(core, task, code)


def test_who_waits_for_an_array_starts_when_the_last_of_it_has_succeeded() -> None:
    core = core_with()
    tasks = array(core, 3)
    last = behind(core, tasks[0].id)
    finish(core, tasks[:2])
    assert last.id not in alive(core)
    assert core.why_it_waits(last) == Message("waits_for", tasks=(Message("array_to_succeed", id=1),))
    assert [task.id for task in core.dependencies.awaited(last.waits_for[0])] == [3]
    finish(core, tasks[2:])
    assert last.id in alive(core)
    assert last.waits_for == []


def test_thousands_are_one_entry_and_an_end_of_one_writes_down_nothing_of_who_waits() -> None:
    core = core_with(waiting_limit=10_000)
    tasks = array(core, 5_000)
    last = behind(core, tasks[0].id)
    assert last.waits_for == [After(1, "ok", array=True)]
    alive(core)
    core.take_outcome()
    end(core, tasks[0])
    outcome = core.take_outcome()
    assert outcome is not None
    assert [task.id for task in outcome.change.tasks] == [1]


@pytest.mark.parametrize(("on", "code"), [("ok", 1), ("fail", 0)])
def test_the_first_that_ends_the_wrong_way_ends_who_waits_for_all(on: str, code: int) -> None:
    core = core_with()
    tasks = array(core, 3)
    last = behind(core, tasks[0].id, on)
    finish(core, tasks[:1], code)
    assert last.state is TaskState.CANCELLED
    assert str(tasks[0].id) in (last.reason or "")


def test_any_waits_until_all_have_ended_and_one_that_is_tried_again_has_not() -> None:
    core = core_with()
    tasks = array(core, 3)
    last = behind(core, tasks[0].id, "any")
    finish(core, tasks[:2], 1)
    core.retry(tasks[0].id)
    finish(core, tasks[2:])
    assert last.id not in alive(core)
    finish(core, tasks[:1])
    assert last.id in alive(core)


def test_what_of_an_array_is_removed_is_waited_for_no_more() -> None:
    core = core_with()
    tasks = array(core, 3, cap=1)
    well, anyhow = behind(core, 1), behind(core, 1, "any")
    finish(core, tasks[:1])
    core.remove(1, 4.0)
    assert (well.state, anyhow.state) == (TaskState.WAITING, TaskState.WAITING)
    core.remove(2, 4.0)
    assert (well.state, well.reason) == (TaskState.CANCELLED, str(Message("predecessor_removed", id=2)))
    core.remove(3, 4.0)
    assert anyhow.waits_for == []


def test_who_is_removed_with_successors_takes_those_along_that_wait_for_all_of_its_array() -> None:
    core = core_with()
    array(core, 2, cap=1)
    last = behind(core, 1)
    assert core.dependencies.chain(2) == [2, last.id]
    core.remove(2, 4.0, successors=True)
    assert last.id not in core.tasks


def test_what_can_never_be_met_is_refused() -> None:
    core = core_with()
    tasks = array(core, 2)
    single = submit(core)
    with pytest.raises(NotFoundError):
        behind(core, single.id)
    with pytest.raises(NotFoundError):
        behind(core, tasks[1].id)
    finish(core, tasks[:1], 1)
    with pytest.raises(ConflictError):
        behind(core, 1)


def test_nobody_waits_in_a_circle_through_an_array() -> None:
    core = core_with()
    tasks = array(core, 2)
    last = behind(core, 1)
    for after in ([After(last.id)], [After(1, array=True)]):
        with pytest.raises(BadRequestError):
            core.edit(msgspec.structs.replace(tasks[1], after=after))


def test_who_waits_for_an_array_and_for_one_of_its_tasks_waits_for_both() -> None:
    core = core_with()
    tasks = array(core, 2)
    last = submit(core, after=[After(1, "any", array=True), After(1)], gpus=0)
    finish(core, tasks[1:])
    assert [after.array for after in last.waits_for] == [True, UNSET]
    finish(core, tasks[:1], 1)
    assert last.state is TaskState.CANCELLED


@settings(max_examples=some(300))
@given(st.integers(min_value=0, max_value=1 << 30))
def test_all_of_an_array_is_what_each_of_its_tasks_would_be_and_a_crash_changes_nothing(seed: int) -> None:
    chance, on = random.Random(seed), random.Random(seed).choice(["ok", "fail", "any"])
    cores = [core_with(), core_with()]
    disk = Disk()
    for core in cores:
        array(core, 4)
    whole = behind(cores[0], 1, on)
    each = submit(cores[1], after=[After(number, on) for number in range(1, 5)], gpus=0)
    for _ in range(chance.randrange(1, 12)):
        number, what = chance.randrange(1, 5), chance.choice(["end", "end", "cancel", "hold", "remove"])
        code = chance.choice([0, 0, 0, 1] if on == "ok" else [1, 1, 1, 0])
        for core in cores:
            step(core, number, what, code)
        disk.keep(cores[0])
        if chance.random() < 0.3:
            cores[0] = disk.again()
            whole = cores[0].tasks[whole.id]
        assert (whole.state, whole.reason, bool(whole.waits_for)) == (each.state, each.reason, bool(each.waits_for))


def step(core: Core, number: int, what: str, code: int) -> None:
    """One thing that happens to one of the tasks; what is refused is refused."""
    core.plan(0.0)
    task = core.tasks.get(number)
    if task is None:
        return
    try:
        if what == "end" and task.state in ACTIVE:
            end(core, task, code)
        elif what == "cancel":
            core.cancel(number, 3.0)
        elif what == "hold":
            core.hold(number)
        elif what == "remove":
            core.remove(number, 3.0)
    except MusterError:
        pass
