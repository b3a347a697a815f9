"""The queue: the tasks that wait or are held, their order, and which of them only room on a node keeps from starting.

Pure. It listens to what happens to tasks and decides nothing about them, but the place that somebody gives one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from master.core.backlog import Backlog, order_of
from master.core.book import Book
from master.core.inventory import Request, request_of
from master.core.law import State
from master.core.outcome import Pending
from master.core.standing import Standing
from master.core.task import QUEUED, Task, TaskState
from wire.errors import ConflictError
from wire.message import Message

SMALLEST_GAP = 1e-6
"""Between two positions; below it the queue is numbered anew."""


class Waiting:
    """`backlog`: what the planner reads; `standing`: the order of all that wait or are held."""

    def __init__(self, book: Book, pending: Pending) -> None:
        self.backlog = Backlog()
        self.standing = Standing(book.tasks, self.backlog.order)
        self._book = book
        self._pending = pending
        self._list: list[Task] = []
        self._list_of = self.standing.version

    def concerns(self, before: State, after: State) -> bool:
        """Whoever comes into the queue, leaves it, or changes in it."""
        return before in QUEUED or after in QUEUED

    def moved(self, task: Task, before: State, after: State) -> None:
        """Take it in, or out, or look at it anew."""
        self.standing.note(task.id)
        if after is TaskState.WAITING and not task.waits_for:
            self.backlog.add(task)
        elif before is TaskState.WAITING:
            self.backlog.discard(task.id)
        if after is TaskState.WAITING or (after is TaskState.HELD and before is not None):
            self._pending.plan_needed = True  # what is held from the beginning changes nothing for others

    def queue(self) -> list[Task]:
        """The waiting and held tasks, the next one first. The list is one for all who ask between two changes, and
        never changed."""
        keys = self.standing.keys()
        if self._list_of != self.standing.version:
            self._list = [self._book.tasks[key.id] for key in keys]
            self._list_of = self.standing.version
        return self._list

    def queued(self, begin: int, end: int) -> list[Task]:
        """Those of `queue` from one place to another (the first is 0), without looking at the others."""
        keys = self.standing.keys()
        if self._list_of == self.standing.version or (begin == 0 and end >= len(keys)):
            return self.queue()[begin:end]
        return [self._book.tasks[key.id] for key in keys[begin:end]]

    def place(self, task: Task, position: int, passes: Callable[[Task], None] | None = None) -> None:
        """Give a queued task the place `position` (1: next). Priority is not changed by it: a place that belongs to
        another priority is refused, with ConflictError."""
        others = [other for other in self.queue() if other.id != task.id]
        index = min(max(position, 1), len(others) + 1) - 1
        rank = order_of(task).rank
        before = others[index - 1] if index else None
        behind = others[index] if index < len(others) else None
        if (before and order_of(before).rank > rank) or (behind and order_of(behind).rank < rank):
            raise ConflictError(
                Message("place_of_other_priority", position=position, priority=task.priority, id=task.id)
            )
        if passes is not None:
            for other in islice(others, index, self.standing.before(task)):
                passes(other)
        low = order_of(before).position if before and order_of(before).rank == rank else None
        high = order_of(behind).position if behind and order_of(behind).rank == rank else None
        task.position = _between(low, high, task)
        self._book.changed(task)
        if low is not None and high is not None and high - low < SMALLEST_GAP:
            self._renumber(rank)

    def _renumber(self, rank: tuple[bool, bool, int]) -> None:
        # Halving the gap between two neighbours runs out of digits after some forty moves to one place.
        same = [task for task in self.queue() if order_of(task).rank == rank]
        for place, task in enumerate(same, min(task.id for task in same)):
            task.position = float(place)
            self._book.changed(task)

    def discrepancies(self) -> list[str]:
        """Where the backlog and the order differ from what the tasks' states say."""
        queued = [task for task in self._book.tasks.values() if task.state in QUEUED]
        ready = [task for task in queued if task.state is TaskState.WAITING and not task.waits_for]
        missing = [task for task in ready if task.id not in self.backlog]
        found = [f"task {task.id} could start and is not in the backlog" for task in missing]
        found += [
            f"task {task.id} is in the backlog with another wish than it has"
            for task in ready
            if task.id in self.backlog and _wish_in(self.backlog, task) != request_of(task)
        ]
        if len(self.backlog) != len(ready) and not found:
            found.append(f"the backlog holds {len(self.backlog)} tasks, and {len(ready)} could start")
        standing, sorted_anew = self.standing.keys(), sorted(order_of(task) for task in queued)
        if standing != sorted_anew:
            ids = sorted({key.id for key in set(standing) ^ set(sorted_anew)})
            found.append(f"the queue's order is not that of its tasks, for tasks {ids}")
        return found


def _between(low: float | None, high: float | None, task: Task) -> float:
    if low is None and high is None:
        return float(task.id)
    if low is None:
        return (high or 0.0) - 1.0
    if high is None:
        return low + 1.0
    return (low + high) / 2


def _wish_in(backlog: Backlog, task: Task) -> Request | None:
    demand = backlog.group_of(task.id)
    return demand.request if demand is not None else None
