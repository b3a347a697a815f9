"""Arrays: how many of one run at once, what holds its rest after failures, and that crashes change nothing of it."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.arrays import LINE, Array
from master.core.tasks.task import ACTIVE, ENDED, ArrayPlace, Task, TaskState
from tests.faults import says
from tests.master.core.small_core import BOOT, EIGHT, core_with, launch_of, submit
from tests.walks import some
from wire.errors import ConflictError, NotFoundError
from wire.message import Message


def array(core: Core, count: int, *, cap: int | None = None, max_fails: int | None = None, **wants: Any) -> list[Task]:
    first = core.next_id
    wants.setdefault("gpus", 1)
    drafts = [Task(id=0, command="true", array=ArrayPlace(first, index), **wants) for index in range(count)]
    return core.submit_array(drafts, 1.0, cap=cap, max_fails=max_fails)


def end(core: Core, task: Task, code: int = 0, now: float = 3.0) -> None:
    core.exited(task.allocation[0].node, Exit(launch_of(task), "exited", now, code), now)


def alive(core: Core, *arrays: int) -> list[int]:
    core.plan(0.0)
    return sorted(
        task.id
        for task in core.tasks.values()
        if task.state in ACTIVE and (not arrays or (task.array is not None and task.array.id in arrays))
    )


class Disk:
    """What was written down of a core, and another one that takes it over: after a crash."""

    def __init__(self) -> None:
        self.tasks: dict[int, Task] = {}
        self.state: dict[str, Any] = {}

    def keep(self, core: Core) -> None:
        outcome = core.take_outcome()
        if outcome is None:
            return
        self.tasks |= {task.id: task for task in outcome.change.tasks}
        for gone in outcome.change.gone:
            self.tasks.pop(gone, None)
        for name, raw in outcome.change.state.items():
            if bytes(raw) == b"null":
                self.state.pop(name, None)
            else:
                self.state[name] = raw

    def again(self, *specs: NodeSpec) -> Core:
        core = core_with(*specs, online=False)
        core.load(dict(self.tasks), {}, max(self.tasks, default=0) + 1, self.state)
        for spec in specs or (EIGHT,):
            core.node_state(spec.name, NodeState.ONLINE, None, BOOT)
        return core


def test_no_more_of_an_array_run_than_its_cap_and_others_are_not_kept_by_it() -> None:
    core = core_with()
    tasks = array(core, 5, cap=2)
    other = submit(core, gpus=1)
    assert alive(core) == [1, 2, other.id]
    assert core.why_it_waits(tasks[2]) == Message(
        "over_quota", obstacles=(Message("array_runs_enough", id=1, used=2, most=2),)
    )
    end(core, tasks[0])
    assert alive(core, 1) == [2, 3]


def test_a_cap_can_be_changed_taken_back_and_given_later() -> None:
    core = core_with()
    tasks = array(core, 6)
    assert alive(core) == [1, 2, 3, 4, 5, 6]
    core.edit_array(1, cap=2)
    end(core, tasks[0])
    core.retry(1)
    assert alive(core) == [2, 3, 4, 5, 6], "what runs is not ended by a cap"
    for task in tasks[1:5]:
        end(core, task)
    assert alive(core) == [1, 6]
    core.retry(2)
    core.edit_array(1, cap=None)
    assert alive(core) == [1, 2, 6]
    with pytest.raises(NotFoundError):
        core.edit_array(4, cap=1)


def test_nobody_passes_the_cap_not_even_an_admin_who_starts_one() -> None:
    core = core_with()
    tasks = array(core, 3, cap=1)
    assert alive(core) == [1]
    core.force(3, over_quota=True)
    assert alive(core) == [1]
    end(core, tasks[0])
    assert alive(core) == [3]


def test_after_so_many_failures_the_rest_is_held_and_says_why_until_it_is_released() -> None:
    core = core_with()
    tasks = array(core, 8, cap=2, max_fails=2)
    alive(core)
    end(core, tasks[0], 1)
    end(core, tasks[1], 0)
    assert alive(core) == [3, 4], "one has failed, and that is not two"
    end(core, tasks[2], 1)
    assert {task.state for task in tasks[4:]} == {TaskState.HELD}
    assert says(
        core.why_it_waits(tasks[5]), "array_failed_so", id=1, count=2, tasks="1, 3", times=2, said="exit code 1"
    )
    assert alive(core) == [4]
    for task in tasks[4:]:
        core.release(task.id)
    assert alive(core) == [4, 5]
    end(core, tasks[3], 1)
    assert alive(core) == [5, 6], "it is counted anew"
    end(core, tasks[4], 1)
    assert alive(core) == [6]
    assert {task.state for task in tasks[6:]} == {TaskState.HELD}


def test_what_is_tried_again_is_no_failure_before_its_last_attempt_and_is_held_with_the_rest() -> None:
    core = core_with()
    first, second, third = array(core, 3, max_fails=1, max_retries=1, cap=2)
    alive(core)
    end(core, first, 1)
    assert (first.state, third.state) == (TaskState.WAITING, TaskState.WAITING)
    core.plan(20.0)
    other = third if third.state in ACTIVE else first
    end(core, other, 0, 21.0)
    core.plan(22.0)
    end(core, first, 1, 23.0) if other is third else end(core, third, 1, 23.0)
    if other is third:
        assert first.state is TaskState.FAILED
        end(core, second, 1, 24.0)
        assert (second.state, second.reason_key) == (TaskState.HELD, "array_failed_so")


def test_a_failure_that_is_tried_again_by_hand_counts_no_more_and_cancelled_ones_never_did() -> None:
    core = core_with()
    tasks = array(core, 4, cap=1, max_fails=2)
    alive(core)
    end(core, tasks[0], 1)
    core.cancel(2, 3.0)
    core.retry(1)
    assert alive(core) == [1]
    end(core, tasks[0], 1)
    assert alive(core) == [3]
    assert core.arrays.known[1].failed == (1,)


def test_what_is_known_of_an_array_is_there_after_a_restart_and_gone_with_its_last_task() -> None:
    core, disk = core_with(), Disk()
    tasks = array(core, 3, cap=1, max_fails=1)
    alive(core)
    disk.keep(core)
    again = disk.again(EIGHT)
    assert alive(again) == [1]
    assert again.arrays.known == core.arrays.known
    end(again, again.tasks[1], 1)
    assert again.tasks[2].state is TaskState.HELD
    disk.keep(again)
    third = disk.again(EIGHT)
    assert says(third.why_it_waits(third.tasks[2]), "array_failed_so", id=1, count=1, tasks="1")
    for task in tasks:
        third.remove(task.id, 5.0)
    assert not third.arrays.known
    disk.keep(third)
    assert "array/1" not in disk.state


def test_a_hundred_thousand_are_filed_and_held_at_once() -> None:
    core = Core((EIGHT,), lambda task, attempt: f"{task}.{attempt}")
    tasks = array(core, 100_000, cap=4, max_fails=1)
    assert len(core.backlog) == 100_000
    assert sum(1 for _ in core.backlog.groups()) == 1, "planning costs what one does"
    core.node_state("a", NodeState.ONLINE, None, BOOT)
    assert alive(core) == [1, 2, 3, 4]
    end(core, tasks[0], 1)
    assert core.counts[TaskState.HELD] == 99_996
    core.sanity_check()


def _happens(core: Core, chance: random.Random, now: float) -> None:
    ids = sorted(core.tasks)
    one = core.tasks[chance.choice(ids)] if ids else None
    match chance.randrange(12):
        case 0 | 1:
            wants = {"gpus": chance.choice([0, 1, 2, 8]), "owner": chance.choice(["ann", "bob"])}
            array(core, chance.randint(1, 6), cap=chance.choice([None, 1, 2, 3]), max_fails=chance.choice([None, 2]),
                  max_retries=chance.choice([0, 0, 1]), **wants)  # fmt: skip
        case 2:
            submit(core, gpus=chance.choice([0, 1]))
        case 3 | 4 | 5 | 6 if one is not None and one.state in ACTIVE:
            end(core, one, chance.choice([0, 0, 1]), now)
        case 7 if one is not None and one.array is not None:
            core.edit_array(one.array.id, cap=chance.choice([None, 1, 2]))
        case 8 if one is not None:
            core.retry(one.id)
        case 9 if one is not None:
            chance.choice([core.hold, core.release])(one.id)
        case 10 if one is not None:
            core.force(one.id, over_quota=chance.random() < 0.5)
        case 11 if one is not None:
            core.remove(one.id, now) if chance.random() < 0.5 else core.cancel(one.id, now)


@settings(max_examples=some(200), deadline=None)
@given(st.integers(0, 2**32), st.integers(10, 50))
def test_the_cap_holds_at_every_moment_over_crashes_and_nothing_else_is_kept_by_it(seed: int, steps: int) -> None:
    chance = random.Random(seed)
    core, disk = core_with(), Disk()
    for step in range(steps):
        now = 10.0 + 1000 * step
        before = _running(core)
        try:
            _happens(core, chance, now)
        except (ConflictError, NotFoundError):
            continue
        core.plan(now)
        core.plan(now)  # what was kept for others in the first may be free in the second
        after = _running(core)
        for number, cap in core.arrays.capped.items():
            assert after.get(number, 0) <= max(cap, before.get(number, 0)), f"array {number}"
        for task in core.tasks.values():
            if task.state is TaskState.WAITING and task.id in core.backlog:
                assert core.wait(task).brief != Message("next"), f"task {task.id} could have started"
        disk.keep(core)
        if chance.random() < 0.2:
            core = disk.again(EIGHT)
            assert _running(core) == after
    assert all(task.ended_at is not None for task in core.tasks.values() if task.state in ENDED)


def _running(core: Core) -> dict[int, int]:
    found: dict[int, int] = {}
    for task in core.tasks.values():
        if task.state in ACTIVE and task.array is not None:
            found[task.array.id] = found.get(task.array.id, 0) + 1
    return found


def ended_so(core: Core, task: Task, line: str, now: float = 5.0) -> None:
    """A task fails with this as the last line of its log."""
    core.exited("a", Exit(launch_of(task), "exited", now, 1, last_line=line), now)


def test_the_line_that_most_logs_of_the_failed_end_with_is_told_whatever_its_numbers() -> None:
    core = core_with()
    tasks = array(core, 5, cap=3, max_fails=3, owner="ann")
    alive(core)
    ended_so(core, tasks[0], "OSError: no file part-1.csv")
    ended_so(core, tasks[1], "KeyboardInterrupt")
    ended_so(core, tasks[2], "OSError: no file part-3.csv")
    why = core.why_it_waits(tasks[3])
    assert tasks[3].state is TaskState.HELD
    assert why is not None
    assert (why.key, why.plain_args()) == (
        "array_failed_with",
        {
            "id": 1, "count": 3, "tasks": "1-3", "said": "exit code 1", "times": 3, "owner": "ann", "logs": 2,
            "line": "OSError: no file part-1.csv",
        },
    )  # fmt: skip
    assert tasks[3].reason == str(why)


def test_where_every_log_ends_otherwise_none_of_them_is_told_for_all() -> None:
    core = core_with()
    tasks = array(core, 4, cap=2, max_fails=2)
    alive(core)
    ended_so(core, tasks[0], "this")
    ended_so(core, tasks[1], "that")
    assert tasks[2].reason_key == "array_failed_so"
    [one, other] = array(core, 2, cap=1, max_fails=1)
    alive(core)
    ended_so(core, one, "x" * 1000)
    assert (other.reason_key, len((other.reason_args or {})["line"])) == ("array_failed_with", LINE)


def test_what_is_told_of_the_rest_is_the_same_after_a_restart() -> None:
    core, disk = core_with(), Disk()
    tasks = array(core, 2, cap=1, max_fails=1, owner="ann")
    alive(core)
    ended_so(core, tasks[0], "boom")
    disk.keep(core)
    again = disk.again(EIGHT)
    assert str(again.why_it_waits(again.tasks[2])) == str(core.why_it_waits(tasks[1]))


def test_how_many_an_array_has_and_between_which_indices_is_known_as_long_as_one_of_them_is_here() -> None:
    core, disk = core_with(), Disk()
    array(core, 4)
    core.cancel(1, 1.0)
    core.remove(1, 2.0)
    disk.keep(core)
    known = disk.again(EIGHT).arrays.known[1]
    assert (known.count, known.least, known.greatest, known.cap) == (4, 0, 3, None)
    old = msgspec.json.decode(b'{"id":1,"count":3,"cap":2}', type=Array)
    assert (old.count, old.least, old.greatest) == (3, None, None)
