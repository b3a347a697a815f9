"""The order in which waiting tasks are tried, grouped by who asks and what for.

Pure. A task is here when nothing but room on a node keeps it from starting: held tasks and those with predecessors are
not. Tasks of one owner with equal requests form a group with a heap of its own; if the first of a group does not fit,
none of it does, so a round of planning looks at groups, not at tasks. Entries are removed lazily: one that no longer is
what the table says is skipped when it comes to the top. The owner of a group is kept for policies that look at people.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TypeAlias

import msgspec

from master.core.tasks.request import Demand, Request, demand_of, request_of
from master.core.tasks.task import QUEUED, Task

FEW = 4
"""So many doublings more than what comes must be there already for it to be put into its place one by one."""
SMALL = 16
"""Up to so many are sorted at once rather than one by one."""
_BY_ORDER = itemgetter(0)


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
        """The part of the sort key that no move changes."""
        return (self.unforced, self.not_urgent, self.below)


def order_of(task: Task) -> Order:
    """The sort key of the queue. Nothing else decides who stands before whom."""
    position = task.position if task.position is not None else task.id
    return Order(not task.forced, not task.urgent, -task.priority, position, task.id)


class Backlog:
    """Add, discard, look at the first of each group, walk through one. `projects`, `arrays`: those whose tasks are
    groups of their own; who changes them files these anew."""

    def __init__(self) -> None:
        self.projects: Container[str] = ()
        self.arrays: Container[int] = ()
        self._wishes: dict[Request, _Wish] = {}
        self._serial = itertools.count()
        self._entries: dict[int, _Entry] = {}
        self._looking: set[Request] = set()
        self._in_order: list[tuple[Order, Demand]] = []  # the first of each wish, as of the last look
        self._wish_of: dict[int, Request] = {}  # whose first each of these is, by id
        self._stirred: set[Request] = set()  # wishes that may have another first by now
        self.apart: frozenset[int] = frozenset()
        """Tasks of which something else is to be said than of others that ask for the same."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, task_id: int) -> bool:
        return task_id in self._entries

    def add(self, task: Task) -> None:
        """File a task; filing it again (after an edit or a move) replaces the old entry."""
        self._may_be_first(task.id)
        group, order = self._group_for(task), order_of(task)
        group.fresh.append(order)
        self._entries[task.id] = _Entry(group, order)

    def add_alike(self, tasks: Sequence[Task]) -> None:
        """File new tasks of one owner that ask for the same, of one array if of any."""
        group, orders = self._group_for(tasks[0]), [order_of(task) for task in tasks]
        group.fresh += orders
        self._entries.update((order.id, _Entry(group, order)) for order in orders)

    def _group_for(self, task: Task) -> _Group:
        """Return the group of a task to which something comes."""
        request = request_of(task)
        wish = self._wishes.get(request)
        if wish is None:
            wish = self._wishes[request] = _Wish()
            if request.looks:
                self._looking.add(request)
        asker: _Asker = (task.owner, task.by_admin)
        if task.array is not None or task.over_quota or task.project or task.is_allocation:
            asker = self._asker(task)
        group = wish.groups.get(asker)
        if group is None:
            group = wish.groups[asker] = _Group(demand_of(task, self.projects, self.arrays))
        if not group.fresh:
            wish.fresh.append(group)
            self._stirred.add(request)
        return group

    def _asker(self, task: Task) -> _Asker:
        array = task.array.id if task.array is not None and task.array.id in self.arrays else 0
        project = task.project if task.project in self.projects else ""
        if not (array or task.over_quota or project or task.is_allocation):
            return task.owner, task.by_admin
        return task.owner, task.by_admin, project, task.over_quota, array, task.is_allocation

    def discard(self, task_id: int) -> None:
        """Take a task out; harmless if it is not here."""
        self._entries.pop(task_id, None)
        self._may_be_first(task_id)

    def _may_be_first(self, task_id: int) -> None:
        """The entry of this task holds no more: if it was the first of a wish, another is."""
        request = self._wish_of.get(task_id)
        if request is not None:
            self._stirred.add(request)

    @property
    def looks(self) -> bool:
        """May a task be waiting for what samples tell of GPUs?"""
        return bool(self._looking)

    def group_of(self, task_id: int) -> Demand | None:
        """The demand under which a task is filed."""
        entry = self._entries.get(task_id)
        return entry.group.demand if entry else None

    def order(self, task_id: int) -> Order | None:
        """Where a task stands that is here."""
        entry = self._entries.get(task_id)
        return entry.order if entry else None

    def alike(self, tasks: Iterable[Task]) -> dict[Demand | int, list[int]]:
        """The ids of the queued ones of these tasks, by their demands; of one that is not here, for it is not room on
        a node that it waits for, by its id."""
        entry_of, apart = self._entries.get, self.apart
        found: dict[Demand | int, list[int]] = {}
        before: _Group | None = None
        same: list[int] = []
        for task in tasks:
            number = task.id
            entry = entry_of(number)
            if entry is None or (apart and number in apart):
                if task.state in QUEUED:
                    found[number] = [number]
                continue
            group = entry.group
            if group is not before:  # of neighbours many are of one batch
                before, same = group, found.setdefault(group.demand, [])
            same.append(number)
        return found

    def wishes(self) -> list[tuple[Order, Demand]]:
        """Of those that ask for the same the first one, be they whose they may, in the order of the queue. It is looked
        for only where something came, or where the first has gone; wishes that nobody has are dropped."""
        stirred = {request: wish for request in self._stirred if (wish := self._wishes.get(request)) is not None}
        self._stirred.clear()
        for wish in stirred.values():
            if wish.first is not None:
                del self._in_order[bisect_left(self._in_order, wish.first[0], key=_BY_ORDER)]
                self._wish_of.pop(wish.first[0].id, None)
        for request, wish in stirred.items():
            wish.first = self._first_of(wish)
            if wish.first is None:
                del self._wishes[request]
                self._looking.discard(request)
            else:
                insort(self._in_order, wish.first, key=_BY_ORDER)
                self._wish_of[wish.first[0].id] = request
        return list(self._in_order)

    def groups_of(self, request: Request) -> list[tuple[Order, Demand]]:
        """The first task of each group that asks for this; groups that ran empty are dropped."""
        wish, entry_of, found = self._wishes.get(request), self._entries.get, list[tuple[Order, Demand]]()
        if wish is None:
            return found
        for asker, group in list(wish.groups.items()):
            heap = group.in_order() if group.fresh else group.heap
            order = heap[0] if heap else None
            entry = None if order is None else entry_of(order.id)
            if entry is None or entry.order is not order:  # else it is the first, as mostly
                order = self._first(group)
            if order is None:
                del wish.groups[asker]
            else:
                found.append((order, group.demand))
        return found

    def first_of(self, demand: Demand) -> Order | None:
        """The first task of one group."""
        wish = self._wishes.get(demand.request)
        group = wish.groups.get(_asker_of(demand)) if wish is not None else None
        return None if group is None else self._first(group)

    def has_weak(self, request: Request, owners: Container[str]) -> bool:
        """Does one of these owners ask for this with a task that does not count as an admin's?"""
        wish = self._wishes.get(request)
        return bool(owners) and wish is not None and any(one[0] in owners and not one[1] for one in wish.groups)

    def groups(self) -> Iterator[tuple[Order, Demand]]:
        """The first task of each group that has one."""
        for request in list(self._wishes):
            yield from self.groups_of(request)

    def following(self, demand: Demand) -> Iterator[Order]:
        """The entries of a group, in order. Nothing may be added while this is walked."""
        wish = self._wishes.get(demand.request)
        group = wish.groups.get(_asker_of(demand)) if wish is not None else None
        if group is None:
            return
        heap, entry_of = group.in_order() if group.fresh else group.heap, self._entries.get
        if len(heap) == 1 and self._is_filed(heap[0]):  # as for many
            yield heap[0]
            return
        for order in _sorted(heap) if len(heap) > SMALL else sorted(heap):
            entry = entry_of(order.id)
            if entry is not None and entry.order is order:  # as `_is_filed` says: many are walked past
                yield order

    def discrepancies(self) -> list[str]:
        """Return where the firsts that are kept differ from those that a look at each wish gives."""
        found = (self._first_of(wish) for wish in self._wishes.values())
        due = sorted((first for first in found if first is not None), key=_BY_ORDER)
        return [] if due == self.wishes() else ["the first tasks of the wishes are not those that are kept"]

    def _first(self, group: _Group) -> Order | None:
        heap = group.in_order()
        while heap:
            if self._is_filed(heap[0]):
                return heap[0]
            heapq.heappop(heap)
        return None

    def _first_of(self, wish: _Wish) -> tuple[Order, Demand] | None:
        """The first of all its groups. Each has its first among the heads, or is fresh; what was the first and is no
        more is found out when it comes to the top."""
        if wish.fresh:
            fresh, wish.fresh = wish.fresh, []
            for group in fresh:
                self._put_head(wish, group)
        while wish.heads:
            order, _, group = wish.heads[0]
            if self._is_filed(order):
                return order, group.demand
            heapq.heappop(wish.heads)
            if group.head is order:  # else it was passed by one that came later, and has its place
                group.head = None
                self._put_head(wish, group)
        return None

    def _put_head(self, wish: _Wish, group: _Group) -> None:
        order = self._first(group)
        if (
            order is not None and order is not group.head
        ):  # once: a queue that grows task by task would have a head each
            group.head = order
            heapq.heappush(wish.heads, (order, next(self._serial), group))

    def _is_filed(self, order: Order) -> bool:
        """Is it this very entry that holds? One that was filed again, be it with the same words, has another."""
        entry = self._entries.get(order.id)
        return entry is not None and entry.order is order


def _sorted(heap: list[Order]) -> Iterator[Order]:
    """Yield what is in a heap in order, and look at no more of it than that takes."""
    ahead = [(heap[0], 0)]
    while ahead:
        order, at = heapq.heappop(ahead)
        for child in (2 * at + 1, 2 * at + 2):
            if child < len(heap):
                heapq.heappush(ahead, (heap[child], child))
        yield order


class _Entry(msgspec.Struct, gc=False):
    """Where a task is filed. As a tuple it would have twice the size, for each of a hundred thousand."""

    group: _Group
    order: Order


_Asker: TypeAlias = "tuple[str, bool] | tuple[str, bool, str, bool, int, bool]"
"""The identity behind a demand: mostly the owner, and whether it counts as an admin's; else also the project, whether
no quota holds, the array, and whether to hold it under a name."""


def _asker_of(demand: Demand) -> _Asker:
    if demand.project or demand.over_quota or demand.array or demand.is_allocation:
        more = demand.project, demand.over_quota, demand.array, demand.is_allocation
        return demand.owner, demand.by_admin, *more
    return demand.owner, demand.by_admin


class _Wish:
    """The groups that ask for the same, by who asks; `heads`: a heap of their firsts; `fresh`: groups to which
    something came since somebody looked; `first`: the first of all, as of the last look."""

    __slots__ = ("first", "fresh", "groups", "heads")

    def __init__(self) -> None:
        self.groups: dict[_Asker, _Group] = {}
        self.first: tuple[Order, Demand] | None = None
        self.heads: list[tuple[Order, int, _Group]] = []
        self.fresh: list[_Group] = []


class _Group:
    """The orders of one demand: a heap, and what came since somebody looked. `head`: the one by which it stands among
    the heads of its wish."""

    __slots__ = ("demand", "fresh", "head", "heap")

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self.head: Order | None = None
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
