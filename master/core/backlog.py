"""The order in which waiting tasks are tried, grouped by who asks and what for.

Pure. A task is here when nothing but room on a node keeps it from starting: held tasks and those with predecessors are
not. Tasks of one owner with equal requests form a group with a heap of its own; if the first of a group does not fit,
none of it does, so a round of planning looks at groups, not at tasks. Entries are removed lazily: one that no longer is
what the table says is skipped when it comes to the top. Whose group it is, is there for policies that look at people.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import msgspec

from master.core.request import Demand, Request, request_of
from master.core.task import QUEUED, Task

FEW = 4
"""So many doublings more than what comes must be there already for it to be put into its place one by one."""


class Order(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where a task stands in the queue: who sorts lower goes first. Forced before all, then urgent, higher priorities,
    lower positions (the id unless moved), lower ids."""

    unforced: bool
    not_urgent: bool
    below: int
    position: float
    id: int

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """What no move changes."""
        return (self.unforced, self.not_urgent, self.below)


def order_of(task: Task) -> Order:
    """The sort key of the queue. Nothing else decides who stands before whom."""
    position = task.position if task.position is not None else float(task.id)
    return Order(not task.forced, not task.urgent, -task.priority, position, task.id)


class Backlog:
    """Add, discard, look at the first of each group, walk through one."""

    def __init__(self) -> None:
        self._groups: dict[Request, dict[str, _Group]] = {}
        self._entries: dict[int, tuple[_Group, Order]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, task_id: int) -> bool:
        return task_id in self._entries

    def add(self, task: Task) -> None:
        """File a task; filing it again (after an edit or a move) replaces the old entry."""
        request, order = request_of(task), order_of(task)
        owners = self._groups.get(request)
        if owners is None:
            owners = self._groups[request] = {}
        group = owners.get(task.owner)
        if group is None:
            group = owners[task.owner] = _Group(Demand(task.owner, request))
        group.fresh.append(order)
        self._entries[task.id] = (group, order)

    def discard(self, task_id: int) -> None:
        """Take a task out; harmless if it is not here."""
        self._entries.pop(task_id, None)

    def group_of(self, task_id: int) -> Demand | None:
        """The demand under which a task is filed."""
        entry = self._entries.get(task_id)
        return entry[0].demand if entry else None

    def order(self, task_id: int) -> Order | None:
        """Where a task stands that is here."""
        entry = self._entries.get(task_id)
        return entry[1] if entry else None

    def alike(self, tasks: Iterable[Task]) -> dict[Demand | int, list[int]]:
        """The ids of the queued ones of these tasks, by their demands; of one that is not here, for it is not room on
        a node that it waits for, by its id."""
        entry_of = self._entries.get
        found: dict[Demand | int, list[int]] = {}
        before: _Group | None = None
        same: list[int] = []
        for task in tasks:
            number = task.id
            entry = entry_of(number)
            if entry is None:
                if task.state in QUEUED:
                    found[number] = [number]
                continue
            group = entry[0]
            if group is not before:  # of neighbours many are of one batch
                before, same = group, found.setdefault(group.demand, [])
            same.append(number)
        return found

    def groups(self) -> Iterator[tuple[Order, Demand]]:
        """The first task of each group that has one; groups that ran empty are dropped."""
        for request, owners in list(self._groups.items()):
            for owner, group in list(owners.items()):
                order = self._first(group)
                if order is None:
                    del owners[owner]
                else:
                    yield order, group.demand
            if not owners:
                del self._groups[request]

    def following(self, demand: Demand) -> Iterator[Order]:
        """The entries of a group, in order. Nothing may be added while this is walked."""
        group = self._groups.get(demand.request, {}).get(demand.owner)
        heap = group.in_order() if group is not None else []
        ahead = [(heap[0], 0)] if heap else []
        while ahead:
            order, at = heapq.heappop(ahead)
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(heap):
                    heapq.heappush(ahead, (heap[child], child))
            if self._is_filed(order):
                yield order

    def _first(self, group: _Group) -> Order | None:
        heap = group.in_order()
        while heap:
            if self._is_filed(heap[0]):
                return heap[0]
            heapq.heappop(heap)
        return None

    def _is_filed(self, order: Order) -> bool:
        """Is it this very entry that holds? One that was filed again, be it with the same words, has another."""
        entry = self._entries.get(order.id)
        return entry is not None and entry[1] is order


class _Group:
    """The orders of one demand: a heap, and what came since somebody looked."""

    __slots__ = ("demand", "fresh", "heap")

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self.heap: list[Order] = []
        self.fresh: list[Order] = []

    def in_order(self) -> list[Order]:
        """The heap, with all in it."""
        if self.fresh:
            if len(self.fresh) > len(self.heap) >> FEW:
                self.heap += self.fresh
                heapq.heapify(self.heap)
            else:
                for order in self.fresh:
                    heapq.heappush(self.heap, order)
            self.fresh = []
        return self.heap
