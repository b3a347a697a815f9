"""The queue: who waits for a time, since when only room is missing, and the places that somebody gives."""

from __future__ import annotations

import msgspec
import pytest

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.tasks.task import Task, TaskState
from tests.master.core.small_core import core_with, launch_of, submit
from wire.errors import ConflictError

BEGUN = 1.7e9


def written(core: Core) -> set[int]:
    """The tasks that were to be written down since the last look."""
    outcome = core.take_outcome()
    return set() if outcome is None else {task.id for task in outcome.change.tasks}


def failing(core: Core, at: float, **wants: object) -> Task:
    """One whose first attempt failed then, and that waits to be tried again."""
    task = submit(core, max_retries=9, **wants)
    core.plan(at)
    core.started("a", launch_of(task), at, at)
    core.exited("a", Exit(launch_of(task), "exited", at, 1), at)
    assert task.not_before is not None
    return task


def test_what_comes_and_is_released_is_planned_for_and_what_comes_held_is_not() -> None:
    core = core_with()
    core.plan(0.0)
    held = submit(core, state=TaskState.HELD)
    assert not core.plan_needed
    core.release(held.id)
    assert core.plan_needed
    core.plan(0.0)
    waiting = submit(core, begin_at=9.0)
    core.plan(0.0)
    core.hold(waiting.id)
    assert core.plan_needed, "what is held may have kept others"


def test_since_when_only_room_is_missing_is_written_down_once() -> None:
    core = core_with()
    task = submit(core, state=TaskState.HELD)
    core.plan(1.0)
    core.release(task.id)
    submit(core, gpus=8)
    core.take_outcome()
    core.plan(5.0)
    assert task.eligible_at == 5.0
    assert task.id in written(core)
    later = submit(core, state=TaskState.HELD, begin_at=90.0)
    core.release(later.id)
    core.take_outcome()
    core.plan(6.0)
    assert later.eligible_at == 90.0
    assert later.id in written(core)
    core.plan(7.0)
    assert (later.eligible_at, written(core)) == (90.0, set())


def test_what_is_removed_before_anybody_planned_is_no_matter() -> None:
    core = core_with()
    task = submit(core, state=TaskState.HELD)
    core.release(task.id)
    core.remove(task.id, 4.0)
    core.plan(5.0)
    held = submit(core, state=TaskState.HELD)
    core.release(held.id)
    core.hold(held.id)
    core.plan(6.0)
    assert held.eligible_at is None


def test_a_clock_that_was_put_back_lets_nobody_wait_longer_for_the_next_try() -> None:
    core = core_with()
    task = failing(core, BEGUN)
    own_time = submit(core, begin_at=BEGUN + 50.0)
    core.plan(BEGUN)
    pause = (task.not_before or 0.0) - BEGUN
    core.take_outcome()
    core.plan(BEGUN - 86400.0)
    assert task.not_before == task.eligible_at == BEGUN - 86400.0 + pause
    assert own_time.not_before == BEGUN + 50.0, "that is what somebody asked for"
    assert written(core) == {task.id}
    core.plan(BEGUN - 86400.0 + pause)
    assert task.state is TaskState.STARTING
    assert own_time.state is TaskState.WAITING


def test_a_clock_that_was_put_back_lets_the_next_try_wait_ten_seconds_where_pauses_are_shorter() -> None:
    core = core_with()
    core.tuning.set("scheduler.retry_after_s", 1, "chen", BEGUN)
    task = failing(core, BEGUN)
    core.plan(BEGUN)
    core.plan(BEGUN - 86400.0)
    assert task.not_before == BEGUN - 86400.0 + 10.0


def test_an_edit_of_one_that_waits_for_a_time_says_nothing_new_of_that_time() -> None:
    core = core_with()
    task = submit(core, begin_at=90.0, not_before=90.0)
    core.plan(1.0)
    core.edit(msgspec.structs.replace(task, command="better"))
    core.take_outcome()
    core.plan(2.0)
    assert written(core) == set()


def ids(core: Core) -> list[int]:
    return [task.id for task in core.queue()]


def test_places_are_given_at_both_ends_and_between_and_those_that_are_passed_are_told() -> None:
    core = core_with(online=False)
    for _ in range(5):
        submit(core)
    core.move(1, 5)
    core.move(5, 1)
    assert ids(core) == [5, 2, 3, 4, 1]
    core.move(1, 99)
    core.move(4, 2)
    core.move(4, 0)
    assert ids(core) == [4, 5, 2, 3, 1]
    passed: list[int] = []
    core.move(1, 3, lambda other: passed.append(other.id))
    assert (ids(core), passed) == ([4, 5, 1, 2, 3], [2, 3])


def test_a_place_that_belongs_to_another_priority_is_refused_on_both_sides() -> None:
    core = core_with(online=False)
    submit(core, priority=5)
    for _ in range(2):
        submit(core)
    submit(core, priority=-5)
    for task_id, position in ((2, 1), (2, 4), (1, 2), (4, 3)):
        with pytest.raises(ConflictError):
            core.move(task_id, position)
    core.move(3, 2)
    core.move(1, 1)
    core.move(4, 4)
    assert ids(core) == [1, 3, 2, 4]


def test_many_moves_to_one_place_keep_the_order_and_number_only_their_own_rank_anew() -> None:
    core = core_with(online=False)
    urgent, first, *_ = [submit(core, priority=5), *(submit(core) for _ in range(3))]
    core.take_outcome()
    for turn in range(60):
        core.move(3 + turn % 2, 3)
    assert ids(core) == [urgent.id, first.id, 4, 3]
    assert urgent.position is None
    assert written(core) == {first.id, 3, 4}


def test_a_piece_of_the_queue_is_a_piece_of_the_whole_whether_the_whole_was_asked_for_or_not() -> None:
    core = core_with(online=False)
    for _ in range(6):
        submit(core)
    for begin, end in ((0, 2), (1, 3), (2, 6), (0, 6), (1, 9), (0, 9)):
        core.move(6, 1 + begin)
        piece = [task.id for task in core.queued(begin, end)]
        assert piece == ids(core)[begin:end] == [task.id for task in core.queued(begin, end)]
    whole = core.queue()
    assert core.queue() is whole, "between two changes it is one list"
    submit(core)
    assert len(core.queue()) == 7
