"""Ways that would let a task start that waits for room, each by itself, the soonest first. Pure.

A way is what has to become true together: tasks end, a node comes back, a reservation or a quota is no more in the way.
Tasks before it in the queue may take what becomes free; how many those are is told beside. However many nodes there
are, few ways are told: the soonest, and of the other kinds one for all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from master.core.nodes.facts import NodeState
from master.core.nodes.inventory import NAMES, Inventory, obstacle
from master.core.nodes.node import Node
from master.core.nodes.resources import Free, rows_of_cluster
from master.core.planning.forecast import Forecast, Hold
from master.core.tasks.request import Demand
from wire.message import Message, ids, names

SOONEST = 2
"""So many ways are told that wait only for tasks to end."""
FEW = 3
"""So many of the tasks that have to end are named."""
_NEVER = float("inf")


class _Place(msgspec.Struct, frozen=True):
    """A node that could take the task: the tasks that have to end before, and when that is expected (infinite: nobody
    knows)."""

    until: float
    holders: tuple[int, ...]
    node: Node
    is_kept: bool


class Openings:
    """`holds`: what is kept for which task, by node, as the last plan has it; `may_tell`: whether the viewer may know
    when a task ends, by its id."""

    def __init__(
        self, inventory: Inventory, forecast: Forecast, holds: Mapping[str, Hold], may_tell: Callable[[int], bool]
    ) -> None:
        self._inventory = inventory
        self._forecast = forecast
        self._holds = holds
        self._may_tell = may_tell

    def ways(self, demand: Demand, task_id: int, stops: Iterable[Message]) -> list[Message]:
        """Return the ways for a task for which there is no room now. `stops`: the quotas, and the like, that keep it
        from starting besides; they are part of each way."""
        first = [*lifted(stops), *self._licences(demand, task_id)]
        places = self._places(demand, task_id)
        if demand.request.nodes > 1:
            return self._at_once(places, demand, first)
        open_places = [place for place in places if place.node.takes_tasks]
        soonest = [place for place in open_places if not place.is_kept][:SOONEST]
        soonest += [place for place in open_places if place.is_kept][:1]
        told = [self._way(demand, first, [place]) for place in soonest]
        for is_link in (True, False):
            away = [place for place in places if _is_away(place.node, is_link=is_link)]
            away.sort(key=lambda place: bool(place.holders))
            empty = [place.node.name for place in away if not place.holders]
            if len(empty) > 1:
                told.append(_all_of([*first, _one_of(empty, is_link=is_link)]))
            elif away:
                told.append(self._way(demand, first, away[:1]))
        if not places and (closed := self._closed(demand)):
            told.append(_all_of([*first, Message("would_be_open", nodes=names(closed, NAMES))]))
        return list(dict.fromkeys(told))  # the same of several nodes, where only a licence lacks

    def _at_once(self, places: list[_Place], demand: Demand, first: list[Message]) -> list[Message]:
        """Return the one way of a task that needs several nodes at once."""
        chosen = sorted(places, key=lambda place: (not place.node.takes_tasks, place.is_kept))[: demand.request.nodes]
        return [self._way(demand, first, chosen)] if len(chosen) == demand.request.nodes else []

    def _places(self, demand: Demand, task_id: int) -> list[_Place]:
        """Return the nodes that could take it once tasks there have ended, the soonest first."""
        found = []
        for node in self._able(demand):
            hold = self._forecast.hold(task_id, node, demand.request)
            if hold is not None:
                kept = self._holds.get(node.name)
                until = _NEVER if hold.until is None else hold.until
                found.append(_Place(until, hold.holders, node, kept is not None and kept.task != task_id))
        return sorted(found, key=lambda place: (place.until, len(place.holders), place.node.name))

    def _able(self, demand: Demand) -> Iterable[Node]:
        """Return the nodes that may take it when they are empty, be they online or not."""
        request = demand.request
        for node in self._inventory.nodes.values():
            is_barred = node.takes_tasks and not node.is_open_to(demand.owner, by_admin=demand.by_admin)
            has_no_tokens = request.token and node.no_tokens is not None
            if not (is_barred or has_no_tokens or node.name in request.avoid) and obstacle(node, request) is None:
                yield node

    def _closed(self, demand: Demand) -> list[str]:
        return [node.name for node in self._able(demand) if node.takes_tasks]

    def _licences(self, demand: Demand, task_id: int) -> list[Message]:
        """Return what has to happen until it has its licences."""
        request, cluster = demand.request, self._inventory.cluster
        conditions = []
        for need in request.shared:
            if Free(cluster, rows_of_cluster(cluster)).lack((need,)) is None:
                kept = self._holds.get(need.resource)
                if kept is not None and kept.task != task_id:
                    conditions.append(Message("would_not_be_kept", task=kept.task))
                continue
            hold = self._forecast.licence(task_id, self._inventory, need)
            if hold is not None:
                conditions.append(self._ends(hold.holders, _NEVER if hold.until is None else hold.until, ()))
        return conditions

    def _way(self, demand: Demand, first: list[Message], places: list[_Place]) -> Message:
        """Return all that has to happen on these nodes, and nothing that need not."""
        conditions = list(first)
        if cut_off := [place.node.name for place in places if _is_away(place.node, is_link=True)]:
            conditions.append(Message("would_be_back", nodes=names(cut_off, NAMES)))
        if closed := [place.node.name for place in places if _is_away(place.node, is_link=False)]:
            conditions.append(Message("would_take_tasks", nodes=names(closed, NAMES)))
        busy = [place for place in places if place.holders]
        if busy:
            ending = (self._forecast.needed(place.node, demand.request, place.holders) for place in busy)
            holders = [number for some in ending for number in some]
            conditions.append(self._ends(holders, max(place.until for place in busy), [one.node.name for one in busy]))
        conditions += [_no_more_kept(self._holds[place.node.name]) for place in places if place.is_kept]
        if not conditions:  # no sample has shown yet that its GPUs are free
            conditions = [Message("would_be_open", nodes=names([place.node.name for place in places], NAMES))]
        return _all_of(conditions)

    def _ends(self, holders: Iterable[int], until: float, nodes: Iterable[str]) -> Message:
        some, told = set(holders), names(nodes, NAMES)
        if until == _NEVER or not all(map(self._may_tell, some)):
            return Message("would_end", tasks=ids(some, FEW), nodes=told)
        return Message("would_end_by", tasks=ids(some, FEW), nodes=told, at=until)


def lifted(stops: Iterable[Message]) -> list[Message]:
    """Return what has to happen until these are in the way no more, each kind once."""
    kinds = {one.key == "idle_holds_next" for one in stops}
    return [Message("would_not_be_idle") if is_idle else Message("would_be_allowed") for is_idle in sorted(kinds)]


def all_lifted(stops: Iterable[Message]) -> list[Message]:
    """Return the one way of a task for which there is room, but which these keep from starting."""
    conditions = lifted(stops)
    return [_all_of(conditions)] if conditions else []


def _all_of(conditions: list[Message]) -> Message:
    return conditions[0] if len(conditions) == 1 else Message("would_all", conditions=tuple(conditions))


def _one_of(nodes: list[str], *, is_link: bool) -> Message:
    if is_link:
        return Message("would_one_be_back", nodes=names(nodes, NAMES))
    return Message("would_one_take_tasks", nodes=names(nodes, NAMES))


def _no_more_kept(hold: Hold) -> Message:
    """Return what has to happen until what is kept for another task is not in the way."""
    if hold.until is None:
        return Message("would_not_be_kept", task=hold.task)
    return Message("would_pass", task=hold.task, at=hold.until)


def _is_away(node: Node, *, is_link: bool) -> bool:
    """Return whether a node takes no tasks: since there is no link to it, or since it is not to."""
    return not node.takes_tasks and (node.state is not NodeState.ONLINE) is is_link
