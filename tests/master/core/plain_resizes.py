"""Which elastic tasks get other numbers of GPUs, by trying every number: what the planner decides has to be this.

For one who waits, tasks give up as much as they can, the one with most to give first, until he fits; the last of them
only as much as it must. That is done on as few tasks as can be, on the first of such nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from master.core.nodes.inventory import obstacle
from master.core.nodes.node import Node
from master.core.nodes.resources import GPUS, Free, FreeNode, rows_of_cluster
from master.core.people.quotas import NO_LEDGER
from master.core.planning.availability import Passes
from master.core.planning.elastic import LOOKS, Resize
from master.core.planning.forecast import Hold
from master.core.planning.scheduler import PlanInput
from master.core.tasks.backlog import Order
from master.core.tasks.request import Demand, demand_of
from master.core.tasks.task import Task, TaskState


def _lease(node: Node, allocation: int) -> Any:
    """What an allocation holds there; None where it holds nothing."""
    lease = node.leases.get(allocation)
    return lease if lease is not None and lease.gpus else None


class PlainResizes:
    """`resizes`: what is to be done at `now`; `wake_at`: when the next task has run for long enough."""

    def __init__(self, plan_input: PlanInput, now: float, holds: Mapping[str, Hold], passes: Passes) -> None:
        self._plan_input = plan_input
        self._now = now
        self._holds = holds
        self._passes = passes
        self._ledger = NO_LEDGER if plan_input.quotas is None else plan_input.quotas.ledger()
        known = [plan_input.tasks[number] for number in sorted(plan_input.elastic.tasks)]
        self._busy = {task.allocation[0].node for task in known if task.resizing is not None}
        self._served = {task.resizing.waiter for task in known if task.resizing is not None}
        able = [task for task in known if task.id in plan_input.elastic.able and self._may_be(task)]
        self._ripe = [task for task in able if self._at(task) <= now]
        self.wake_at = min((self._at(task) for task in able if self._at(task) > now), default=None)
        self.resizes = self._found() if self._ripe else []

    def _at(self, task: Task) -> float:
        assert task.started_at is not None
        return task.started_at + self._plan_input.settings.scheduler.resize_after

    def _may_be(self, task: Task) -> bool:
        if task.state is not TaskState.RUNNING or task.asked_end or task.pause_asked or task.started_at is None:
            return False
        early = task.signal.before_s if task.signal else 0.0
        after = self._plan_input.settings.scheduler.resize_after
        return task.time_limit_s is None or task.time_limit_s - task.ran_s >= 2 * after + early

    def _found(self) -> list[Resize]:
        heads = sorted(self._plan_input.demands.groups(), key=lambda one: one[0])
        cluster = Free(self._plan_input.inventory.cluster, rows_of_cluster(self._plan_input.inventory.cluster))
        for order, demand in heads[:LOOKS]:
            if order.id not in self._served and self._ledger.allows(demand) and cluster.fits(demand.request.shared):
                found = self._for(order, demand)
                if found:
                    return found
        if len(heads) > LOOKS:
            return []
        grown, busy = [], set(self._busy)
        waiting = [demand for _, demand in heads if self._ledger.allows(demand) and cluster.fits(demand.request.shared)]
        for task in self._ripe:
            part = task.allocation[0]
            node = self._plan_input.inventory.nodes[part.node]
            for_gpus = [one for one in waiting if any(need.resource == "gpus" for need in one.request.needs)]
            others = [one for one in for_gpus if one.request.within == task.within and self._could(node, one)]
            if (
                part.node in busy
                or others
                or not node.takes_tasks
                or not node.is_open_to(task.owner, by_admin=task.by_admin)
            ):
                continue
            gpus = self._most(task, node)
            if gpus > len(part.gpus):
                busy.add(part.node)
                grown.append(Resize(task.id, gpus))
        return grown

    def _most(self, task: Task, node: Node) -> int:
        """The number of GPUs that it may have there, tried one after the other."""
        has, demand = len(task.allocation[0].gpus), demand_of(task)
        hold, request = self._holds.get(node.name), demand.request
        kept = hold.gpus if hold is not None and hold.task != task.id else frozenset()
        terms = next(need.terms for need in request.needs if need.resource == GPUS.name)
        place = node if task.within is None else _lease(node, task.within)
        most = has
        for count in range(1, (task.gpus_max or 0) - has + 1):
            chosen = Free(place, (GPUS,)).pieces[GPUS.name].chosen(count, (), terms, kept)
            if chosen is not None and has + count <= self._ledger.gpus_for(demand, has):
                most = has + count
        return most

    def _could(self, node: Node, demand: Demand) -> bool:
        request = demand.request
        return (
            node.takes_tasks
            and node.is_open_to(demand.owner, by_admin=demand.by_admin)
            and node.name not in request.avoid
            and not (request.token and node.no_tokens is not None)
            and (request.within is None or _lease(node, request.within) is not None)
            and obstacle(node, request) is None
        )

    def _for(self, order: Order, demand: Demand) -> list[Resize]:
        places = []
        for at, node in enumerate(self._plan_input.inventory.nodes.values()):
            hold = self._holds.get(node.name)
            is_kept = hold is not None and not self._passes(order.id, hold)
            if node.name in self._busy or is_kept or not self._could(node, demand):
                continue
            left = self._left_on(node, demand)
            if left is not None:
                places.append((len(left), at, left))
        if len(places) < demand.request.nodes:
            return []
        chosen = sorted(places, key=lambda one: one[:2])[: demand.request.nodes]
        return [Resize(number, gpus, order.id) for *_, left in chosen for number, gpus in left.items()]

    def _left_on(self, node: Node, demand: Demand) -> dict[int, int] | None:
        givers = [
            task
            for task in self._ripe
            if task.allocation[0].node == node.name
            and task.within == demand.request.within
            and len(task.allocation[0].gpus) > task.gpus
        ]
        givers.sort(key=lambda task: (-(len(task.allocation[0].gpus) - task.gpus), task.id))
        for count in range(len(givers) + 1):
            if self._fits(node, demand, {task.id: task.gpus for task in givers[:count]}):
                left = {task.id: task.gpus for task in givers[:count]}
                if count:
                    last = givers[count - 1]
                    tried = range(last.gpus, len(last.allocation[0].gpus))
                    left[last.id] = max(gpus for gpus in tried if self._fits(node, demand, {**left, last.id: gpus}))
                return left
        return None

    def _fits(self, node: Node, demand: Demand, left: Mapping[int, int]) -> bool:
        """Would there be room, if each had ended, and begun again with so many?"""
        request, within = demand.request, demand.request.within
        free = Free(node if within is None else _lease(node, within), (GPUS,))
        for number, gpus in left.items():
            task = self._plan_input.tasks[number]
            part = task.allocation[0]
            needs = [need for need in demand_of(task).request.needs if need.resource == GPUS.name]
            free.give_back(needs, part)
            free.pieces[GPUS.name].take(part.gpus[:gpus], None)
            free.counts[GPUS.name] = len(free.pieces[GPUS.name].whole)
        return free.fits(request.gpus_of(node.name)) and FreeNode(node).fits(request.but_gpus.needs)
