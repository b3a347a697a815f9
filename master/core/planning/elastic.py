"""Which elastic tasks are to go on with more GPUs or fewer. Pure: part of the planner, decided behind all starts.

A task that runs grows where GPUs of its node are free and nobody waits who could use that node; it gives some up where
the first who waits, and could be helped so, can then start. It never has fewer than it asked for at least, never more
than its range and the quotas allow, and no attempt is ended for this before it has run for `scheduler.resize_after`.
Whether it has a checkpoint to go on from is found out by whoever carries this out: those known to have none are not in
`Elastic.able`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from master.config.settings import Scheduling
from master.core.nodes.cards import Cards
from master.core.nodes.inventory import Inventory, obstacle
from master.core.nodes.leases import Lease
from master.core.nodes.node import Node
from master.core.nodes.resources import GPUS, Free, FreeNode, Need, rows_of_cluster
from master.core.people.quotas import Ledger
from master.core.planning.forecast import Hold
from master.core.tasks.attempt import Part
from master.core.tasks.backlog import Backlog, Order
from master.core.tasks.request import Demand, demand_of
from master.core.tasks.task import Task, TaskState

LOOKS = 32
"""So many who wait, of different demands, are looked at; where there are more nothing grows."""


class Resize(msgspec.Struct, frozen=True):
    """The decision that a task is to go on with so many GPUs: fewer, for `waiter`, or more, for nobody waits."""

    task_id: int
    gpus: int
    waiter: int | None = None


class Elastic(msgspec.Struct, frozen=True):
    """The elastic tasks that have an attempt, by id; those that are `able` to be resized as far as anybody knows: they
    run, and are not known to have no checkpoint."""

    tasks: tuple[int, ...] = ()
    able: frozenset[int] = frozenset()


NONE_ELASTIC = Elastic()


class Lab(msgspec.Struct, frozen=True):
    """The input of a decision: the tasks that wait (`demands`), the nodes, the tasks by id, what quotas leave
    (`ledger`), the reservations (`holds`), and which tasks may pass these (`passes`)."""

    demands: Backlog
    inventory: Inventory
    tasks: Mapping[int, Task]
    ledger: Ledger
    holds: Mapping[str, Hold]
    passes: Callable[[int, Hold], bool]


def ripe_at(task: Task, rules: Scheduling) -> float | None:
    """When the attempt of a task has run for long enough to be resized, in seconds since the epoch; None where it
    should not be: it stands still or is to end, or its time limit, or the signal before that, is near by then."""
    if task.state is not TaskState.RUNNING or task.started_at is None or task.is_ending or task.pause_asked is not None:
        return None
    if task.time_limit_s is not None:
        early = 0.0 if task.signal is None else task.signal.before_s
        if task.time_limit_s - task.ran_s < 2 * rules.resize_after + early:
            return None
    return task.started_at + rules.resize_after


class Looking:
    """One look at the elastic tasks at `now`. `wake_at`: when the next one has run for long enough."""

    def __init__(self, lab: Lab, elastic: Elastic, rules: Scheduling, now: float) -> None:
        self._lab = lab
        tasks = [lab.tasks[number] for number in sorted(elastic.tasks)]
        self._under_way = [task for task in tasks if task.resizing is not None]
        ripe = {task.id: at for task in tasks if task.id in elastic.able and (at := ripe_at(task, rules)) is not None}
        self._ripe = [task for task in tasks if ripe.get(task.id, now + 1) <= now]
        self.wake_at = min((at for at in ripe.values() if at > now), default=None)

    def resizes(self) -> list[Resize]:
        """Return the resizes to begin now: for one task that waits, or else wherever something can grow."""
        if not self._ripe:
            return []
        waiting = list(islice(in_order(self._lab.demands), LOOKS + 1))
        served = {task.resizing.waiter for task in self._under_way if task.resizing is not None}
        for order, demand in waiting[:LOOKS]:
            if order.id not in served and waits_for_room(self._lab, demand):
                found = self._given_up_for(order, demand)
                if found:
                    return found
        return [] if len(waiting) > LOOKS else list(self._grown([demand for _, demand in waiting]))

    # -- growing ----------------------------------------------------------------------------------------------

    def _grown(self, waiting: list[Demand]) -> Iterator[Resize]:
        """One for each node at a time: what is free there goes to the first."""
        taken = {task.allocation[0].node for task in self._under_way}
        for task in self._ripe:
            name = task.allocation[0].node
            if name not in taken and not is_wanted(self._lab, task, task.allocation[0], waiting):
                gpus = len(task.allocation[0].gpus) + len(more_gpus(self._lab, task, task.allocation[0], task.gpus_max))
                if gpus > len(task.allocation[0].gpus):
                    taken.add(name)
                    yield Resize(task.id, gpus)

    # -- giving up --------------------------------------------------------------------------------------------

    def _given_up_for(self, order: Order, demand: Demand) -> list[Resize]:
        """Return the resizes that let this task start: as few tasks as possible are disturbed, on the first nodes of
        those alike."""
        taken = {task.allocation[0].node for task in self._under_way}
        able = {task.allocation[0].node for task in self._ripe}
        found = []
        for at, node in enumerate(self._lab.inventory.nodes.values()):
            if node.name in taken or (node.name not in able and demand.request.nodes == 1):
                continue
            if not could_take(node, demand):
                continue
            hold = self._lab.holds.get(node.name)
            if hold is not None and not self._lab.passes(order.id, hold):
                continue
            given = self._given_up_on(node, order, demand)
            if given is not None:
                found.append((len(given), at, given))
        found.sort(key=lambda one: one[:2])
        if len(found) < demand.request.nodes:
            return []
        return [one for *_, given in found[: demand.request.nodes] for one in given]

    def _given_up_on(self, node: Node, order: Order, demand: Demand) -> list[Resize] | None:
        """Return the resizes that have to be done there for one part of it; None where that is not enough."""
        givers = [
            task
            for task in self._ripe
            if task.allocation[0].node == node.name
            and task.within == demand.request.within
            and len(task.allocation[0].gpus) > task.gpus
        ]
        givers.sort(key=lambda task: (task.gpus - len(task.allocation[0].gpus), task.id))
        left: dict[int, int] = {}
        for task in givers:
            if self._would_fit(node, demand, left):
                break
            left[task.id] = task.gpus
            if self._would_fit(node, demand, left):
                most = range(len(task.allocation[0].gpus) - 1, task.gpus, -1)
                enough = (gpus for gpus in most if self._would_fit(node, demand, {**left, task.id: gpus}))
                left[task.id] = next(enough, task.gpus)
        if not self._would_fit(node, demand, left):
            return None
        return [Resize(task_id, gpus, order.id) for task_id, gpus in left.items()]

    def _would_fit(self, node: Node, demand: Demand, left: Mapping[int, int]) -> bool:
        """Would one part of it, if these tasks had only so many GPUs left?"""
        request, within = demand.request, demand.request.within
        free: Free = FreeNode(node) if within is None else Free(node.leases[within], (GPUS,))
        for task_id, gpus in left.items():
            part = self._lab.tasks[task_id].allocation[0]
            free.give_back([Need(GPUS.name, 0)], msgspec.structs.replace(part, gpus=part.gpus[gpus:]))
        if within is None:
            return free.fits(request.needs_on(node.name))
        return free.fits(request.gpus_of(node.name)) and FreeNode(node).fits(request.but_gpus.needs)


# -- what is asked of one task, here and when its attempt has ended --------------------------------------------------


def in_order(demands: Backlog) -> Iterator[tuple[Order, Demand]]:
    """The first of each group that waits, the next one first."""
    return iter(sorted(demands.groups(), key=lambda one: one[0]))


def waits_for_room(lab: Lab, demand: Demand) -> bool:
    """Is it nothing but room on nodes that keeps it, and neither a quota nor a licence?"""
    shared = demand.request.shared
    if shared and not Free(lab.inventory.cluster, rows_of_cluster(lab.inventory.cluster)).fits(shared):
        return False
    return lab.ledger.allows(demand)


def _is_open(node: Node, demand: Demand) -> bool:
    return node.is_open_to(demand.owner, by_admin=demand.by_admin)


def could_take(node: Node, demand: Demand) -> bool:
    """Could this node take one part of it, were there room?"""
    request = demand.request
    if not node.takes_tasks or not _is_open(node, demand) or node.name in request.avoid:
        return False
    if request.token and node.no_tokens is not None:
        return False
    lease = None if request.within is None else node.leases.get(request.within)
    if request.within is not None and (lease is None or not lease.gpus):
        return False
    return obstacle(node, request) is None


def is_wanted(lab: Lab, task: Task, part: Part, waiting: Iterable[Demand]) -> bool:
    """Tell whether any waiting task could use the GPUs that are free beside this part of a task, whether or not they
    are enough for it."""
    node = lab.inventory.nodes.get(part.node)
    if node is None:
        return True
    return any(
        demand.request.asks(GPUS.name)
        and demand.request.within == task.within
        and could_take(node, demand)
        and waits_for_room(lab, demand)
        for demand in waiting
    )


def more_gpus(lab: Lab, task: Task, part: Part, most: int | None, *, counted: int | None = None) -> list[int]:
    """GPUs of the same node that a task may have besides those of this part, up to `most` in all; none that are kept
    for others. `counted`: so many of it are in use by the ledger's word, all unless said."""
    node = lab.inventory.nodes.get(part.node)
    place = None if node is None else place_of(node, task)
    demand, has = demand_of(task), len(part.gpus)
    if node is None or place is None or not node.takes_tasks or not _is_open(node, demand):
        return []
    room = lab.ledger.gpus_for(demand, has if counted is None else counted)
    hold = lab.holds.get(part.node)
    without = {*part.gpus, *(hold.gpus if hold is not None and hold.task != task.id else ())}
    terms = next((need.terms for need in demand.request.needs if need.resource == GPUS.name), None)
    cards = Cards(place)
    for count in range(min(most or 0, room) - has, 0, -1):
        chosen = cards.chosen(count, (), terms, without)
        if chosen is not None:
            return chosen
    return []


def place_of(node: Node, task: Task) -> Node | Lease | None:
    """Of what a task has its GPUs there: of the node, or of an allocation, if that holds any."""
    return node if task.within is None else node.leases.get(task.within)
