"""The queue: the tasks that wait or are held, their order, and which of them only room on a node keeps from starting;
of those that wait for a time, until when, and of each since when it is only room.

Pure. It listens to what happens to tasks and decides nothing about them, but the place that somebody gives one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import islice

from master.core.nodes.inventory import Request, request_of
from master.core.outcome import Pending
from master.core.tasks.backlog import Backlog, order_of
from master.core.tasks.later import LEAST_TURN_S, Later, pause_s
from master.core.tasks.queue_order import QueueOrder
from master.core.tasks.task import ACTIVE, HELD, QUEUED, WAITING, Task
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from master.core.tuning import Tuning
from wire.errors import ConflictError
from wire.message import Message

SMALLEST_GAP = 1e-6
"""Between two positions; below it the queue is numbered anew."""
STEP = 1e-5
"""So far behind the last one a task is put that goes behind all: before any that comes later, with room for moves."""


class Waiting:
    """`backlog`: what the planner reads; `queue_order`: the order of all that wait or are held; `later`: those that
    wait for a time."""

    def __init__(self, task_table: TaskTable, pending: Pending, tuning: Tuning) -> None:
        self.backlog = Backlog()
        self.queue_order = QueueOrder(task_table.tasks, self.backlog.order)
        self.later = Later()
        self._task_table = task_table
        self._pending = pending
        self._tuning = tuning
        self._list: list[Task] = []
        self._list_of = self.queue_order.version
        self._fresh: set[int] = set()
        self._clock = float("inf")

    def concerns(self, before: State, after: State) -> bool:
        """Tell whether a task comes into the queue, leaves it, or changes in it."""
        return before in QUEUED or after in QUEUED

    def moved(self, task: Task, before: State, after: State) -> None:
        """Take it in, or out, or look at it anew."""
        self.queue_order.note(task.id)
        if after is WAITING and not task.waits_for:
            if before is None and task.not_before is None:  # as a hundred thousand come in
                self.backlog.add(task)
            else:
                self._admit(task, before)
        else:
            if before is WAITING:
                self.backlog.discard(task.id)
                self.later.discard(task.id)
            if after in QUEUED:
                task.eligible_at = None
        if after is WAITING or (after is HELD and before is not None):
            self._pending.plan_needed = True  # what is held from the beginning changes nothing for others

    def filed(self, tasks: Sequence[Task]) -> None:
        """Take in new tasks that are alike."""
        first = tasks[0]
        if first.state is not WAITING or first.waits_for or first.not_before is not None:
            for task in tasks:
                self.moved(task, None, task.state)
            return
        self.queue_order.note_new(task.id for task in tasks)
        self.backlog.add_alike(tasks)
        self._pending.plan_needed = True

    def _admit(self, task: Task, before: State) -> None:
        """Only room keeps it from starting, or a time that has not come."""
        is_fresh = before is not None and before not in ACTIVE  # of those it was said when they came
        if before is WAITING:
            was_ready = task.id in self.backlog or task.id in self.later
            is_fresh = not was_ready or self.later.time_of(task.id) != task.not_before
        if is_fresh:
            self._fresh.add(task.id)
        self.later.put(task.id, task.not_before)
        if task.id in self.later:
            self.backlog.discard(task.id)
        else:
            self.backlog.add(task)

    def begin(self, now: float) -> None:
        """It is `now`: whose time has come waits for room only."""
        for task_id in self._fresh:
            task = self._task_table.tasks.get(task_id)
            if task is not None and (task_id in self.backlog or task_id in self.later):
                task.eligible_at = max(now, task.not_before or now)
                self._pending.changed(task)
        self._fresh.clear()
        if now < self._clock:
            self._mend(now)
        self._clock = now
        for task_id in self.later.due(now):
            self.backlog.add(self._task_table.tasks[task_id])

    def _mend(self, now: float) -> None:
        """The clock was put back, or may have been while we were not there: the time at which somebody wants a task to
        begin is what it shows, but nobody meant a day by ten seconds."""
        first_s = self._tuning.settings.scheduler.retry_after_s
        for task_id in self.later.ids():
            task = self._task_table.tasks[task_id]
            latest = now + max(LEAST_TURN_S, pause_s(max(0, task.retries - 1), first_s))
            if task.not_before != task.begin_at and task.not_before is not None and task.not_before > latest:
                task.not_before = task.eligible_at = latest
                self.later.put(task_id, latest)
                self._pending.changed(task)

    def queue(self) -> list[Task]:
        """The waiting and held tasks, the next one first. The list is one for all who ask between two changes, and
        never changed."""
        keys = self.queue_order.keys()
        if self._list_of != self.queue_order.version:
            self._list = [self._task_table.tasks[key.id] for key in keys]
            self._list_of = self.queue_order.version
        return self._list

    def queued(self, begin: int, end: int) -> list[Task]:
        """Those of `queue` from one place to another (the first is 0), without looking at the others."""
        keys = self.queue_order.keys()
        if self._list_of == self.queue_order.version or (begin == 0 and end >= len(keys)):
            return self.queue()[begin:end]
        return [self._task_table.tasks[key.id] for key in keys[begin:end]]

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
            for other in islice(others, index, self.queue_order.before(task)):
                passes(other)
        low = order_of(before).position if before and order_of(before).rank == rank else None
        high = order_of(behind).position if behind and order_of(behind).rank == rank else None
        task.position = _between(low, high, task)
        self._task_table.changed(task)
        if low is not None and high is not None and high - low < SMALLEST_GAP:
            self._renumber(rank)

    def put_last(self, task: Task) -> None:
        """Let one that is about to wait again stand behind all of its rank that wait, and before whoever comes."""
        rank = order_of(task).rank
        keys = self.queue_order.keys()
        behind = bisect_right(keys, rank, key=lambda key: key.rank)
        if behind and keys[behind - 1].rank == rank:
            task.position = keys[behind - 1].position + STEP

    def _renumber(self, rank: tuple[bool, bool, int]) -> None:
        # Halving the gap between two neighbours runs out of digits after some forty moves to one place.
        same = [task for task in self.queue() if order_of(task).rank == rank]
        for place, task in enumerate(same, min(task.id for task in same)):
            task.position = float(place)
            self._task_table.changed(task)

    def discrepancies(self) -> list[str]:
        """Where the backlog and the order differ from what the tasks' states say."""
        queued = [task for task in self._task_table.tasks.values() if task.state in QUEUED]
        free = [task for task in queued if task.state is WAITING and not task.waits_for]
        ready = [task for task in free if task.id not in self.later]
        missing = [task for task in ready if task.id not in self.backlog]
        found = [f"task {task.id} could start and is not in the backlog" for task in missing]
        found += self.backlog.discrepancies()
        found += [
            f"task {task.id} is in the backlog with another wish than it has"
            for task in ready
            if task.id in self.backlog and _wish_in(self.backlog, task) != request_of(task)
        ]
        if len(self.backlog) != len(ready) and not found:
            found.append(f"the backlog holds {len(self.backlog)} tasks, and {len(ready)} could start")
        found += [
            f"task {task.id} waits for another time than it should"
            for task in free
            if self.later.time_of(task.id) != task.not_before
        ]
        if not set(self.later.ids()) <= {task.id for task in free}:
            found.append("a task waits for a time that is not its own")
        queue_order, sorted_anew = self.queue_order.keys(), sorted(order_of(task) for task in queued)
        if queue_order != sorted_anew:
            ids = sorted({key.id for key in set(queue_order) ^ set(sorted_anew)})
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
