"""Estimates from earlier runs of a task: how long it will take, and how much of a GPU's memory it will use.

Pure. It is learned from tasks that ended by themselves with 0, the last `KEPT` of each kind: of the same owner, command
(its numbers masked, since a seed or a learning rate changes little), environment and GPUs; where there are none, of the
owner's with as many GPUs; of the owner's; of all. Nothing is kept on disk: the tasks are. Nothing is ever ended for it.

That so simple a grouping comes close to an oracle is the finding of "MLaaS in the Wild" (Weng et al., NSDI'22).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from functools import lru_cache
from math import ceil
from typing import TypeVar

import msgspec

from master.core.planning.expected import Expected, Runs, Source
from master.core.tasks.task import ACTIVE, QUEUED, Task, TaskState
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from wire.pattern import Pattern

KEPT = 7
"""So many runs of a kind say something of the next one."""
HIGH = 0.8
"""The share of runs that took no longer than what is called `high`."""

SUCCEEDED = TaskState.SUCCEEDED
N = TypeVar("N", int, float)


class Learned:
    """Listens to ends. `load` gives it what ended before; that is looked at when somebody asks for the first time."""

    def __init__(self, task_table: TaskTable) -> None:
        self._task_table = task_table
        self._unread: list[Task] = []
        self._times: dict[Hashable, deque[float]] = {}
        self._memory: dict[Hashable, deque[int]] = {}
        self._open: dict[Hashable, list[Task]] = {}
        self._runs = 0
        self._last_run: dict[str, int] = {}
        self._highs: dict[str | None, dict[Hashable, float]] = {}
        """The results of `_high_of`, by command, for each owner who has runs, until one more of theirs has run; under
        None those for all other owners, until one more of anybody's has run."""

    def concerns(self, before: State, after: State) -> bool:
        """Tasks that ended well."""
        return before in ACTIVE and after is TaskState.SUCCEEDED

    def moved(self, task: Task, _before: State, _after: State) -> None:
        """One more has run."""
        if self._unread:
            self._unread.append(task)
        else:
            self._note(task)
        if task.gpu_peak_mib is not None:
            self._tell_those_that_wait(task)

    def load(self, tasks: Iterable[Task]) -> None:
        """Take over the tasks that ended before, and those that wait."""
        for task in tasks:
            if task.state is SUCCEEDED:
                self._unread.append(task)
            elif task.share and task.state in QUEUED and _is_open(task):
                self._open.setdefault(_same_command(task), []).append(task)  # what it was told holds
        self._unread.sort(key=_ended)

    def expected(self, task: Task) -> Expected | None:
        """How long it will run, no longer than its limit; None if there is nothing to go by: an allocation is held
        until somebody releases it."""
        if task.is_allocation:
            return None
        self._read()
        for source, kind in _kinds(task):
            times = self._times.get(kind)
            if times:
                return _within(Expected(*_spread(times), source, len(times)), task.time_limit_s)
        return None

    def at_most(self, task: Task) -> float | None:
        """Seconds after which it will have ended, by its limit or by what four of five of its like took; None if
        nobody knows."""
        if self._unread:
            self._read()
        limit = task.time_limit_s
        if not self._times:
            return limit
        owner = task.owner if task.owner in self._times else None
        highs = self._highs.get(owner)
        if highs is None:
            highs = self._highs[owner] = {}
        kind = _same_command(task)
        high = highs.get(kind)
        if high is None:
            high = highs[kind] = self._high_of(task)
        return high if limit is None or high < limit else limit

    def runs(self) -> Runs:
        """Return which runs there are by now."""
        if self._unread:
            self._read()
        return Runs(self._runs, self._last_run)

    def _high_of(self, task: Task) -> float:
        """Return the time that four of five of its like took, of the narrowest kind of which there are some."""
        known = (self._times.get(kind) for _, kind in _kinds(task))
        return next((_high(sorted(times)) for times in known if times), float("inf"))

    def fill_in(self, task: Task) -> None:
        """A task waits, or is about to: if it would share and does not say how much memory, that is what its like were
        seen to use. It is told again as that becomes known."""
        if not _is_open(task):
            return
        self._read()
        kind = _same_command(task)
        seen = self._memory.get(kind)
        task.learned_gpu_mib = max(seen) if seen else None
        self._open.setdefault(kind, []).append(task)

    # -- learning ---------------------------------------------------------------------------------------------

    def _read(self) -> None:
        unread, self._unread = self._unread, []
        for task in unread:
            self._note(task)

    def _note(self, task: Task) -> None:
        if task.started_at is None or task.ended_at is None or task.is_allocation:
            return
        self._runs += 1
        self._last_run.pop(task.owner, None)
        self._last_run[task.owner] = self._runs  # at the end, for it is the newest
        self._highs.pop(task.owner, None)
        self._highs.pop(None, None)
        took = task.ran_s + max(0.0, task.ended_at - task.started_at)
        for _, kind in _kinds(task):
            _add(self._times, kind, took)
        if task.gpu_peak_mib is not None:
            _add(self._memory, _same_command(task), task.gpu_peak_mib)

    def _tell_those_that_wait(self, like: Task) -> None:
        for task in self._open.pop(_same_command(like), ()):
            if self._task_table.tasks.get(task.id) is not task or task.state not in QUEUED:
                continue  # one that starts anew is filled in by whoever queues it
            before = task.learned_gpu_mib
            self.fill_in(task)
            if task.learned_gpu_mib != before:
                self._task_table.changed(task)


def _is_open(task: Task) -> bool:
    """Would it share, and leaves open how much memory it uses?"""
    return task.share and task.gpu_memory_mib is None and task.gpus > 0


def _add(kept: dict[Hashable, deque[N]], kind: Hashable, value: N) -> None:
    values = kept.get(kind)
    if values is None:
        values = kept[kind] = deque(maxlen=KEPT)
    values.append(value)


def _kinds(task: Task) -> tuple[tuple[Source, Hashable], ...]:
    """The kinds to which a task belongs, the narrowest first."""
    return (
        ("command", _same_command(task)),
        ("gpus", (task.owner, task.gpus)),
        ("owner", task.owner),
        ("all", None),
    )


_NUMBER = Pattern(r"(?<![A-Za-z_])[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?")


def masked(command: list[str] | str) -> str:
    """The command with a mark for each number that stands by itself."""
    return _masked(command if isinstance(command, str) else "\0".join(command))


@lru_cache(maxsize=4096)
def _masked(command: str) -> str:
    """The same commands come again and again: in each plan, those of all who might pass a reserved task."""
    return _NUMBER.sub("#", command)


def _same_command(task: Task) -> Hashable:
    command = task.command
    return (task.owner, _masked(command) if isinstance(command, str) else masked(command), task.env, task.gpus)


def _spread(times: deque[float]) -> tuple[float, float]:
    """The median (of two the smaller) and the `HIGH` quantile, both by nearest rank."""
    ordered = sorted(times)
    return ordered[(len(ordered) - 1) // 2], _high(ordered)


def _high(ordered: list[float]) -> float:
    return ordered[ceil(HIGH * len(ordered)) - 1]


def _within(expected: Expected, limit: float | None) -> Expected:
    if limit is None:
        return expected
    return msgspec.structs.replace(expected, low=min(expected.low, limit), high=min(expected.high, limit))


def _ended(task: Task) -> float:
    return task.ended_at or 0.0
