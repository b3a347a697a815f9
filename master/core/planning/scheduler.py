"""Which waiting task goes where, now. Pure: its input in, a plan out; nothing is changed, who asked carries it out.

First come, first served within urgency and priority, and a task that does not fit never stands in the way of one that
does; but for one that somebody forced, that is urgent, or that has waited too long, room is kept. Among the nodes where
a request fits, a placement policy chooses.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple

import msgspec

from master.config.settings import Settings
from master.core.nodes.inventory import TOLD, Inventory
from master.core.nodes.node import Node
from master.core.nodes.resources import name_of
from master.core.people.quotas import NO_LEDGER, Quotas
from master.core.planning.availability import Availability, Passes, only_its_own
from master.core.planning.elastic import NONE_ELASTIC, Elastic, Lab, Looking, Resize
from master.core.planning.expected import Runs
from master.core.planning.forecast import NO_HOLDS, Forecast, Hold, ends_before
from master.core.planning.free_nodes import FreeNodes
from master.core.planning.obstacles import NO_TASKS, obstacles, obstacles_within, unready
from master.core.planning.placement import DEFAULT
from master.core.planning.reservations import Reservation, Reserving
from master.core.tasks.attempt import Allocation
from master.core.tasks.backlog import Backlog, Order
from master.core.tasks.line import Line
from master.core.tasks.request import Demand, Request, demand_of
from master.core.tasks.task import Task
from wire.message import Message, ids

LOOKS = 2000
"""So many tasks are looked at in a round that might pass what is kept for others, since they take less time than those
before them."""
FEW = 3
"""How many of the tasks are named that have to end first."""
ALWAYS = float("-inf")
"""The time before all others."""
_BY_ORDER = itemgetter(0)


def nobody_knows(_task: Task) -> float | None:
    """How long a task takes at most, where nothing was learned and no limit counts."""
    return None


def due_at(task: Task, patience_s: float) -> float:
    """Return from when on room is kept for a task that waits, in seconds since the epoch: at once for one that somebody
    forced or that is urgent, otherwise after so many seconds."""
    if task.forced or task.urgent:
        return ALWAYS
    return (task.eligible_at or task.submitted_at) + patience_s


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


class PlanInput(msgspec.Struct, frozen=True):
    """The input of the planner: each demand and its owner, in order (`demands`); the nodes, what they have, and which
    tasks hold what there (`inventory`); who may have how much (`quotas`); which placement policy is set; what admins
    set (`settings`); the tasks by id, how long one takes at most (`at_most`), by which runs (`runs`), and
    the reservations before (`reservations`). It is read, never changed, and holds until the next event. `free`: what is
    free on the nodes, where somebody keeps that from plan to plan; it is lent, and as it was afterwards. `elastic`: the
    tasks that may get more GPUs or fewer while they run."""

    demands: Backlog
    inventory: Inventory
    quotas: Quotas | None = None
    placement: str = DEFAULT
    settings: Settings = Settings()
    tasks: Mapping[int, Task] = msgspec.field(default_factory=dict)
    at_most: Callable[[Task], float | None] = nobody_knows
    runs: Callable[[], Runs] | None = None
    reservations: tuple[Reservation, ...] = ()
    free: FreeNodes | None = None
    elastic: Elastic = NONE_ELASTIC

    def reserved(self, now: float) -> list[Reservation]:
        """Return the reservations that hold on: of a task that got one early, since it was urgent, only while it is
        so, or has waited for long enough."""
        patience_s = self.settings.scheduler.reserve_after
        return [one for one in self.reservations if self._is_due(one, now, patience_s)]

    def _is_due(self, one: Reservation, now: float, patience_s: float) -> bool:
        task = self.tasks.get(one.task)
        return task is None or due_at(task, patience_s) <= max(one.since, now)


class Placement(msgspec.Struct, frozen=True):
    """The decision to start a task: what it gets, node by node."""

    task_id: int
    parts: list[Allocation]


class Reasons:
    """Why tasks wait, as one plan has it: computed when somebody asks, from the state at that time and from
    the reservations of that plan (`holds`)."""

    __slots__ = ("_holds", "_plan_input")

    def __init__(self, plan_input: PlanInput, holds: Mapping[str, Hold] = NO_HOLDS) -> None:
        self._plan_input = plan_input
        self._holds = holds

    def __call__(self, demand: Demand, task_id: int) -> Wait:
        """Return why the task with this demand waits; 0: one that is not filed."""
        seen = self._plan_input
        return explain(
            demand, seen.inventory, seen.quotas, self._holds, task_id=task_id, tasks=seen.tasks, free=seen.free
        )


class Plan(msgspec.Struct, frozen=True):
    """The decisions of the planner. `reasons` tells why a task waits, and works it out when it is asked;
    `reservations`: for which tasks room is kept from now on, `holds` what that is, by node; `wake_at`: when the planner
    wants to be asked again although nothing happens, in seconds since the epoch; `again`: it is to be asked again at
    once, for something is kept no more, and others were looked at before; or since there are elastic tasks, which are
    looked at when all that can has started."""

    reasons: Callable[[Demand, int], Wait]
    starts: list[Placement] = []
    resizes: list[Resize] = []
    reservations: tuple[Reservation, ...] = ()
    holds: Mapping[str, Hold] = NO_HOLDS
    wake_at: float | None = None
    again: bool = False


def plan(plan_input: PlanInput, now: float) -> Plan:
    """Decide what to do at `now` (seconds since the epoch): start every task that can start, in the order of the queue,
    and keep room for those that would never fit otherwise."""
    wishes = plan_input.demands.wishes()
    if not wishes:  # the usual case: something ended, and nobody waits
        resizes, wake_at = _resizes(plan_input, now, NO_HOLDS, only_its_own)
        return Plan(Reasons(plan_input), resizes=resizes, wake_at=wake_at)
    free = FreeNodes(plan_input.inventory, plan_input.placement) if plan_input.free is None else plan_input.free
    try:
        found = _Round(plan_input, free, now)
        starts = list(found.starts(wishes))
    finally:
        free.give_back()
    holds = found.reserving.holds
    resizes, ripe_at = ([], None) if starts else _resizes(plan_input, now, holds, found.reserving.passes)
    return Plan(
        Reasons(plan_input, holds),
        starts,
        resizes=resizes,
        reservations=found.reserving.kept,
        holds=holds,
        wake_at=min((at for at in (found.wake_at, found.reserving.wake_at, ripe_at) if at is not None), default=None),
        again=found.reserving.has_given_way or bool(starts and plan_input.elastic.tasks),
    )


def _resizes(
    plan_input: PlanInput, now: float, holds: Mapping[str, Hold], passes: Passes
) -> tuple[list[Resize], float | None]:
    """Which elastic tasks are to have more GPUs or fewer, and when the next of them may."""
    if not plan_input.elastic.tasks:
        return [], None
    ledger = NO_LEDGER if plan_input.quotas is None else plan_input.quotas.ledger()
    lab = Lab(plan_input.demands, plan_input.inventory, plan_input.tasks, ledger, holds, passes)
    looking = Looking(lab, plan_input.elastic, plan_input.settings.scheduler, now)
    return looking.resizes(), looking.wake_at


class _Round:
    """One round of planning. `wake_at`: when the next task has waited for so long that it gets a reservation."""

    def __init__(self, plan_input: PlanInput, free: FreeNodes, now: float) -> None:
        self.wake_at: float | None = None
        self._plan_input = plan_input
        self._now = now
        self._available = Availability(plan_input.inventory, free)
        self._ledger = NO_LEDGER if plan_input.quotas is None else plan_input.quotas.ledger()
        self._waiting = {} if self._available.is_empty else plan_input.tasks
        self._looks = LOOKS
        rules = plan_input.settings.scheduler
        forecast = Forecast(plan_input.tasks, plan_input.at_most, now, free.found_on, plan_input.runs)
        self._patience_s = rules.reserve_after
        self.reserving = Reserving(forecast, plan_input.inventory, most=rules.reservations, kind_of=free.kind_before)
        self.reserving.renew(plan_input.reserved(now), plan_input.demands.order, self._nodes_for)
        self._available.passes = self.reserving.passes
        self._note_kept()

    def _note_kept(self) -> None:
        """Room is kept for others than before."""
        self._available.holds = self.reserving.holds
        self._may_reserve = True  # until one may not: those behind it rank no higher
        self._reserved = {one.task for one in self.reserving.kept}
        groups = [self._plan_input.demands.group_of(task) for task in self._reserved]
        self._groups_kept = {group for group in groups if group is not None}
        self._requests_kept = {group.request for group in self._groups_kept}

    def starts(self, wishes: list[tuple[Order, Demand]]) -> Iterator[Placement]:
        """Yield the placements of the tasks that can start. `wishes`: the first of those that ask for the same, in
        order, by which the next one of all is found."""
        available, ledger, fits_nowhere = self._available, self._ledger, self._available.fits_nowhere
        begun: dict[int, Line] = {}  # by the id of its first; others are made when somebody behind theirs is looked at
        lines = self._lines(wishes, begun)
        left = len(lines)  # of so many it is not known yet that there is no room for them
        for at, (order, demand) in enumerate(lines, 1):
            if not left:
                break
            line = begun.pop(order.id, None) if begun else None
            if ledger is not NO_LEDGER and not ledger.allows(demand):
                self._let_go_all(demand)  # nor may any other that is alike, until somebody's task ends
                line = line or self._line(order, demand)
                line.drop_group()
            elif line is not None and line.is_closed:
                line.drop_group()
            elif fits_nowhere(demand.request):
                self._has_to_wait(order, demand)
                left -= 1
                if line is None and demand.request not in self._requests_kept:
                    continue  # as mostly: nobody behind it is looked at
                line = line or self._line(order, demand)
                line.close(but=self._kept_for(demand.request))
            elif (parts := available.place(ledger.within(demand), order.id)) is not None:
                self._let_go(order.id)
                ledger.take(demand, parts)
                yield Placement(order.id, parts)
                line = line or self._line(order, demand)
                line.advance()
            else:
                self._has_to_wait(order, demand)
                if self._another_may_pass(demand):
                    line = line or self._line(order, demand)
                    line.advance()
                else:  # whoever asks for the same, there is no room for it
                    left -= 1
                    line = line or self._line(order, demand)
                    line.close(but=self._kept_for(demand.request))
            if line.first is not None:
                insort(lines, (line.first, line.demand), at, key=_BY_ORDER)
                begun[line.first.id] = line
        yield from self._starts_reserved()

    def _line(self, order: Order, demand: Demand) -> Line:
        return Line(self._plan_input.demands, (order, demand))

    def _lines(self, wishes: list[tuple[Order, Demand]], begun: dict[int, Line]) -> list[tuple[Order, Demand]]:
        """The first of each wish, in order; where somebody may go where others may not, of each who has it: then each
        of them has a line of their own."""
        demands, root_owners = self._plan_input.demands, self._available.root_owners
        if self._available.is_open_to_all and not root_owners:  # as mostly
            return wishes
        lines: list[tuple[Order, Demand]] = []
        for order, demand in wishes:
            if self._available.is_open_to_all and not demands.has_weak(demand.request, root_owners):
                lines.append((order, demand))
            else:
                groups = demands.groups_of(demand.request)
                begun.update((one[0].id, Line(demands, one, is_alone=True)) for one in groups)
                lines += groups
        lines.sort(key=_BY_ORDER)
        return lines

    def _starts_reserved(self) -> Iterator[Placement]:
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

    def _nodes_for(self, task_id: int, names: Collection[str]) -> dict[str, Node]:
        """Those of these nodes that may take a task that waits."""
        demand = self._plan_input.demands.group_of(task_id)
        if demand is None or demand.request.within is not None:
            return {}
        return {node.name: node for node in self._available.open_among(demand, names)}

    def _kept_for(self, request: Request) -> list[Demand]:
        """The groups of those who ask for this and for whom room is kept."""
        return [group for group in self._groups_kept if group.request == request]

    def _let_go_all(self, demand: Demand) -> None:
        """Nothing needs to be kept for any task with this demand."""
        for one in self.reserving.kept:
            if self._plan_input.demands.group_of(one.task) == demand:
                self._let_go(one.task)

    def _let_go(self, task_id: int) -> None:
        """Nothing needs to be kept for this task: it starts, or may not."""
        if self.reserving.drop(task_id):
            self._note_kept()

    def _has_to_wait(self, order: Order, demand: Demand) -> None:
        """There is no room for it now. If it was forced, is urgent, or has waited for long enough, some is kept for
        it."""
        task = self._waiting.get(order.id)
        if task is None or demand.request.within is not None:
            return  # within an allocation nobody passes those who wait longer
        due = due_at(task, self._patience_s)
        if due > self._now:
            self.wake_at = due if self.wake_at is None else min(due, self.wake_at)
        elif self._may_reserve or order.id in self._reserved:
            self._reserve(order, demand)

    def _reserve(self, order: Order, demand: Demand) -> None:
        if not self.reserving.may_reserve(order):
            self._may_reserve = False
        elif self.reserving.reserve(order, demand.request, self._available.open_to(demand)):
            self._note_kept()

    def _another_may_pass(self, demand: Demand) -> bool:
        """It is only in the way of what is kept for others: one behind it that takes less time may not be. How many are
        looked at in a round has a bound."""
        if not self._available.holds or self._looks <= 0 or not self._available.in_the_way(demand):
            return False
        self._looks -= 1
        return True


def preview(plan_input: PlanInput, draft: Task, holds: Mapping[str, Hold], now: float) -> list[Allocation] | None:
    """Return what a task that is not filed would get if it were filed at `now`, beside what is kept for others
    (`holds`), which it may have if it ends before; None where it would wait."""
    demand = demand_of(draft)
    if plan_input.quotas is not None and plan_input.quotas.stops(demand):
        return None
    end = Forecast(plan_input.tasks, plan_input.at_most, now).end_of(draft)
    available = Availability(plan_input.inventory, plan_input.free)
    available.holds = {
        name: hold.copy(hold.task, hold.until) for name, hold in holds.items()
    }  # what is taken, they lose
    available.passes = lambda _task_id, hold: ends_before(end, hold)
    parts = available.place(demand)
    available.free.give_back()
    return parts


def explain(
    demand: Demand,
    inventory: Inventory,
    quotas: Quotas | None = None,
    holds: Mapping[str, Hold] = NO_HOLDS,
    *,
    task_id: int = 0,
    tasks: Mapping[int, Task] = NO_TASKS,
    free: FreeNodes | None = None,
) -> Wait:
    """Why a task with this demand cannot start now; `holds`: what is kept for which task, by node; `tasks`: by id, of
    which those are named that are in its way; `free`: what is free now, where somebody keeps that, to whom it is given
    back as it was."""
    request = demand.request
    never = inventory.why_never(request)
    if never is not None:
        return Wait(Message("never", why=never), [])
    beyond = None if quotas is None else quotas.why_never(demand)
    if beyond is not None:
        return Wait(Message("never", why=beyond), [])
    stops = [] if quotas is None else quotas.stops(demand)
    available = Availability(inventory, free)
    if available.is_empty:
        return Wait(Message("no_node_ready", obstacles=()), unready(inventory))
    available.holds = {
        name: hold.copy(hold.task, hold.until) for name, hold in holds.items()
    }  # what is taken, they lose
    has_room = available.place(demand, task_id) is not None
    available.free.give_back()
    if has_room:
        return Wait(Message("over_quota", obstacles=()), stops) if stops else Wait(Message("next"), [])
    told = Message("needs", request=request.describe(), obstacles=())
    if next(available.open_to(demand), None) is None:  # whatever becomes free
        told = Message("no_node_open", obstacles=())
    if request.within is not None:
        if not inventory.leases(request.within):
            return Wait(Message("waits_for_allocation", id=request.within), stops)
        return Wait(told, [*stops, *obstacles_within(demand, inventory, available, tasks)])
    kept = [kept_for(name, hold, task_id) for name, hold in holds.items() if hold.task == task_id]
    if not kept and available.in_the_way(demand):
        names = [
            node.name for node in available.open_to(demand) if node.name in holds and available.would_fit(node, request)
        ]
        names += [need.resource for need in request.shared if need.resource in holds]
        kept = [kept_for(name, holds[name], task_id) for name in names]
    return Wait(told, [*stops, *kept, *obstacles(demand, inventory, available.free, tasks)])


def kept_for(place: str, hold: Hold, task_id: int) -> Message:
    """Return the message about a reservation on a node, or of a licence, for the task that it is kept for, or for one
    in whose way it is."""
    node = name_of(place)
    gpus, tasks = ids(hold.gpus), ids(hold.holders, FEW)
    if hold.task == task_id:
        if not hold.holders:
            return Message("kept_for_it_free", node=node, gpus=gpus)
        if hold.until is None:
            return Message("kept_for_it", node=node, gpus=gpus, tasks=tasks)
        return Message("kept_for_it_until", node=node, gpus=gpus, tasks=tasks, until=hold.until)
    if hold.until is None and not hold.holders:
        return Message("kept_for_another_free", node=node, gpus=gpus, task=hold.task)
    if hold.until is None:
        return Message("kept_for_another", node=node, gpus=gpus, task=hold.task, tasks=tasks)
    return Message("kept_for_another_until", node=node, gpus=gpus, task=hold.task, until=hold.until)
