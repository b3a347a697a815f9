"""The verb that lists tasks. A list of a hundred thousand takes longer to make than others may wait, so it is made in
slices: whoever answers lets others have their turn between two of them (`Slices`).

Which tasks are in the list is settled at one moment; each is shown as it is when its slice is made, and one that is no
longer like what was asked for by then is left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterator
from itertools import chain, islice
from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta

from master.core.backlog import order_of
from master.core.request import Demand
from master.core.task import ACTIVE, ENDED, QUEUED, SparseTask, Task, TaskState, TaskView
from master.durable.archive_index import text_of
from master.verbs.base import Context, Pieces
from master.views.messages import MessageView, Shown, message_view, shown

SLICE = 200
"""Tasks that are looked at, or encoded, between two chances for others: about 2 ms of them."""

Page: TypeAlias = tuple[list[Task], int]
"""Tasks to show, and how many there are without limit and offset."""
Slices: TypeAlias = Generator[None, None, Pieces]
"""Work that yields whenever others may have their turn; what it returns is the result."""

SortKey = Literal["id", "name", "owner", "state", "gpus", "node", "priority", "submitted", "started", "ended", "time"]
Key: TypeAlias = Callable[[Task], Any]

_encode = msgspec.json.Encoder().encode


class ListTasks(msgspec.Struct, forbid_unknown_fields=True):
    """task.list: which, and which part of them. `since`: of the ended only what ended then or later (seconds since the
    epoch). `sparse`: leave out of each task what is as in `defaults`, and tell the reasons of waiting tasks once for
    all who share one; a long list is a third as long then, and as dear."""

    states: list[TaskState] | None = None
    active: bool = True
    ended: bool = False
    ids: list[Annotated[int, Meta(ge=1)]] | None = None
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


_DEFAULTS = {
    name: value
    for name, value in msgspec.to_builtins(TaskView(id=0, command="")).items()
    if name not in ("id", "command")
}


def list_tasks(context: Context, params: ListTasks) -> Slices:
    """Tasks: running ones first, then the queue in its order, then the ended ones, newest first; or as `sort` says."""
    if _in_order_of_the_queue(params):
        return _shown(context, params, *_stretch(context, params.offset, params.limit))
    return _made(context, params, _candidates(context, params))


def _made(context: Context, params: ListTasks, candidates: list[list[Task]]) -> Slices:
    tasks, total = yield from _found(context, params, candidates)
    return (yield from _shown(context, params, tasks, total))


def _shown(context: Context, params: ListTasks, tasks: list[Task], total: int) -> Slices:
    answer = _Sparse(context) if params.sparse else _Whole(context)
    states, known = _states(params), context.core.tasks
    for part in _parts(tasks):
        # Between two slices one may have gone, or become what was not asked for.
        there = [task for task in part if task.state in states and known.get(task.id) is task]
        total -= len(part) - len(there)
        answer.add(there)
        yield
    return answer.result(total)


def _in_order_of_the_queue(params: ListTasks) -> bool:
    """Is it simply what is alive and what waits, as they stand?"""
    filtered = params.ids is not None or params.mine or params.user is not None or params.search
    return not (filtered or params.sort or params.reverse) and _states(params) == QUEUED | ACTIVE


def _stretch(context: Context, offset: int, limit: int | None) -> Page:
    """A part of them, without a look at the others: a queue may hold a hundred thousand."""
    active, core = context.core.active(), context.core
    total = len(active) + len(core.standing)
    end = total if limit is None else offset + limit
    return active[offset:end] + core.queued(max(offset - len(active), 0), max(end - len(active), 0)), total


def _found(context: Context, params: ListTasks, candidates: list[list[Task]]) -> Generator[None, None, Page]:
    """What is asked for, of all that is like it."""
    wanted = _wanted(context, params)
    groups: list[list[Task]] = []
    for group in candidates:
        found: list[Task] = []
        for part in _parts(group):
            found += filter(wanted, part)
            yield
        groups.append(found)
    *in_order, rest = groups
    if params.sort is not None:
        everything = yield from _in_order([*chain(*in_order), *rest], _SORTS[params.sort], reverse=params.reverse)
    else:
        everything = [*chain(*in_order), *(yield from _in_order(rest, _place))]
        if params.reverse:
            everything.reverse()
    return everything[params.offset : None if params.limit is None else params.offset + params.limit], len(everything)


def _candidates(context: Context, params: ListTasks) -> list[list[Task]]:
    """Tasks among which those asked for are, each once, taken at one moment: in order but for the last group."""
    core, states = context.core, _states(params)
    if params.ids is not None:
        return [[core.find(task_id) for task_id in dict.fromkeys(params.ids)]]
    ended = [task for task in core.tasks.values() if task.state in ENDED] if states & ENDED else []
    return [core.active() if states & ACTIVE else [], core.queue() if states & QUEUED else [], ended]


def _wanted(context: Context, params: ListTasks) -> Callable[[Task], bool]:
    """Whether a task is like what was asked for."""
    states, since, needle = _states(params), params.since, (params.search or "").casefold()
    owners = {owner for owner in (params.user, context.user if params.mine else None) if owner is not None}

    def wanted(task: Task) -> bool:
        return (
            task.state in states
            and (not owners or owners == {task.owner})
            and (since is None or task.state not in ENDED or (task.ended_at or 0.0) >= since)
            and (not needle or needle in text_of(task))
        )

    return wanted


def _states(params: ListTasks) -> frozenset[TaskState]:
    if params.states is not None:
        return frozenset(params.states)
    if params.ids is not None:
        return frozenset(TaskState)
    return (QUEUED | ACTIVE if params.active else frozenset()) | (ENDED if params.ended else frozenset())


# -- order ----------------------------------------------------------------------------------------------------


def _in_order(tasks: list[Task], key: Key, *, reverse: bool = False) -> Generator[None, None, list[Task]]:
    """The tasks sorted; of equal ones the older first."""
    runs = []
    for part in _parts(tasks):
        runs.append(sorted(((key(task), task.id, task) for task in part), reverse=reverse))
        yield
    merged = heapq.merge(*runs, reverse=reverse)
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
    return (2, -(task.ended_at or 0.0), -task.id)


def _node(task: Task) -> str:
    return task.allocation[0].node if task.allocation else task.node or ""


def _took(now_or_end: float, task: Task) -> float:
    return now_or_end - (task.started_at or task.submitted_at)


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
    # What goes on has no end: of such, the later its beginning the shorter it took so far.
    "time": lambda task: (0, _took(task.ended_at, task)) if task.ended_at else (1, _took(0.0, task)),
}


def _parts(tasks: list[Task]) -> Iterator[list[Task]]:
    return (tasks[at : at + SLICE] for at in range(0, len(tasks), SLICE))


# -- what is answered -----------------------------------------------------------------------------------------


class _Reasons:
    """Why queued tasks wait. Those of one demand share a reason, worked out, worded and encoded once."""

    def __init__(self, context: Context) -> None:
        self._why = context.core.why_it_waits
        self._demands_of = context.core.backlog.demands_of
        self._shared: dict[int, Shown] = {}
        self._kept: list[Demand] = []

    def of(self, tasks: list[Task]) -> list[Shown]:
        """Those of these queued tasks."""
        shared = self._shared
        pairs = zip(tasks, self._demands_of(tasks), strict=True)
        return [shared.get(id(demand)) or self._first_of(demand, task) for task, demand in pairs]

    def _first_of(self, demand: Demand | None, task: Task) -> Shown:
        text, key, args = one = shown(self._why(task))
        if demand is None:
            return one
        self._kept.append(demand)  # so that nothing else comes to have its address
        encoded = cast("dict[str, Any]", msgspec.Raw(_encode(args)))
        shared = self._shared[id(demand)] = (text, key, encoded)
        return shared


class _Whole:
    """Each task with every key."""

    def __init__(self, context: Context) -> None:
        self._core = context.core
        self._reasons = _Reasons(context)
        self._parts: list[bytes] = []

    def add(self, tasks: list[Task]) -> None:
        """Encode some more."""
        if not tasks:
            return
        views = msgspec.convert(tasks, list[TaskView], from_attributes=True)
        queued = [(task, seen) for task, seen in zip(tasks, views, strict=True) if task.state in QUEUED]
        reasons = self._reasons.of([task for task, _ in queued])
        for (_, seen), reason in zip(queued, reasons, strict=True):
            seen.reason, seen.reason_key, seen.reason_args = reason
        for task, seen in zip(tasks, views, strict=True):
            if (wrong := self._core.what_looks_wrong(task)) is not None:
                seen.warning, seen.warning_key, seen.warning_args = shown(wrong)
            seen.unsaved = task.id in self._core.unsaved
        self._parts.append(_encode(views)[1:-1])

    def result(self, total: int) -> Pieces:
        """The answer."""
        return _answer(self._parts, {"total": total})


class _Sparse:
    """Each task with what is not as in `defaults`; reasons and warnings beside them, by their text."""

    def __init__(self, context: Context) -> None:
        self._core = context.core
        self._of = _Reasons(context)
        self._reasons: dict[str, list[int]] = {}
        self._reason_messages: dict[str, MessageView] = {}
        self._warnings: dict[str, list[int]] = {}
        self._warning_messages: dict[str, MessageView] = {}
        self._unsaved: list[int] = []
        self._parts: list[bytes] = []

    def add(self, tasks: list[Task]) -> None:
        """Encode some more."""
        if not tasks:
            return
        queued = [task for task in tasks if task.state in QUEUED]
        for task, (text, key, args) in zip(queued, self._of.of(queued), strict=True):
            if text in self._reasons:
                self._reasons[text].append(task.id)
            elif text is not None and key is not None and args is not None:
                self._reasons[text], self._reason_messages[text] = [task.id], MessageView(key, args)
        if self._core.warnings or self._core.large_logs:
            for task in tasks:
                self._warn(task)
        if self._core.unsaved:
            self._unsaved += [task.id for task in tasks if task.id in self._core.unsaved]
        self._parts.append(_encode([_told(task) for task in tasks])[1:-1])

    def _warn(self, task: Task) -> None:
        wrong = self._core.what_looks_wrong(task)
        if wrong is not None:
            text = str(wrong)
            self._warnings.setdefault(text, []).append(task.id)
            self._warning_messages[text] = message_view(wrong)

    def result(self, total: int) -> Pieces:
        """The answer."""
        told = {"reasons": self._reasons, "reason_messages": self._reason_messages}
        told |= {"warnings": self._warnings, "warning_messages": self._warning_messages, "unsaved": self._unsaved}
        return _answer(self._parts, {"defaults": _DEFAULTS, **told, "total": total})


def _told(task: Task) -> Task | SparseTask:
    """The task as the list has it: mostly that is how it is on disk."""
    return msgspec.convert(task, SparseTask, from_attributes=True) if task.earlier or task.asked_end else task


def _answer(parts: list[bytes], beside: dict[str, Any]) -> Pieces:
    """An object of `tasks` and what stands beside them. `parts`: the tasks, encoded, with commas."""
    tasks = [piece for part in parts for piece in (b",", part)][1:]
    return Pieces([b'{"tasks":[', *tasks, b"],", _encode(beside)[1:]])
