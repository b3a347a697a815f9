"""The core against itself: whatever happens, all its parts agree, and where they did not, the check would say so."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core, InconsistentError
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import ACTIVE, After, Task, TaskState
from tests.master.core.small_core import BOOT, REBOOTED, core_with, launch_of, submit
from wire.errors import MusterError
from wire.message import Message

NAMES = "abc"
SPECS = tuple(NodeSpec(name=name, gpu_models=("GPU",) * 4, slots=2) for name in NAMES)


def core_in_use() -> tuple[Core, Task, Task, Task]:
    """A core with a task that runs, one that waits for room, and one that waits for that one."""
    core = core_with()
    runs, waits = submit(core, gpus=8), submit(core, gpus=1)
    follows = submit(core, after=[After(waits.id)])
    core.plan(0.0)
    return core, runs, waits, follows


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_in_whatever_order_the_parts_agree(seed: int) -> None:
    chance = random.Random(seed)
    core = core_with(*SPECS)
    for _ in range(250):
        with suppress(MusterError):  # of some it is in a state in which this cannot be done
            chance.choice(HAPPENINGS)(core, chance)
        if chance.random() < 0.3:
            core.plan(float(chance.randrange(100)))  # the clock may be put back
    again = core_with(*SPECS, online=False)
    outcome = core.take_outcome()
    again.load(dict(core.tasks), {}, core.next_id, outcome.change.state if outcome else {})
    assert {task.id for task in again.active()} == {task.id for task in core.active()}
    assert again.queue() == core.queue()


def _some(core: Core, chance: random.Random) -> int:
    return chance.choice(list(core.tasks)) if core.tasks else 1


def _submit(core: Core, chance: random.Random) -> None:
    after = [After(_some(core, chance), chance.choice(("ok", "fail", "any")))] if chance.random() < 0.3 else []
    gpu_ids = [chance.randrange(4)] if chance.random() < 0.1 else None
    gpus = chance.randrange(5) if gpu_ids is None else 1
    again = {"max_retries": chance.randrange(3), "on_timeout": chance.choice(("fail", "requeue"))}
    begin_at = chance.choice((None, None, float(chance.randrange(60))))
    who = {"priority": chance.randrange(2), "owner": chance.choice("xy")}
    submit(core, gpus=gpus, gpu_ids=gpu_ids, after=after, begin_at=begin_at, **who, **again)


def _edit(core: Core, chance: random.Random) -> None:
    after = [After(_some(core, chance), "any")] if chance.random() < 0.5 else []
    begin_at = chance.choice((None, float(chance.randrange(60))))
    core.edit(Task(id=_some(core, chance), command="other", gpus=chance.randrange(5), after=after, begin_at=begin_at))


def _node_speaks(core: Core, chance: random.Random) -> None:
    active = core.active()
    if not active:
        return
    task = chance.choice(active)
    assert task.allocation
    launch, node = task.allocation[0].launch_id, task.allocation[0].node
    if chance.random() < 0.5:
        core.started(node, launch, 2.0, 2.0, pid=chance.randrange(3))
    elif chance.random() < 0.3:
        core.exited(node, Exit(launch, "not_started", 3.0, None, "why", None, chance.choice(("node", "task"))), 3.0)
    else:
        cause = chance.choice(("exited", "killed", "unknown", "timed_out"))
        core.exited(node, Exit(launch, cause, 3.0, chance.choice((0, 1))), 3.0)


def _node_returns(core: Core, chance: random.Random) -> None:
    name = chance.choice(NAMES)
    node = core.inventory.nodes.get(name)
    if node is None:
        return
    facts = chance.choice((BOOT, REBOOTED))
    core.node_state(name, NodeState.CONNECTING, None, facts)
    launches = [launch_of(core.tasks[task_id]) for task_id in node.active]
    seen = [Seen(launch, 2.0) for launch in launches if chance.random() < 0.7]
    core.reconcile(name, [*seen, *([Seen("9.9.9", 2.0)] if chance.random() < 0.2 else [])], 4.0)
    core.node_state(name, NodeState.ONLINE)


def _node_is_decided_upon(core: Core, chance: random.Random) -> None:
    name = chance.choice(NAMES)
    decisions: list[Callable[[], object]] = [
        lambda: core.drain(name, "", "kim", 1.0),
        lambda: core.resume(name),
        lambda: core.rested(name),
        lambda: core.set_aside(name, 1, "broken"),
        lambda: core.return_gpu(name, 1),
        lambda: core.gpus_seen(name, [], 5.0),
        lambda: core.gpus_unseen(name),
        lambda: core.node_state(name, NodeState.UNREACHABLE, "gone"),
        lambda: core.give_up(name, "kim", 5.0),
        lambda: core.set_nodes(tuple(spec for spec in SPECS if chance.random() < 0.8)),
        lambda: core.set_nodes(SPECS),
    ]
    chance.choice(decisions)()


HAPPENINGS: list[Callable[[Core, random.Random], object]] = [
    _submit, _submit, _submit, _edit, _node_speaks, _node_speaks, _node_returns, _node_is_decided_upon,
    lambda core, chance: core.cancel(_some(core, chance), 5.0, Message("agent_said", said="no more")),
    lambda core, chance: core.hold(_some(core, chance)),
    lambda core, chance: core.release(_some(core, chance)),
    lambda core, chance: core.force(_some(core, chance)),
    lambda core, chance: core.move(_some(core, chance), chance.randrange(1, 9)),
    lambda core, chance: core.retry(_some(core, chance)),
    lambda core, chance: core.remove(_some(core, chance), 5.0, successors=chance.random() < 0.5),
    lambda core, _: core.drop_archived([task.id for task in core.oldest_ended(5)]),
]  # fmt: skip


def a_gpu_is_free_that_is_held(core: Core) -> None:
    core.inventory.nodes["a"].gpu_holders.pop(3)


def a_gpu_counts_as_free_twice(core: Core) -> None:
    core.inventory.nodes["a"].free_gpus.append(3)


def a_slot_is_held_by_nobody(core: Core) -> None:
    core.inventory.nodes["a"].held["slots"] += 1


def a_task_is_counted_twice(core: Core) -> None:
    core.counts[TaskState.WAITING] += 1


def the_backlog_has_lost_a_task(core: Core) -> None:
    core.backlog.discard(2)


def a_task_holds_gpus_that_another_holds(core: Core) -> None:
    core.tasks[2].state = TaskState.RUNNING
    core.tasks[2].allocation = core.tasks[1].allocation


def a_state_was_changed_behind_the_books_back(core: Core) -> None:
    core.tasks[2].state = TaskState.HELD


def a_wish_was_changed_behind_the_backlogs_back(core: Core) -> None:
    core.tasks[2].gpus = 7


def a_predecessor_was_struck_out_without_a_word(core: Core) -> None:
    core.tasks[3].waits_for = []


def somebody_waits_for_what_has_ended(core: Core) -> None:
    core.tasks[3].waits_for = [After(77)]


def a_time_was_changed_behind_the_queues_back(core: Core) -> None:
    core.tasks[2].not_before = 9e9


def an_attempt_is_known_by_another_id(core: Core) -> None:
    task = core.tasks[1]
    task.allocation = [msgspec.structs.replace(task.allocation[0], launch_id="other")]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (a_gpu_is_free_that_is_held, "node a"),
        (a_gpu_counts_as_free_twice, "count as free"),
        (a_slot_is_held_by_nobody, "is booked"),
        (a_task_is_counted_twice, "are counted as waiting"),
        (the_backlog_has_lost_a_task, "task 2 could start and is not in the backlog"),
        (a_task_holds_gpus_that_another_holds, "is held by task 1"),
        (a_state_was_changed_behind_the_books_back, "are counted as"),
        (a_wish_was_changed_behind_the_backlogs_back, "another wish"),
        (a_predecessor_was_struck_out_without_a_word, "successors of task 2"),
        (somebody_waits_for_what_has_ended, "task 77, which ends no more"),
        (a_time_was_changed_behind_the_queues_back, "task 2 waits for another time"),
        (an_attempt_is_known_by_another_id, "task 1 is not known by its launch id"),
    ],
)
def test_a_core_whose_parts_differ_says_where(damage: Callable[[Core], None], told: str) -> None:
    core = core_in_use()[0]
    core.sanity_check()
    damage(core)
    with pytest.raises(InconsistentError, match=told):
        core.sanity_check()


def test_the_core_of_a_test_is_checked_after_each_event_also_after_one_that_is_refused() -> None:
    core, runs, *_ = core_in_use()
    assert runs.state in ACTIVE
    a_task_is_counted_twice(core)
    with pytest.raises(InconsistentError):
        core.hold(99)


def test_a_long_chain_ends_with_its_first_link() -> None:
    core = Core(SPECS, lambda task, no: f"{task}.{no}")
    first = submit(core)
    last = first
    for _ in range(1500):  # more than Python's limit of nested calls
        last = submit(core, after=[After(last.id)])
    core.cancel(first.id, 2.0)
    assert last.state is TaskState.CANCELLED
    core.sanity_check()


def test_a_held_task_that_is_cancelled_for_its_predecessors_sake_says_so() -> None:
    core, _, waits, follows = core_in_use()
    core.hold(follows.id)
    core.cancel(waits.id, 2.0, Message("agent_said", said="no more"))
    assert (follows.state, waits.reason) == (TaskState.CANCELLED, "no more")
    assert f"predecessor {waits.id} had to succeed" in (follows.reason or "")
