"""Shares: one user fills neither the queue nor the master's memory, and what is counted is what there is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.config.settings import Settings
from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.people.shares import Share
from master.core.tasks import size as sizes
from master.core.tasks.size import SMALL, large_size, large_sizes
from master.core.tasks.task import After, ArrayPlace, Snapshot, Task, TaskState, Wish
from tests.cases import each_case
from tests.faults import said
from tests.master.core import mixed_walk
from tests.master.core.small_core import core_with, launch_of, run, submit
from tests.walks import IN_TIME, some
from wire.errors import LimitError, MusterError
from wire.message import Message

MIB = 1 << 20
BY_SHARE = ("queue_share", "size_share")
BARE = large_size(Task(id=0, command="x" * MIB)) - MIB
"""The bytes of a task beside its command."""


def lab(waiting: int = 10, size: int = MIB, share: float = 0.5, *names: str) -> Core:
    """One with the users ann, bob and cy, in which so much may wait."""
    core = core_with(waiting_limit=waiting)
    for name in names or ("ann", "bob", "cy"):
        core.people.add(name)
    core.tuning.set("limits.task_bytes", size, "root", 1.0)
    core.tuning.set("limits.user_share", share, "root", 1.0)
    core.take_outcome()
    return core


def large(size: int = MIB // 4, **keys: Any) -> Task:
    """A task that holds so many bytes."""
    return Task(id=0, command="x" * (size - BARE), **{"owner": "ann", **keys})


def refused(ask: Callable[[], object]) -> Message:
    """Return what is told."""
    with pytest.raises(LimitError) as caught:
        ask()
    return said(caught.value)


def fill(core: Core, owner: str, count: int) -> list[Task]:
    return core.submit_many(Task(id=0, command="x", owner=owner), ["true"] * count, lambda n: f"/{n}.log", 1.0)


def test_one_user_may_take_half_of_the_queue_the_next_half_of_the_rest_and_there_is_room_for_one_more() -> None:
    core = lab(waiting=16)
    for owner, most in (("ann", 8), ("bob", 4), ("cy", 2)):
        fill(core, owner, most)
        refusal = Message("queue_share", owner=owner, waiting=most, count=1, most=most, total=16)
        assert refused(lambda: submit(core, owner=owner)) == refusal  # noqa: B023  (it is called at once)
        assert core.share_of(owner) == Share(most, most, 0, MIB // 2)
    submit(core, owner="admin")


def test_until_there_are_users_one_may_take_all_of_it() -> None:
    core = core_with(waiting_limit=4)
    fill(core, "lab", 4)
    assert refused(lambda: submit(core, owner="lab")) == Message("queue_full", waiting=4, most=4)
    assert core.share_of("lab").most_waiting == 4


def test_a_hundred_thousand_tasks_of_one_user_are_within_what_holds_unless_it_is_set() -> None:
    core, limits = lab(Settings().limits.waiting_tasks), Settings().limits
    assert core.share_of("ann").most_waiting == 100_000
    assert limits.task_bytes * limits.user_share >= 100_000 * SMALL


SHARED: tuple[Callable[[Core], object], ...] = (
    lambda core: submit(core, owner="ann"),
    lambda core: submit(core, owner="ann", state=TaskState.HELD),
    lambda core: fill(core, "ann", 3),
    lambda core: core.submit_array(
        [Task(id=0, command="x", owner="ann", array=ArrayPlace(core.next_id, n)) for n in range(3)], 1.0
    ),
    lambda core: core.retry(1),
    lambda core: core.edit(msgspec.structs.replace(core.tasks[1], priority=1)),
    lambda core: core.check_room([Task(id=0, command="x", owner="ann")]),
)


@pytest.mark.parametrize("ask", SHARED)
def test_each_way_into_the_queue_is_refused_beyond_the_share_and_leaves_all_as_it_was(
    ask: Callable[[Core], object],
) -> None:
    core = lab(waiting=6)
    ended = submit(core, owner="ann")
    core.cancel(ended.id, 1.0)
    fill(core, "ann", 3)
    core.take_outcome()
    assert refused(lambda: ask(core)).key in BY_SHARE
    assert core.take_outcome() is None
    assert ended.state is TaskState.CANCELLED
    submit(core, owner="bob")
    for number in (2, 3, 4, 5):
        core.cancel(number, 1.0)
    ask(core)


def test_a_batch_of_which_a_part_would_pass_is_refused_whole() -> None:
    core = lab(waiting=6)
    assert refused(lambda: fill(core, "ann", 4)).key in BY_SHARE
    assert core.tasks == {}
    assert core.next_id == 1
    assert len(fill(core, "ann", 3)) == 3


def test_a_limit_below_what_is_there_takes_nothing_away_and_refuses_what_is_new() -> None:
    core = lab(waiting=20)
    kept = fill(core, "ann", 8)
    core.submit([large()], 1.0)
    core.tuning.set("limits.waiting_tasks", 4, "root", 1.0)
    core.tuning.set("limits.task_bytes", MIB, "root", 1.0)
    core.tuning.set("limits.user_share", 0.1, "root", 1.0)
    assert all(core.tasks[task.id] is task for task in kept)
    assert refused(lambda: submit(core, owner="bob")).key == "queue_full"
    core.hold(1)
    core.release(1)
    core.force(1)
    core.edit(msgspec.structs.replace(core.tasks[9], priority=1))
    core.edit(msgspec.structs.replace(core.tasks[9], command="x" * (MIB // 8)))  # smaller, if beyond the limit still
    assert refused(lambda: core.edit(msgspec.structs.replace(core.tasks[9], command="x" * (MIB // 4)))).key in BY_SHARE
    run(core, core.tasks[1])
    assert refused(lambda: core.retry(1)).key == "queue_full"
    assert core.tasks[1].state is TaskState.SUCCEEDED


def test_an_attempt_that_is_tried_again_by_itself_waits_again_whatever_the_limit_is() -> None:
    core = lab(waiting=4)
    task = submit(core, owner="ann", max_retries=1, retry_on=["fail"])
    core.plan(0.0)
    fill(core, "bob", 2)
    core.tuning.set("limits.waiting_tasks", 1, "root", 1.0)
    run(core, task, code=1)
    assert task.state is TaskState.WAITING
    assert core.share_of("ann").waiting == 1


def test_large_tasks_of_one_user_hold_half_of_the_bytes_while_they_wait_are_held_or_run() -> None:
    core = lab()
    first, second = core.submit([large(MIB // 4)], 1.0)[0], core.submit([large(MIB // 4, state=TaskState.HELD)], 1.0)[0]
    refusal = Message("size_share", owner="ann", size=MIB // 2, more=5000, most=MIB // 2, total=MIB)
    assert refused(lambda: core.submit([large(5000)], 1.0)) == refusal
    submit(core, owner="ann")  # a small one has room
    core.plan(1.0)
    assert first.state is TaskState.STARTING
    assert refused(lambda: core.submit([large(5000)], 1.0)) == refusal
    core.submit([large(MIB // 4, owner="bob")], 1.0)
    core.cancel(second.id, 1.0)
    core.submit([large(5000)], 1.0)


def test_the_bytes_of_all_together_are_bounded_for_admins_and_where_there_are_no_users() -> None:
    core = lab(size=MIB, share=1.0)
    core.submit([large(MIB)], 1.0)
    for owner in ("ann", "bob"):
        told = refused(lambda: core.submit([large(5000, owner=owner)], 1.0))  # noqa: B023  (it is called at once)
        assert told == Message("tasks_too_large", size=MIB, more=5000, most=MIB)
    alone = core_with()
    alone.tuning.set("limits.task_bytes", MIB, "root", 1.0)
    alone.submit([large(MIB, owner="lab")], 1.0)
    assert refused(lambda: alone.submit([large(5000, owner="lab")], 1.0)).key == "tasks_too_large"


BEYOND: tuple[Callable[[Core], object], ...] = (
    lambda core: core.submit([large(MIB // 4)], 1.0),
    lambda core: core.submit_many(Task(id=0, command="", owner="ann"), ["x" * (MIB // 8)] * 2, lambda n: f"/{n}", 1.0),
    lambda core: core.submit_many(
        Task(id=0, command="", owner="ann", variables={"a": "x" * (MIB // 8)}), ["x"] * 2, lambda n: f"/{n}", 1.0
    ),
    lambda core: core.submit_array(
        [large(MIB // 8, array=ArrayPlace(core.next_id, n), sweep={"a": "b"}) for n in range(2)], 1.0
    ),
    lambda core: core.edit(msgspec.structs.replace(core.tasks[2], variables={"a": "x" * (MIB // 4)})),
    lambda core: core.edit(msgspec.structs.replace(core.tasks[2], after=[After(3)] * 1500)),
    lambda core: core.edit(msgspec.structs.replace(core.tasks[2], command=["x", *[""] * 4000])),
    lambda core: core.retry(1),
    lambda core: core.edit(msgspec.structs.replace(core.tasks[1], priority=1)),
    lambda core: core.check_room([large(MIB // 4)]),
)


@pytest.mark.parametrize("ask", BEYOND)
def test_each_way_to_hold_more_bytes_is_refused_beyond_the_share_and_leaves_all_as_it_was(
    ask: Callable[[Core], object],
) -> None:
    core = lab()
    core.cancel(core.submit([large()], 1.0)[0].id, 1.0)
    small, _ = submit(core, owner="ann"), submit(core, owner="ann")
    core.submit([large(MIB // 3)], 1.0)
    before = msgspec.json.encode(small)
    core.take_outcome()
    assert refused(lambda: ask(core)).key in BY_SHARE
    assert core.take_outcome() is None
    assert msgspec.json.encode(small) == before
    core.tuning.set("limits.user_share", 1, "root", 1.0)
    ask(core)


def test_tasks_count_for_who_owns_them_and_a_claim_or_a_gift_is_never_refused() -> None:
    core = core_with(waiting_limit=10)
    core.tuning.set("limits.task_bytes", MIB, "root", 1.0)
    core.submit([large(MIB // 8, owner="old") for _ in range(4)], 1.0)
    core.people.add("new", core.owners())
    core.people.add("bob")
    core.submit([large(MIB // 8, owner="new") for _ in range(2)], 1.0)
    core.claim("old", "new")
    assert core.share_of("new") == Share(6, 5, MIB * 3 // 4, MIB // 2)
    assert core.share_of("old").waiting == core.share_of("old").size == 0
    assert refused(lambda: submit(core, owner="new")).key == "queue_share"
    for number in (1, 2, 3, 4):
        core.give_to(number, "bob")
    assert core.share_of("bob") == Share(4, 4, MIB // 2, MIB * 3 // 8)
    assert core.share_of("new") == Share(2, 3, MIB // 4, MIB // 4)
    assert refused(lambda: core.submit([large(5000, owner="bob", state=TaskState.HELD)], 1.0)).key in BY_SHARE


def test_what_was_counted_is_counted_again_after_a_restart() -> None:
    core = lab(waiting=20)
    core.submit([large(), large(5000, state=TaskState.HELD)], 1.0)
    running = core.submit([large(6000, owner="bob")], 1.0)[0]
    core.plan(1.0)
    ended = core.submit([large(7000, owner="bob")], 1.0)[0]
    core.cancel(ended.id, 1.0)
    fill(core, "ann", 3)
    again = core_with(waiting_limit=20)
    tasks = {number: msgspec.json.decode(msgspec.json.encode(task), type=Task) for number, task in core.tasks.items()}
    pieces = core.take_outcome().change.state  # type: ignore[union-attr]
    again.load(tasks, {}, core.next_id, pieces)
    again.sanity_check()
    for name in ("ann", "bob"):
        assert again.share_of(name).waiting == core.share_of(name).waiting
        assert again.share_of(name).size == core.share_of(name).size
    assert running.id in again.tasks
    assert [task.id for task in again.large_ended(0)] == [ended.id]


def test_large_ended_tasks_are_named_from_the_oldest_on_until_the_rest_is_within_the_bound() -> None:
    core = lab(size=8 * MIB)
    for at in (3.0, 1.0, 2.0):
        core.cancel(core.submit([large()], at)[0].id, at)
    core.cancel(submit(core, owner="ann").id, 0.5)
    assert [task.id for task in core.large_ended(MIB // 2)] == [2]
    assert [task.id for task in core.large_ended(MIB // 2 - 1)] == [2, 3]
    assert core.large_ended(MIB) == []
    core.drop_archived([2])
    assert core.large_ended(MIB // 2) == []
    core.retry(3)
    assert [task.id for task in core.large_ended(0)] == [1]


def test_of_many_that_are_alike_the_long_one_is_found() -> None:
    tasks = [Task(id=number, command="x") for number in range(100)]
    assert large_sizes(tasks) is None
    tasks[50] = Task(id=50, command="x" * 5000)
    assert large_sizes(tasks) == [0] * 50 + [BARE + 5000] + [0] * 49


LONG: dict[str, Any] = {
    **dict.fromkeys(("name", "project", "cwd", "env", "setup", "checkpoint", "command", "log_path"), "x" * (SMALL + 1)),
    **{key: ["x" * SMALL] for key in ("gpu_models", "node_list", "exclude")},
    "snapshot": Snapshot("x" * SMALL, "0" * 16, 1, 1, "", changed=False),
    "variables": {"A": "x" * SMALL},
    "licences": {"x" * SMALL: 1},
    "gpus_on": {"x" * SMALL: [0]},
    "gpu_ids": list(range(SMALL)),
    "after": [After(number) for number in range(SMALL)],
}
SHORT = frozenset({
    "gpus", "gpus_max", "gpu_memory_mib", "share", "min_free_util", "cpus", "memory_mib", "tmp_disk_mib", "nodes",
    "priority", "urgent", "time_limit_s", "begin_at", "on_timeout", "max_retries", "retry_on", "signal", "token",
    "within", "elastic", "node",
})  # fmt: skip
"""What is a number, a choice, or a name of the lab's."""


def test_all_that_a_submit_may_say_at_length_counts() -> None:
    assert LONG.keys() | SHORT == set(Wish.__struct_fields__)
    with each_case() as cases:
        for field, value in LONG.items():
            with cases.case(field):
                task = Task(**{"id": 0, "command": "x", "owner": "ann", field: value})
                assert large_size(task) > SMALL
                assert large_sizes([task, task]) == [large_size(task)] * 2
        for field in ("name", "project", "snapshot", "gpu_models"):
            with cases.case(f"{field}, of wide letters"):
                value = {
                    "snapshot": Snapshot("宽" * 1100, "0" * 16, 1, 1, "", changed=False),
                    "gpu_models": ["宽" * 1100],
                }
                task = Task(**{"id": 0, "command": "x", "owner": "ann", field: value.get(field, "宽" * 1100)})
                assert large_size(task) > SMALL


@IN_TIME
@settings(max_examples=some(600))
@given(st.binary(min_size=30, max_size=120))
def test_whatever_happens_what_is_counted_is_what_there_is(text: bytes) -> None:
    """`sanity_check` of each step counts anew, and so does the next master behind a crash. Each task is a large one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sizes, "SMALL", 0)
        mixed_walk.walk(text)


def ends(core: Core, task: Task, code: int) -> None:
    """It runs, and ends with this code, if it was started."""
    if task.state is TaskState.STARTING:
        launch = launch_of(task)
        core.started("a", launch, 2.0, 2.0)
        core.exited("a", Exit(launch, "exited", 3.0, code), 3.0)


MOVES: tuple[Callable[[Core, Task, int], object], ...] = (
    lambda core, _task, n: core.submit([large(3000 * (n % 4 + 1), owner=("ann", "bob")[n % 2])], 1.0),
    lambda core, _task, n: core.submit_many(
        Task(id=0, command="", owner="bob"), ["x" * 3000 * (n % 3 + 1), "x"], lambda number: f"/{number}", 1.0
    ),
    lambda core, _task, n: core.submit_array(
        [large(3000 * (n % 3 + 1), array=ArrayPlace(core.next_id, one)) for one in range(2)], 1.0
    ),
    lambda core, task, n: core.edit(msgspec.structs.replace(task, command="x" * 2000 * (n % 5 + 1), name=f"n{n}")),
    lambda core, task, n: core.edit(msgspec.structs.replace(task, variables={"a": "节" * 900 * (n % 3)})),
    lambda core, task, n: core.give_to(task.id, ("ann", "bob", "cy")[n % 3]),
    lambda core, task, _: core.cancel(task.id, 1.0),
    lambda core, task, _: core.retry(task.id),
    lambda core, task, _: core.hold(task.id),
    lambda core, task, _: core.release(task.id),
    lambda core, task, _: core.remove(task.id, 1.0),
    lambda core, _task, _n: core.plan(1.0),
    lambda core, task, n: ends(core, task, n % 2),
    lambda core, _task, n: core.disable_user(("ann", "bob")[n % 2], "root"),
    lambda core, _task, n: core.enable_user(("ann", "bob")[n % 2]),
    lambda core, task, _: core.drop_archived([task.id]),
    lambda core, _task, n: core.tuning.set("limits.task_bytes", MIB << n % 3, "root", 1.0),
)


@IN_TIME
@settings(max_examples=some(1000))
@given(st.lists(st.tuples(st.integers(0, len(MOVES) - 1), st.integers(0, 60)), max_size=40))
def test_whatever_people_do_with_large_tasks_they_are_counted_as_they_are(steps: list[tuple[int, int]]) -> None:
    """The core compares the counts with a recount after each event, also one that was refused."""
    core = lab(waiting=30, size=MIB)
    for what, number in steps:
        tasks = list(core.tasks.values()) or [Task(id=0, command="x")]
        with suppress(MusterError):
            MOVES[what](core, tasks[number % len(tasks)], number)
    again = core_with()
    again.load(dict(core.tasks), {}, core.next_id)
    again.sanity_check()
