"""Those that wait for the same thing, one behind the other, as a plan goes through them.

Pure. If the first of a line finds no room, nobody in it does; so most lines are looked at once and never walked.
`backlog` decides the order.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator

from master.core.tasks.backlog import Backlog, Order
from master.core.tasks.request import Demand


class Line:
    """`first`, `demand`: the next one, and its demand; None where none is left. `is_closed`: there is no room for
    anybody in it. With `is_alone` it is the line of one group, else of all that ask for the same."""

    __slots__ = ("_backlog", "_behind", "_groups", "demand", "first", "is_closed")

    def __init__(self, backlog: Backlog, first: tuple[Order, Demand], *, is_alone: bool = False) -> None:
        self.first: Order | None
        self.first, self.demand = first
        self.is_closed = False
        self._backlog = backlog
        self._groups: list[tuple[Order, Demand]] | None = [first] if is_alone else None  # found when asked for
        self._behind: dict[Demand, Iterator[Order]] = {}

    def advance(self) -> None:
        """The first has been dealt with; the next one of its group takes its place."""
        groups, demand = self._heads(), self.demand
        behind = self._behind.get(demand)
        if behind is None:
            behind = self._behind[demand] = self._backlog.following(demand)
            next(behind)
        following = next(behind, None)
        if following is None:
            heapq.heappop(groups)
        else:
            heapq.heapreplace(groups, (following, demand))
        self._look()

    def drop_group(self) -> None:
        """Nobody of the first one's group is looked at any more."""
        heapq.heappop(self._heads())
        self._look()

    def close(self, but: Collection[Demand] = ()) -> None:
        """There is no room for those of this line; behind the first, only these groups are still asked whether they
        may start at all."""
        self.is_closed = True
        if not but:  # as for nearly all
            self.first, self._groups = None, []
            return
        if self._groups is None:
            firsts = ((self._backlog.first_of(demand), demand) for demand in dict.fromkeys(but))
            groups = [(order, demand) for order, demand in firsts if order is not None]
        else:
            groups = [one for one in self._groups if one[1] in but]
        self._groups = [one for one in groups if one[0] is not self.first]
        heapq.heapify(self._groups)
        self._look()

    def _heads(self) -> list[tuple[Order, Demand]]:
        """The first of each group, as a heap."""
        if self._groups is None:
            self._groups = self._backlog.groups_of(self.demand.request)
            heapq.heapify(self._groups)
        return self._groups

    def _look(self) -> None:
        self.first = None
        if self._groups:
            self.first, self.demand = self._groups[0]
