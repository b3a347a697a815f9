"""The verb that lists tasks. A list of a hundred thousand takes longer to make than others may wait, so it is made in
slices: whoever answers lets others have their turn between two of them (`Slices`).

Which tasks are in the list is settled at one moment; each is shown as it is when its slice is made, and one that is no
longer like what was asked for by then is left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterator
from itertools import chain, islice
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from master.core.tasks.backlog import order_of
from master.core.tasks.task import ACTIVE, ENDED, EVERY, QUEUED, SparseTask, Task, TaskState, TaskView
from master.durable.archive_index import text_of
from master.verbs.base import Context, Pieces
from master.verbs.task_rows import SparseRows, WholeRows
from master.views.messages import MessageView
from master.views.sight import Sight
from wire.errors import NotFoundError
from wire.message import Message

SLICE = 400
"""Tasks that are looked at, or encoded, between two chances for others: about 1 ms of them."""
RUN = 4_000
"""Tasks that are sorted at once: about 1 ms of them."""

Page: TypeAlias = tuple[list[Task], int]
"""Tasks to show, and how many there are without limit and offset."""
Slices: TypeAlias = Generator[None, None, Pieces]
"""Work that yields whenever others may have their turn; what it returns is the result."""

SortKey = Literal["id", "name", "owner", "state", "gpus", "node", "priority", "submitted", "started", "ended", "time"]
Key: TypeAlias = Callable[[Task], Any]
States: TypeAlias = frozenset[TaskState]
"""Those that are asked for."""
Wanted: TypeAlias = Callable[[list[Task]], list[Task]]
"""Gives those of some tasks that are like what was asked for."""


class ListTasks(msgspec.Struct, forbid_unknown_fields=True):
    """task.list: which, and which part of them. `array`: those of the array whose first task this is. `since`: of the
    ended only what ended then or later (seconds since the epoch). `sparse`: leave out of each task what is as in
    `defaults`, and tell the reasons of waiting tasks once for all who share one; a long list is a third as long then,
    and as dear."""

    states: list[TaskState] | None = None
    active: bool = True
    ended: bool = False
    ids: list[Annotated[int, Meta(ge=1)]] | None = None
    array: Annotated[int, Meta(ge=1)] | None = None
    mine: bool = False
    user: str | None = None
    search: str | None = None
    since: float | None = None
    sort: SortKey | None = None
    reverse: bool = False
    limit: Annotated[int, Meta(ge=0)] | None = None
    offset: Annotated[int, Meta(ge=0)] = 0
    sparse: bool = False


class TaskList(msgspec.Struct, frozen=True):
    """The `tasks` that were asked for, each with every key, and how many there are in `total`, without limit and
    offset."""

    tasks: list[TaskView]
    total: int


class SparseTaskList(msgspec.Struct, frozen=True):
    """With `sparse`. `defaults`: of the keys that a task leaves out; `reasons`: why queued tasks wait, ids by reason;
    `reason_messages`: each of these for programs; `warnings`, `warning_messages`: what looks wrong with running ones,
    likewise; `unsaved`: ids of tasks whose newest change is not written yet; `total`: how many there are without limit
    and offset."""

    tasks: list[SparseTask]
    defaults: dict[str, Any]
    reasons: dict[str, list[int]]
    reason_messages: dict[str, MessageView]
    warnings: dict[str, list[int]]
    warning_messages: dict[str, MessageView]
    unsaved: list[int]
    total: int


def list_tasks(context: Context, params: ListTasks) -> Slices:
    """Tasks: running ones first, then the queue in its order, then the ended ones, newest first; or as `sort` says."""
    then, states = context.core.touched, _states(params)
    if _in_order_of_the_queue(params, states):
        return _shown(context, params, states, then, _stretch(context, params.offset, params.limit))
    return _made(context, params, states, then, _candidates(context, params, states))


def _made(context: Context, params: ListTasks, states: States, then: int, candidates: list[list[Task]]) -> Slices:
    page = yield from _found(params, candidates, _wanted(context, params, states), context.sight)
    return (yield from _shown(context, params, states, then, page))


def _shown(context: Context, params: ListTasks, states: States, then: int, page: Page) -> Slices:
    core, (tasks, total) = context.core, page
    answer = (SparseRows if params.sparse else WholeRows)(core, context.sight)
    for part in _parts(tasks):
        there = part
        if core.touched != then:  # between two slices one may have gone, or become what was not asked for
            there = [task for task in part if task.state in states and core.tasks.get(task.id) is task]
        total -= len(part) - len(there)
        answer.add(there)
        yield
    return answer.result(total)


def _in_order_of_the_queue(params: ListTasks, states: States) -> bool:
    """Is it simply what is alive and what waits, as they stand?"""
    filtered = _is_named(params) or params.mine or params.user is not None or params.search
    return not (filtered or params.sort or params.reverse) and states == QUEUED | ACTIVE


def _stretch(context: Context, offset: int, limit: int | None) -> Page:
    """A part of them, without a look at the others: a queue may hold a hundred thousand."""
    active, core = context.core.active(), context.core
    total = len(active) + len(core.queue_order)
    end = total if limit is None else offset + limit
    return active[offset:end] + core.queued(max(offset - len(active), 0), max(end - len(active), 0)), total


def _found(
    params: ListTasks, candidates: list[list[Task]], wanted: Wanted, sight: Sight
) -> Generator[None, None, Page]:
    """Return the requested page of the candidates that match."""
    groups: list[list[Task]] = []
    for group in candidates:
        found: list[Task] = []
        for part in _parts(group):
            found += wanted(part)
            yield
        groups.append(found)
    total, end = sum(map(len, groups)), None if params.limit is None else params.offset + params.limit
    ahead, rest, reverse = [*chain(*groups[:-1])], groups[-1], params.reverse
    if params.sort is not None:
        ordered = yield from _in_order(ahead + rest, _key(params.sort, sight), end, reverse=reverse)
        return ordered[params.offset : end], total
    # The ended ones, newest first; or those that were named, of any state.
    key, newest_first = (_place, False) if _is_named(params) else (_end, True)
    if reverse:
        ordered = [*(yield from _in_order(rest, key, end, reverse=not newest_first)), *reversed(ahead)]
    else:
        left = None if end is None else max(end - len(ahead), 0)
        ordered = [*ahead, *(yield from _in_order(rest, key, left, reverse=newest_first))]
    return ordered[params.offset : end], total


def _candidates(context: Context, params: ListTasks, states: States) -> list[list[Task]]:
    """Tasks among which those asked for are, each once, taken at one moment: in order but for the last group."""
    core = context.core
    if params.ids is not None:
        return [[core.find(task_id) for task_id in dict.fromkeys(params.ids)]]
    if params.array is not None:
        return [tasks_of_array(context, params.array)]
    ended = [task for task in core.tasks.values() if task.state in ENDED] if states & ENDED else []
    owner = next(iter(_owners(context, params)), None)
    if owner is not None:
        his = core.tasks_of(owner)
        return [sorted((task for task in his if task.state not in ENDED), key=_place), ended]
    return [core.active() if states & ACTIVE else [], core.queue() if states & QUEUED else [], ended]


def _owners(context: Context, params: ListTasks) -> set[str]:
    """Return the owners whose tasks are requested: one; or two, who own no task together; none if all tasks are
    requested."""
    return {owner for owner in (params.user, context.user if params.mine else None) if owner is not None}


def tasks_of_array(context: Context, array_id: int) -> list[Task]:
    """Return the tasks of an array that the caller may see. Raises NotFoundError if the caller may see none of
    them, as if there were no such array."""
    tasks, sight = [*context.core.arrays.tasks(array_id)], context.sight
    if sight.hides_others:
        tasks = [task for task in tasks if sight.searched(task).array is not None]
    if not tasks:
        raise NotFoundError(Message("no_array", id=array_id))
    return tasks


def check_array(context: Context, array_id: int) -> None:
    """Raise NotFoundError for an array of which the caller may see no task; the first one is enough."""
    sight = context.sight
    if not any(
        not sight.hides_others or sight.searched(task).array is not None for task in context.core.arrays.tasks(array_id)
    ):
        raise NotFoundError(Message("no_array", id=array_id))


def _wanted(context: Context, params: ListTasks, states: States) -> Wanted:
    since, needle = params.since, (params.search or "").casefold()
    sight = context.sight
    owners = _owners(context, params)

    def wanted(tasks: list[Task]) -> list[Task]:
        found = tasks  # mostly all of them, which is seen faster than of each
        if not states.issuperset([task.state for task in tasks]):
            found = [task for task in tasks if task.state in states]
        for owner in owners:
            found = [task for task in found if task.owner == owner]
        if since is not None:
            found = [task for task in found if task.state not in ENDED or (task.ended_at or 0.0) >= since]
        return [task for task in found if needle in text_of(sight.searched(task))] if needle else found

    return wanted


def _is_named(params: ListTasks) -> bool:
    """Is it said which tasks they are, in whatever state?"""
    return params.ids is not None or params.array is not None


def _states(params: ListTasks) -> States:
    if params.states is not None:
        return frozenset(params.states)
    if _is_named(params):
        return EVERY
    return (QUEUED | ACTIVE if params.active else frozenset()) | (ENDED if params.ended else frozenset())


# -- order ----------------------------------------------------------------------------------------------------


def _in_order(
    tasks: list[Task], key: Key, most: int | None, *, reverse: bool = False
) -> Generator[None, None, list[Task]]:
    """The tasks sorted, or the first of them; of equal ones the older first."""
    runs: list[list[tuple[Any, int, Task]]] = []
    for begin in range(0, len(tasks), RUN):
        run: list[tuple[Any, int, Task]] = []
        for part in _parts(tasks[begin : begin + RUN]):
            run += [(key(task), task.id, task) for task in part]
            yield
        run.sort(reverse=reverse)
        runs.append(run)
    merged = islice(heapq.merge(*runs, reverse=reverse) if len(runs) > 1 else chain(*runs), most)
    found: list[Task] = []
    while part := [entry[2] for entry in islice(merged, SLICE)]:
        found += part
        yield
    return found


def _place(task: Task) -> tuple[Any, ...]:
    if task.state in ACTIVE:
        return (0, task.started_at or float("inf"), task.id)
    if task.state in QUEUED:
        return (1, order_of(task))
    return (2, -_end(task), -task.id)


def _end(task: Task) -> float:
    return task.ended_at or 0.0


def _node(task: Task) -> str:
    if task.allocation:
        return task.allocation[0].node
    return task.node or next(iter(task.node_list or task.gpus_on), "")


def _took(now_or_end: float, task: Task) -> float:
    return now_or_end - (task.started_at or task.eligible_at or task.submitted_at)


_LAST = float("inf")
_SORTS: dict[str, Key] = {
    "id": lambda task: task.id,
    "name": lambda task: task.name,
    "owner": lambda task: task.owner,
    "state": lambda task: task.state.value,
    "gpus": lambda task: task.gpus,
    "node": _node,
    "priority": lambda task: -task.priority,
    "submitted": lambda task: task.submitted_at,
    "started": lambda task: task.started_at or _LAST,
    "ended": lambda task: task.ended_at or _LAST,
    # A running task has no end: the later it began, the shorter it has taken so far.
    "time": lambda task: (0, _took(task.ended_at, task)) if task.ended_at else (1, _took(0.0, task)),
}


def _key(sort: SortKey, sight: Sight) -> Key:
    """Of what is not told of a task its place must tell nothing either."""
    key = _SORTS[sort]
    if not sight.hides_others:
        return key
    return lambda task: key(sight.searched(task))


def _parts(tasks: list[Task]) -> Iterator[list[Task]]:
    return (tasks[at : at + SLICE] for at in range(0, len(tasks), SLICE))
