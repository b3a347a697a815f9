"""The order in which waiting tasks are tried, grouped by what they ask for.

Pure. A task is here when nothing but room on a node keeps it from starting: held tasks and those with predecessors are
not. Tasks with equal requests form a group with a heap of its own; if the first of a group does not fit, none of it
does, so a round of planning looks at groups, not at tasks. Entries are removed lazily: one that no longer is what the
table says is skipped when it comes to the top.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TypeAlias

from master.core.inventory import Request, request_of
from master.core.task import Task

Order: TypeAlias = tuple[bool, bool, int, float, int]


def order_of(task: Task) -> Order:
    """The sort key of the queue: forced, urgent, priority (higher first), position (the id unless moved), id."""
    position = task.position if task.position is not None else float(task.id)
    return (not task.forced, not task.urgent, -task.priority, position, task.id)


class Backlog:
    """Add, discard, look at the first of each group, take it."""

    def __init__(self) -> None:
        self._heaps: dict[Request, list[Order]] = {}
        self._entries: dict[int, tuple[Request, Order]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, task_id: int) -> bool:
        return task_id in self._entries

    def add(self, task: Task) -> None:
        """File a task; filing it again (after an edit or a move) replaces the old entry."""
        request, order = request_of(task), order_of(task)
        self._entries[task.id] = (request, order)
        heapq.heappush(self._heaps.setdefault(request, []), order)

    def discard(self, task_id: int) -> None:
        """Take a task out; harmless if it is not here."""
        self._entries.pop(task_id, None)

    def group_of(self, task_id: int) -> Request | None:
        """The request under which a task is filed."""
        entry = self._entries.get(task_id)
        return entry[0] if entry else None

    def groups(self) -> Iterator[tuple[Order, Request]]:
        """The first task of each group that has one; groups that ran empty are dropped."""
        for request in list(self._heaps):
            order = self.first(request)
            if order is None:
                del self._heaps[request]
            else:
                yield order, request

    def first(self, request: Request) -> Order | None:
        """The entry at the head of a group, None if the group is empty. Its last item is the task's id."""
        heap = self._heaps.get(request, [])
        while heap:
            if self._entries.get(heap[0][-1]) == (request, heap[0]):
                return heap[0]
            heapq.heappop(heap)
        return None

    def take(self, request: Request) -> int:
        """Take the head of a group out and give its id."""
        task_id = heapq.heappop(self._heaps[request])[-1]
        del self._entries[task_id]
        return task_id
