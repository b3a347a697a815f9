"""Tasks that begin at a time: not before it, by a clock that people may set, and without anybody looking at one."""

from __future__ import annotations

import pytest

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.effects import WakeAt
from master.core.nodes.inventory import NodeSpec
from master.core.tasks.later import SPARE, Later
from master.core.tasks.task import After, Task, TaskState
from tests.master.core.small_core import core_with, launch_of, run
from wire.message import Message

NOW, LATER, DAY = 1_000_000.0, 1_003_600.0, 86_400.0


def filed(core: Core, now: float = NOW, **wants: object) -> Task:
    """One more, filed then."""
    return core.submit([Task(id=0, command="true", **wants)], now)[0]  # type: ignore[arg-type]


def woken_at(core: Core) -> list[float]:
    """What was said since the last look of when to ask again."""
    outcome = core.take_outcome()
    return [effect.at for effect in outcome.effects if isinstance(effect, WakeAt)] if outcome else []


def test_a_task_starts_at_its_time_and_not_before_and_the_planner_says_when_to_ask() -> None:
    core = core_with()
    task = filed(core, begin_at=LATER)
    assert core.plan(NOW) == 0
    assert woken_at(core) == [LATER]
    assert core.plan(LATER - 0.001) == 0
    assert woken_at(core) == [], "once is enough"
    assert core.plan(LATER) == 1
    assert (task.state, task.not_before, task.eligible_at) == (TaskState.STARTING, None, LATER)


def test_who_waits_for_a_time_stands_in_nobodys_way() -> None:
    core = core_with(NodeSpec(name="a", slots=1))
    filed(core, begin_at=LATER, priority=9)
    other = filed(core)
    core.plan(NOW)
    assert other.state is TaskState.STARTING


def test_of_many_the_planner_is_asked_at_the_earliest_and_then_at_the_next() -> None:
    core = core_with()
    filed(core, begin_at=LATER + 20)
    soon = filed(core, begin_at=LATER)
    core.plan(NOW)
    assert woken_at(core) == [LATER]
    core.woken()
    assert core.plan_needed
    core.plan(LATER)
    assert (soon.state, woken_at(core)) == (TaskState.STARTING, [LATER + 20])


def test_a_time_that_is_over_is_no_time() -> None:
    core = core_with()
    task = filed(core, begin_at=NOW - DAY)
    assert core.plan(NOW) == 1
    assert task.eligible_at == NOW, "nobody waits since before he was there"


def test_it_is_said_until_when() -> None:
    core = core_with()
    task = filed(core, begin_at=LATER)
    core.plan(NOW)
    assert core.why_it_waits(task) == Message("begins_at", at=LATER)
    assert "1970-01-1" in str(core.reason(task))
    assert str(Message("begins_at", at=1e300)), "no calendar has it, and it is told all the same"


def test_a_forced_start_waits_for_no_time() -> None:
    core = core_with()
    task = filed(core, begin_at=LATER)
    core.force(task.id)
    assert core.plan(NOW) == 1
    assert task.begin_at == LATER, "what was asked for stays"


@pytest.mark.parametrize("begin_at", [None, NOW - 1, NOW + 60])
def test_an_edit_changes_the_time(begin_at: float | None) -> None:
    core = core_with()
    task = filed(core, begin_at=LATER)
    core.plan(NOW)
    core.edit(Task(id=task.id, command="true", begin_at=begin_at))
    core.plan(NOW + 10)
    assert task.state is (TaskState.WAITING if begin_at == NOW + 60 else TaskState.STARTING)
    assert task.eligible_at == (NOW + 60 if begin_at == NOW + 60 else NOW + 10)
    core.plan(NOW + 60)
    assert task.state is TaskState.STARTING


def test_an_edit_can_put_off_what_only_waits_for_room() -> None:
    core = core_with(NodeSpec(name="a", slots=1))
    first, second = filed(core), filed(core)
    core.plan(NOW)
    core.edit(Task(id=second.id, command="true", begin_at=LATER))
    core.exited("a", Exit(launch_of(first), "exited", NOW, 0), NOW)
    assert core.plan(NOW) == 0
    assert core.plan(LATER) == 1


def test_a_time_and_predecessors_and_a_hold_all_have_to_be_over() -> None:
    core = core_with()
    first = filed(core)
    task = filed(core, begin_at=LATER, after=[After(first.id)])
    core.plan(LATER)
    assert task.state is TaskState.WAITING
    run(core, first)
    core.hold(task.id)
    core.plan(LATER + 1)
    core.release(task.id)
    assert core.plan(LATER + 2) == 1
    assert task.eligible_at == LATER + 2


def test_a_task_that_was_cancelled_before_its_time_and_is_tried_again_waits_for_it_as_before() -> None:
    core = core_with()
    task = filed(core, begin_at=LATER)
    core.cancel(task.id, NOW + 1)
    core.retry(task.id)
    assert core.plan(NOW + 2) == 0
    assert core.plan(LATER) == 1


# -- since when only room keeps it ----------------------------------------------------------------------------


def test_since_when_it_waits_for_room_is_written_where_that_is_not_since_it_came() -> None:
    core = core_with()
    at_once, held, follows = filed(core), filed(core, state=TaskState.HELD), filed(core, after=[After(1)])
    core.take_outcome()
    core.plan(NOW + 1)
    assert (at_once.eligible_at, held.eligible_at, follows.eligible_at) == (None, None, None)
    core.release(held.id)
    core.plan(NOW + 5)
    outcome = core.take_outcome()
    assert outcome is not None
    assert held in outcome.change.tasks
    core.exited("a", Exit(launch_of(at_once), "exited", NOW + 9, 0), NOW + 9)
    core.plan(NOW + 9)
    assert (held.eligible_at, follows.eligible_at) == (NOW + 5, NOW + 9)


def test_what_changes_of_a_task_that_waits_for_room_takes_nothing_of_its_waiting_and_a_hold_all() -> None:
    core = core_with(NodeSpec(name="a", slots=1))
    filed(core)
    task = filed(core, state=TaskState.HELD)
    core.plan(NOW)
    core.release(task.id)
    core.plan(NOW + 5)
    core.edit(Task(id=task.id, command="other", priority=3))
    core.move(task.id, 1)
    core.plan(NOW + 10)
    assert task.eligible_at == NOW + 5
    core.hold(task.id)
    assert task.eligible_at is None
    core.release(task.id)
    core.plan(NOW + 20)
    assert task.eligible_at == NOW + 20


# -- clocks ---------------------------------------------------------------------------------------------------


def test_a_clock_that_jumps_a_day_forward_begins_what_it_says_is_due() -> None:
    core = core_with()
    task = filed(core, begin_at=LATER)
    core.plan(NOW)
    core.woken()  # whoever keeps the time has seen it jump
    assert core.plan(NOW + DAY) == 1
    assert task.state is TaskState.STARTING


def test_a_clock_that_jumps_a_day_back_begins_what_is_wanted_at_a_time_when_it_shows_that() -> None:
    core = core_with()
    task = filed(core, begin_at=LATER)
    core.plan(NOW)
    core.take_outcome()
    core.woken()
    core.plan(LATER - DAY)
    assert (task.state, woken_at(core)) == (TaskState.WAITING, [LATER])
    core.woken()
    assert core.plan(LATER) == 1


def test_a_clock_that_jumps_a_day_back_makes_nobody_wait_a_day_to_be_tried_again() -> None:
    core = core_with()
    task = filed(core, max_retries=1)
    core.plan(NOW)
    core.exited("a", Exit(launch_of(task), "exited", NOW, 1), NOW)
    core.plan(NOW)
    core.plan(NOW - DAY)
    assert task.not_before == task.eligible_at == NOW - DAY + 10
    again = core_with()
    again.load(dict(core.tasks), {}, core.next_id)
    again.plan(NOW - 2 * DAY)  # it was put back while no master ran
    assert again.plan(NOW - 2 * DAY + 10) == 1


def test_what_waits_for_a_time_is_loaded_and_begins_then_also_where_that_came_meanwhile() -> None:
    core = core_with()
    task = filed(core, begin_at=LATER)
    core.plan(NOW)
    again = core_with()
    again.load(dict(core.tasks), {}, core.next_id)
    assert again.plan(NOW) == 0
    assert woken_at(again) == [LATER]
    third = core_with()
    third.load(dict(core.tasks), {}, core.next_id)
    assert third.plan(LATER + DAY) == 1
    assert third.tasks[task.id].eligible_at == LATER


# -- the times by themselves ----------------------------------------------------------------------------------


def test_times_come_in_their_order_and_what_was_put_off_or_forgotten_does_not() -> None:
    later = Later()
    for number, at in ((1, 30.0), (2, 10.0), (3, 20.0), (4, 5.0)):
        later.put(number, at)
    later.put(2, 40.0)
    later.discard(4)
    later.discard(99)
    assert (later.ids(), later.next_at) == ([1, 2, 3], 20.0)
    assert later.due(30.0) == [3, 1]
    assert (len(later), 1 in later, 2 in later, later.time_of(1)) == (1, False, True, 30.0)
    later.put(1, 30.0)
    assert later.due(100.0) == [2], "what was told is not told again"
    assert later.next_at is None


def test_who_puts_one_task_off_ten_thousand_times_costs_no_memory() -> None:
    later = Later()
    for at in range(10_000):
        later.put(1, 1e9 + at)
    assert len(later._heap) <= SPARE + 3
    assert later.due(2e9) == [1]
