"""The planner without anything that makes it fast: each node is looked at for each wish, each group has its place among
all, and nothing is kept from plan to plan. What it decides is what the real one has to decide, word for word.

It stands on the same arithmetic (what fits on one node, what is kept on one, whose quota is reached): that has tests of
its own. What is written twice is the search.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from master.core.nodes.inventory import Inventory, obstacle
from master.core.nodes.leases import Lease
from master.core.nodes.node import Node
from master.core.nodes.resources import GPUS, Free, FreeNode, Need, rows_of_cluster
from master.core.people.quotas import NO_LEDGER
from master.core.planning.availability import Passes, only_its_own
from master.core.planning.forecast import NO_HOLDS, Forecast, Hold
from master.core.planning.placement import DEFAULT, POLICIES
from master.core.planning.reservations import Reservation, Reserving
from master.core.planning.scheduler import LOOKS, Placement, PlanInput, due_at
from master.core.tasks.attempt import Allocation
from master.core.tasks.backlog import Order
from master.core.tasks.request import Demand, Request
from tests.master.core.plain_resizes import PlainResizes


class Decided:
    """What a plan comes to."""

    def __init__(
        self, plan_input: PlanInput, now: float, starts: list[Placement], reserving: Reserving | None = None
    ) -> None:
        self.starts = starts
        self.reservations: tuple[Reservation, ...] = () if reserving is None else reserving.kept
        self.holds: Mapping[str, Hold] = NO_HOLDS if reserving is None else reserving.holds
        passes = only_its_own if reserving is None else reserving.passes
        found = None if starts else PlainResizes(plan_input, now, self.holds, passes)
        self.resizes = [] if found is None else found.resizes
        self.wake_at = None if found is None else found.wake_at
        self.again = (reserving is not None and reserving.has_given_way) or bool(starts and plan_input.elastic.tasks)

    def wake(self, at: float | None) -> Decided:
        """It wants to be asked at this time, too."""
        self.wake_at = min((one for one in (at, self.wake_at) if one is not None), default=None)
        return self


def plain_plan(plan_input: PlanInput, now: float) -> Decided:
    """What is to be done at `now`."""
    heads = list(plan_input.demands.groups())
    if not heads:
        return Decided(plan_input, now, [])
    found = _Round(plan_input, now)
    starts = list(found.starts(heads))
    return Decided(plan_input, now, starts, found.reserving).wake(found.wake_at).wake(found.reserving.wake_at)


class PlainLease:
    """What is free for a task within an allocation, on one node: of its GPUs, and of the rest."""

    def __init__(self, lease: Lease, rest: FreeNode) -> None:
        self.gpus = Free(lease, (GPUS,))
        self.rest = rest
        self.node = rest.node
        self.pieces = self.gpus.pieces

    def fits(self, needs: Iterable[Need], beside: Hold | None = None) -> bool:
        """Is there enough of both?"""
        return self.gpus.fits(_of_gpus(needs)) and self.rest.fits(_but_gpus(needs), beside)

    def take(self, needs: Iterable[Need], beside: Hold | None = None) -> dict[str, list[int]]:
        """Take from both."""
        self.rest.take(_but_gpus(needs), beside)
        return self.gpus.take(_of_gpus(needs))


def _of_gpus(needs: Iterable[Need]) -> list[Need]:
    return [need for need in needs if need.resource == GPUS.name]


def _but_gpus(needs: Iterable[Need]) -> list[Need]:
    return [need for need in needs if need.resource != GPUS.name]


class PlainRoom:
    """What would be free after the placements made so far."""

    def __init__(self, inventory: Inventory) -> None:
        self.nodes = {name: FreeNode(node) for name, node in inventory.nodes.items() if node.takes_tasks}
        self.cluster = Free(inventory.cluster, rows_of_cluster(inventory.cluster))
        self.is_open_to_all = all(free.node.restriction is None for free in self.nodes.values())
        self.root_owners = {free.node.root_owner for free in self.nodes.values()} - {None}
        self.holds: Mapping[str, Hold] = NO_HOLDS
        self.passes: Passes = only_its_own
        self._inventory = inventory
        self._leases: dict[int, dict[str, PlainLease]] = {}

    def _within(self, allocation: int) -> dict[str, PlainLease]:
        if allocation not in self._leases:
            held = self._inventory.leases(allocation)
            self._leases[allocation] = {
                name: PlainLease(held[name], free) for name, free in self.nodes.items() if name in held
            }
        return self._leases[allocation]

    def place(self, demand: Demand, task_id: int = 0) -> list[Allocation] | None:
        """Choose nodes, and book them."""
        request = demand.request
        fitting = [
            free
            for free in self.open_to(demand)
            if free.fits(request.needs_on(free.node.name), self._kept_from(free, task_id))
        ]
        licences = [(need, self._licence_kept_from(need, task_id)) for need in request.shared]
        if not all(self.cluster.fits((need,), kept) for need, kept in licences) or len(fitting) < request.nodes:
            return None
        for need, kept in licences:
            self.cluster.take((need,), kept)
        if request.nodes != len(request.only):  # else they are in the order in which they were named
            places = list(self.nodes)
            fitting.sort(key=lambda free: _rated(free, request, places))
        chosen = fitting[: request.nodes]
        return [self._take(free, demand, task_id) for free in chosen]

    def open_to(self, demand: Demand) -> Iterable[FreeNode | PlainLease]:
        """The nodes that may take it, be there room or not."""
        request = demand.request
        there: Mapping[str, FreeNode | PlainLease] = self.nodes
        if request.within is not None:
            there = self._within(request.within)
        named = [there[name] for name in request.only or there if name in there]
        nodes = [
            free
            for free in named
            if free.node.is_open_to(demand.owner, by_admin=demand.by_admin)
            and free.node.name not in request.exclude
            and not (request.token and free.node.no_tokens is not None)
        ]
        others = [free for free in nodes if free.node.name not in request.avoid]
        able = [free for free in others if obstacle(free.node, request) is None]
        return able if request.avoid and len(able) >= request.nodes else nodes

    def is_held_up(self, demand: Demand) -> bool:
        """Is there a node where it would fit, or are there the licences, if nothing were kept for others?"""
        shared = demand.request.shared
        if shared and (not self.cluster.fits(shared) or any(need.resource in self.holds for need in shared)):
            return self.cluster.fits(shared)
        if demand.request.within is not None:
            return False
        able = [free.node.name for free in self.open_to(demand) if free.fits(demand.request.needs_on(free.node.name))]
        return any(name in self.holds for name in able)

    def _take(self, free: FreeNode | PlainLease, demand: Demand, task_id: int) -> Allocation:
        needs = demand.request.needs_on(free.node.name)
        gpus = free.take(needs, self._kept_from(free, task_id)).get(GPUS.name, [])
        terms = next((need.terms for need in needs if need.terms is not None), None)
        share = free.pieces[GPUS.name].share_mib(gpus, terms) if terms is not None and terms.share else None
        return Allocation(free.node.name, gpus, share)

    def _kept_from(self, free: FreeNode | PlainLease, task_id: int) -> Hold | None:
        hold = self.holds.get(free.node.name)
        return None if hold is None or self.passes(task_id, hold) else hold

    def _licence_kept_from(self, need: Need, task_id: int) -> Hold | None:
        hold = self.holds.get(need.resource)
        return None if hold is None or self.passes(task_id, hold) else hold


def _rated(free: FreeNode | PlainLease, request: Request, places: list[str]) -> Any:
    if isinstance(free, PlainLease):
        return (free.gpus.counts[GPUS.name], places.index(free.node.name))
    return POLICIES[DEFAULT](request)(free)


class _Round:
    """One round of planning."""

    def __init__(self, plan_input: PlanInput, now: float) -> None:
        self.wake_at: float | None = None
        self._plan_input = plan_input
        self._now = now
        self._available = PlainRoom(plan_input.inventory)
        self._ledger = NO_LEDGER if plan_input.quotas is None else plan_input.quotas.ledger()
        self._looks = LOOKS
        rules, forecast = plan_input.settings.scheduler, Forecast(plan_input.tasks, plan_input.at_most, now)
        self._patience_s = rules.reserve_after
        self.reserving = Reserving(forecast, plan_input.inventory, most=rules.reservations)
        self.reserving.renew(plan_input.reserved(now), plan_input.demands.order, self._nodes_for)
        self._available.passes = self.reserving.passes
        self._available.holds = self.reserving.holds

    def starts(self, heads: list[tuple[Order, Demand]]) -> Iterator[Placement]:
        """What can start. `heads`: the first of each group, by which the next one of all is found."""
        room, demands, ledger = self._available, self._plan_input.demands, self._ledger
        heapq.heapify(heads)
        behind: dict[Demand, Iterator[Order]] = {}
        # Whoever asks for the same, there is no room for it; unless somebody may go where others may not.
        apart = {demand.request for _, demand in heads if demand.owner in room.root_owners and not demand.by_admin}

        def same(demand: Demand) -> object:
            return demand.request if room.is_open_to_all and demand.request not in apart else demand

        left = {same(demand) for _, demand in heads}
        while heads and left:
            order, demand = heads[0]
            if not ledger.allows(demand):  # nor any other that is alike, until somebody's task ends
                self._let_go_all(demand)
                heapq.heappop(heads)
                continue
            is_open = same(demand) in left
            parts = room.place(ledger.within(demand), order.id) if is_open else None
            if parts is None:
                if is_open:
                    self._has_to_wait(order, demand)
                if not (is_open and self._another_may_pass(demand)):
                    left.discard(same(demand))
                    heapq.heappop(heads)
                    continue
            else:
                self._let_go(order.id)
                ledger.take(demand, parts)
                yield Placement(order.id, parts)
            if demand not in behind:
                behind[demand] = demands.following(demand)
                next(behind[demand])
            following = next(behind[demand], None)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following, demand))
        yield from self._reserved()

    def _reserved(self) -> Iterator[Placement]:
        """Those for which room is kept, if they stand behind more of their like than are looked at in a round."""
        for one in self.reserving.kept:
            demand = self._plan_input.demands.group_of(one.task)
            if demand is None or not self._ledger.allows(demand):
                continue
            parts = self._available.place(self._ledger.within(demand), one.task)
            if parts is not None:
                self._let_go(one.task)
                self._ledger.take(demand, parts)
                yield Placement(one.task, parts)

    def _nodes_for(self, task_id: int, _names: Collection[str]) -> dict[str, Node]:
        """The nodes that may take a task that waits, be they asked for or not."""
        demand = self._plan_input.demands.group_of(task_id)
        if demand is None or demand.request.within is not None:
            return {}
        return {free.node.name: free.node for free in self._available.open_to(demand)}

    def _let_go_all(self, demand: Demand) -> None:
        """Nothing needs to be kept for any task with this demand."""
        for one in self.reserving.kept:
            if self._plan_input.demands.group_of(one.task) == demand:
                self._let_go(one.task)

    def _let_go(self, task_id: int) -> None:
        """Nothing needs to be kept for this task: it starts, or may not."""
        if self.reserving.kept:
            self.reserving.drop(task_id)
            self._available.holds = self.reserving.holds

    def _has_to_wait(self, order: Order, demand: Demand) -> None:
        """There is no room for it now. If it was forced, is urgent, or has waited for long enough, some is kept for
        it."""
        task = self._plan_input.tasks.get(order.id)
        if task is None or not self._available.nodes or task.within is not None:
            return
        due = due_at(task, self._patience_s)
        if due > self._now:
            self.wake_at = due if self.wake_at is None else min(due, self.wake_at)
        elif self.reserving.reserve(order, demand.request, (free.node for free in self._available.open_to(demand))):
            self._available.holds = self.reserving.holds

    def _another_may_pass(self, demand: Demand) -> bool:
        """It is only in the way of what is kept for others: one behind it that takes less time may not be. How many are
        looked at in a round has a bound."""
        if not self._available.holds or self._looks <= 0 or not self._available.is_held_up(demand):
            return False
        self._looks -= 1
        return True
