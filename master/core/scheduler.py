"""Which waiting task goes where, now. Pure: a snapshot in, a plan out; nothing is changed, who asked carries it out.

First come, first served within urgency and priority, and a task that does not fit never stands in the way of one that
does. Among the nodes where a request fits, a placement policy chooses.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from master.core.attempt import Allocation
from master.core.backlog import Backlog, Order
from master.core.inventory import TOLD, Inventory, obstacle
from master.core.obstacles import obstacles, unready
from master.core.placement import DEFAULT, POLICIES
from master.core.request import Demand
from master.core.resources import Free, FreeNode, Scope, rows_of
from wire.message import Message


class Wait(NamedTuple):
    """Why a task with some request does not start now: in a few words, and what stands in the way, node by node."""

    brief: Message
    obstacles: list[Message]

    def message(self) -> Message:
        """Both, as a task's reason tells it: with the first few obstacles."""
        if not self.obstacles:
            return self.brief
        return self.brief.but(obstacles=tuple(self.obstacles[:TOLD]))

    def __str__(self) -> str:
        return str(self.message())


class Snapshot(msgspec.Struct, frozen=True):
    """What the planner may see: who asks for what, in what order (`demands`); the nodes, what they have, who holds what
    there (`inventory`); which placement policy is set. It is read, never changed, and holds until the next event."""

    demands: Backlog
    inventory: Inventory
    placement: str = DEFAULT


class Placement(msgspec.Struct, frozen=True):
    """The decision to start a task: what it gets, node by node."""

    task_id: int
    parts: list[Allocation]


class Stop(msgspec.Struct, frozen=True):
    """The decision to end an attempt for another's sake, and why."""

    task_id: int
    why: str


class Resize(msgspec.Struct, frozen=True):
    """The decision to give an attempt other parts."""

    task_id: int
    parts: list[Allocation]


class Plan(msgspec.Struct, frozen=True):
    """What is to be done. `reasons` tells why a demand waits, and works it out when it is asked; `wake_at`: when the
    planner wants to be asked again although nothing happens, in seconds since the epoch."""

    reasons: Callable[[Demand], Wait]
    starts: list[Placement] = []
    stops: list[Stop] = []
    resizes: list[Resize] = []
    wake_at: float | None = None


class Room:
    """What would be free after the placements made so far in this round."""

    def __init__(self, inventory: Inventory, placement: str = DEFAULT) -> None:
        rows = rows_of(Scope.NODE)
        self.nodes = {name: FreeNode(node, rows) for name, node in inventory.nodes.items() if node.takes_tasks}
        self.cluster = Free(inventory.cluster, rows_of(Scope.CLUSTER))
        self.is_open_to_all = all(free.node.reserved is None for free in self.nodes.values())
        self._policy = POLICIES[placement]
        self._most: dict[str, int] = {}

    def place(self, demand: Demand) -> Allocation | None:
        """Choose a node and book it in this room; None if what is asked for fits nowhere where its owner may go."""
        request = demand.request
        if not self.cluster.fits(request.shared):
            return None
        for name, amount, _ in request.needs:
            if amount > self._most_of(name):
                return None
        best = self._best(demand)
        if best is None:
            return None
        self.cluster.take(request.shared)
        return Allocation(best.node.name, **{"gpus": [], **best.take(request.needs)})

    def _most_of(self, resource: str) -> int:
        """No node has more of it, then or later: what is beyond that is seen without looking at each."""
        most = self._most.get(resource)
        if most is None:
            most = self._most[resource] = max((free.counts[resource] for free in self.nodes.values()), default=0)
        return most

    def _best(self, demand: Demand) -> FreeNode | None:
        request = demand.request
        needs = request.needs
        if request.node is not None:
            one = self.nodes.get(request.node)
            return one if one is not None and one.node.is_open_to(demand.owner) and one.fits(needs) else None
        fitting = [free for free in self._open_to(demand) if free.fits(needs)]
        return min(fitting, key=self._policy(request)) if fitting else None

    def _open_to(self, demand: Demand) -> Iterable[FreeNode]:
        """The nodes that may take it: those that could not start it only where no other ever could."""
        request = demand.request
        nodes: Iterable[FreeNode] = self.nodes.values()
        if not self.is_open_to_all:
            nodes = [free for free in nodes if free.node.is_open_to(demand.owner)]
        if request.avoid:
            others = [free for free in nodes if free.node.name not in request.avoid]
            able = [free for free in others if obstacle(free.node, request) is None]
            if able:
                return able
        return nodes


def plan(snapshot: Snapshot, now: float) -> Plan:  # noqa: ARG001  (of today's decisions none depends on the time)
    """What to do now: start every task that can start, in the order of the queue."""

    def reasons(demand: Demand) -> Wait:
        return explain(demand, snapshot.inventory)

    heads = list(snapshot.demands.groups())
    if not heads:
        return Plan(reasons)  # the usual case: something ended, and nobody waits
    room = Room(snapshot.inventory, snapshot.placement)
    return Plan(reasons, list(_starts(heads, room, snapshot.demands)) if room.nodes else [])


def _starts(heads: list[tuple[Order, Demand]], room: Room, demands: Backlog) -> Iterator[Placement]:
    """`heads`: the first of each group, by which the next one of all is found."""
    heapq.heapify(heads)
    behind: dict[Demand, Iterator[Order]] = {}
    # Whoever asks for the same, there is no room for it; unless somebody may go where others may not.
    same: Callable[[Demand], object] = _request_of if room.is_open_to_all else _itself
    left = {same(demand) for _, demand in heads}
    while heads and left:
        order, demand = heads[0]
        part = room.place(demand) if same(demand) in left else None
        if part is None:
            left.discard(same(demand))
            heapq.heappop(heads)
            continue
        yield Placement(order.id, [part])
        if demand not in behind:
            behind[demand] = demands.following(demand)
            next(behind[demand])
        following = next(behind[demand], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following, demand))


def _request_of(demand: Demand) -> object:
    return demand.request


def _itself(demand: Demand) -> object:
    return demand


def explain(demand: Demand, inventory: Inventory) -> Wait:
    """Why a task with this demand cannot start now."""
    request = demand.request
    never = inventory.why_never(request)
    if never is not None:
        return Wait(Message("never", why=never), [])
    room = Room(inventory)
    if not room.nodes:
        return Wait(Message("no_node_ready", obstacles=()), unready(inventory))
    if room.place(demand) is not None:
        return Wait(Message("next"), [])
    return Wait(Message("needs", request=request.describe(), obstacles=()), obstacles(demand, inventory, room.nodes))
