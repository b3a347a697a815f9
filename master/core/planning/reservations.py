"""Room that is kept for a task which would wait for ever otherwise: where, until when, and who may pass it meanwhile.

Pure. A large task never fits as long as small ones take each GPU that falls free. So a task that somebody forced, that
is urgent, or that has waited too long, gets a reservation on the nodes that are free for it soonest. A task that passes
it there ends before, by its limit or by what is known of its like; or it takes what the reserved task leaves over.
Where nobody knows when the holders end, nobody passes. Of licences the same is kept; while one of them lacks, nothing
else is kept, for no GPU shall be idle for the sake of a licence. This is EASY backfill (Lifka, "The ANL/IBM SP
scheduling system", 1995), for few tasks."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

import msgspec

from master.core.nodes.inventory import Inventory
from master.core.nodes.node import Node
from master.core.nodes.resources import is_licence, is_of_whole_gpus
from master.core.planning.forecast import Forecast, Hold, ends_before
from master.core.tasks.attempt import Place
from master.core.tasks.backlog import Order
from master.core.tasks.request import Request, request_of

Rank = tuple[bool, bool, int]
LOOK_AGAIN_S = 60.0
"""Where nobody knows when a place will be free, a better one is looked for this often; and where its node has been away
for so long."""

LATE_S = 1.0
"""So long after the time that is told for a place its holders are late: then another time is told, or none."""


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task has these places as soon as they are free: nodes, and licences by the names of their resources; `since`:
    when it got a reservation, in seconds since the epoch; `looked_at`: when its place was chosen anew, the last time;
    `away_since`: since when there is no connection to one of its nodes, or no sample of it, as after a start of the
    master."""

    task: int
    places: list[Place]
    since: float
    looked_at: float | None = None
    away_since: float | None = None


def _agreed(holds: dict[str, Hold]) -> dict[str, Hold]:
    """They are kept until the last of them is free: that is when the task starts. Where one of them is of a licence
    that lacks, nothing but licences is kept."""
    if any(is_licence(name) and hold.holders for name, hold in holds.items()):
        holds = {name: hold for name, hold in holds.items() if is_licence(name)}
    known = [hold.until for hold in holds.values() if hold.until is not None]
    until = max(known) if known and len(known) == len(holds) else None
    for hold in holds.values():
        hold.until = until
    return holds


def _is_unseen(node: Node, request: Request) -> bool:
    """Has no sample shown its GPUs yet, so that nobody knows how much memory they have, of which the task asks some?"""
    return not node.watch.newest and any(need.terms is not None for need in request.needs)


def _last_looked(known: Reservation, now: float) -> float:
    """When a place was looked for last, or its node went away since. After a clock was put back, what is yet to come
    counts only if there is nothing else."""
    looked = known.since if known.looked_at is None else known.looked_at
    if known.away_since is None:
        return looked
    times = (looked, known.away_since)
    return max((at for at in times if at <= now), default=max(times))


class Reserving:
    """The reservations of one round of planning. `holds`: by node, or by the name of a licence's resource; `kept`:
    those that are there after it, the oldest first, a new tuple whenever there are others; `has_given_way`: something
    that was kept is so no more. `kind_of`: of nodes for which it gives the same any request would find the same there,
    as they are now; without it each is looked at by itself."""

    def __init__(
        self, forecast: Forecast, inventory: Inventory, *, most: int, kind_of: Callable[[str], Hashable] | None = None
    ) -> None:
        self.holds: dict[str, Hold] = {}
        self.kept: tuple[Reservation, ...] = ()
        self.has_given_way = False
        self._lowest: Rank | None = None
        self._kept: dict[int, Reservation] = {}
        self._rank: dict[int, Rank] = {}
        self._forecast = forecast
        self._inventory = inventory
        self._most = most
        self._kind_of = kind_of

    def renew(
        self,
        before: Iterable[Reservation],
        queue_order: Callable[[int], Order | None],
        nodes_for: Callable[[int, Collection[str]], Mapping[str, Node]],
    ) -> None:
        """Those of the last round hold on while their tasks wait (`queue_order`: where) and their nodes could take them
        (`nodes_for`: those of them that may). Where a node is only without a connection, nobody
        else can start there either, so it holds on."""
        for old in before:
            order = queue_order(old.task)
            if order is None:
                continue
            request = request_of(self._forecast.task(old.task))
            is_taken = any(need.resource in self.holds for need in request.shared)
            licences = None if is_taken else self._licences(order, request)
            places = [place for place in old.places if not is_licence(place.node)]
            holds, nodes, away = {}, nodes_for(old.task, [place.node for place in places]), list[Place]()
            for place in places:
                node = nodes.get(place.node)
                if node is None and self._is_away(place.node):
                    away.append(place)
                    continue
                if node is None or place.node in self.holds:
                    break
                hold = self._forecast.hold(old.task, node, request, place.gpus)
                if hold is None and _is_unseen(node, request):
                    away.append(place)
                    continue
                if hold is None:
                    break
                holds[place.node] = hold
            is_whole = len(holds) + len(away) == (request.nodes if places or not licences else 0)
            if licences is not None and is_whole:
                since = (self._forecast.now if old.away_since is None else old.away_since) if away else None
                kept = msgspec.structs.replace(old, away_since=since)
                self._keep(kept, _agreed(licences | holds), order.rank, away)

    @property
    def wake_at(self) -> float | None:
        """When what is told of a reservation changes, or a better place is to be looked for, though nothing happens
        until then; in seconds since the epoch."""
        now = self._forecast.now
        looks = [_last_looked(one, now) + LOOK_AGAIN_S for one in self._kept.values() if self._has_no_time(one)]
        late = [hold.until + LATE_S for hold in self.holds.values() if hold.holders and hold.until is not None]
        return min((at for at in (*looks, *late) if at > now), default=None)

    def _has_no_time(self, known: Reservation) -> bool:
        """Does nobody know when its place will be free, or is its node away?"""
        return known.away_since is not None or any(self.holds[one.node].until is None for one in known.places)

    def _is_away(self, name: str) -> bool:
        node = self._inventory.nodes.get(name)
        return node is not None and node.is_away

    def _licences(self, order: Order, request: Request) -> dict[str, Hold] | None:
        """Return the reservations of licences; None where a higher class has one of them, or there are not so many."""
        found: dict[str, Hold] = {}
        for need in request.shared:
            hold = self._forecast.licence(order.id, self._inventory, need)
            if hold is None or not self._may_have(need.resource, order):
                return None
            found[need.resource] = hold
        return found

    def may_reserve(self, order: Order) -> bool:
        """Might room be kept for a task? Without a look at the nodes: it has a reservation, there may be one more, or
        one gives way to it."""
        kept = self._kept
        if len(kept) < self._most or order.id in kept:
            return True
        return self._lowest is not None and self._lowest > (order.unforced, order.not_urgent, order.below)  # its rank

    def reserve(self, order: Order, request: Request, nodes: Iterable[Node]) -> bool:
        """Keep room for a task on those of these nodes that are free for it soonest; whether there was. Of more than
        there may be, and of two for one node, the higher class has it."""
        known = self._kept.get(order.id)
        has_licences = False
        if known is not None:
            has_licences = self._has_its_licences(known)
            if not self._is_stuck(known) and not has_licences:
                return True
        holds = self._found(order, request, nodes)
        if holds is None:
            if known is not None:
                self._looked(known)
            return known is not None
        is_here = known is not None and known.away_since is None
        if known is not None and is_here and not has_licences and not self._are_sooner(holds, known):
            self._looked(known)
            return True
        give_way = {self.holds[name].task for name in holds if name in self.holds}
        if known is not None:
            give_way.add(known.task)
        others = [one for one in self._kept.values() if one.task not in give_way]
        if len(others) >= self._most:
            lowest = max(others, key=lambda one: (self._rank[one.task], one.since), default=None)
            if lowest is None or self._rank[lowest.task] <= order.rank:
                return False
            give_way.add(lowest.task)
        for task_id in give_way:
            self.drop(task_id)
        now = self._forecast.now
        made = Reservation(order.id, [], now) if known is None else Reservation(order.id, [], known.since, now)
        self._keep(made, holds, order.rank)
        return True

    def _found(self, order: Order, request: Request, nodes: Iterable[Node]) -> dict[str, Hold] | None:
        """The places that are free for it soonest; None where there are not enough for it."""
        licences = self._licences(order, request)
        if licences is None:
            return None
        if any(hold.holders for hold in licences.values()):
            return _agreed(licences)
        soonest = self._soonest(order, request, nodes)
        if len(soonest) < request.nodes:
            return None
        return _agreed(licences | soonest)

    def _soonest(self, order: Order, request: Request, nodes: Iterable[Node]) -> dict[str, Hold]:
        """So many of the nodes that are free for it soonest, with what has to be kept there. Most could not be among
        them, by the number of their GPUs alone, and are not looked at more closely."""
        later: list[tuple[float, int, int, Node]] = []
        whole = next((need for need in request.needs if is_of_whole_gpus(need)), None)
        at_once = (self._forecast.now, 0)
        found: list[tuple[float, int, int, str, Hold]] = []
        idle: dict[Hashable, Hold | None] = {}

        def look(at: int, node: Node) -> None:
            hold = self._hold_on(node, order, request, idle)
            if hold is not None:
                insort(found, (hold.until or float("inf"), len(hold.holders), at, node.name, hold))
                del found[request.nodes :]

        for at, node in enumerate(nodes):
            if self._may_have(node.name, order):
                bound = at_once if whole is None else self._forecast.not_before(node, whole)
                if bound == at_once:
                    look(at, node)
                    if len(found) == request.nodes and found[-1][:2] == at_once:
                        break  # no other is free sooner, and of equals these are the first
                elif bound is not None:
                    later.append((*bound, at, node))
        later.sort()
        for end, ended, at, node in later:
            if len(found) == request.nodes and found[-1][:3] < (end, ended, at):
                break
            look(at, node)
        return {name: hold for *_, name, hold in found}

    def _hold_on(self, node: Node, order: Order, request: Request, idle: dict[Hashable, Hold | None]) -> Hold | None:
        """Return the reservation on a node. Where nothing runs it is the same on all that are alike (`idle`: what was
        found of them)."""
        if node.active or request.gpus_on or self._kind_of is None:
            return self._forecast.hold(order.id, node, request)
        kind = self._kind_of(node.name)
        if kind not in idle:
            idle[kind] = self._forecast.hold(order.id, node, request)
        hold = idle[kind]
        return None if hold is None else hold.copy(hold.task, hold.until)

    def drop(self, task_id: int) -> bool:
        """A task has started, or has to give way; was anything kept for it?"""
        if self._kept.pop(task_id, None) is None:
            return False
        self.has_given_way = True
        self.holds = {name: hold for name, hold in self.holds.items() if hold.task != task_id}
        self._changed()
        return True

    def passes(self, task_id: int, hold: Hold) -> bool:
        """May a task that starts now have what is kept here: is that kept for it, or does it end before?"""
        if hold.task == task_id:
            return True
        if hold.until is None:
            return False  # whenever it ends
        return ends_before(self._forecast.ends(task_id), hold)

    def _has_its_licences(self, known: Reservation) -> bool:
        """Was nothing kept for it but licences, and are these free now, so that it waits for room?"""
        are_all = all(is_licence(place.node) for place in known.places)
        return are_all and not any(self.holds[place.node].holders for place in known.places)

    def _is_stuck(self, known: Reservation) -> bool:
        """Does nobody know when its place will be free, and has nobody looked for a better one lately?"""
        is_due = abs(self._forecast.now - _last_looked(known, self._forecast.now)) >= LOOK_AGAIN_S
        return is_due and self._has_no_time(known)

    def _are_sooner(self, holds: Mapping[str, Hold], known: Reservation) -> bool:
        """Are these free before the places that it has, of which nobody knows when? A holder that runs longer than
        expected is taken to run as long again, for a move loses the GPUs that have fallen free there."""
        forecast, now = self._forecast, self._forecast.now
        latest = now
        for holder in (one for place in known.places for one in self.holds[place.node].holders):
            task, end = forecast.task(holder), forecast.ends(holder)
            took = now - (now if task.started_at is None else task.started_at) + task.ran_s
            latest = max(latest, now + took if end is None else end)
        return all(hold.until is not None and hold.until < latest for hold in holds.values())

    def _looked(self, known: Reservation) -> None:
        """Nobody knows of a better place."""
        self._kept[known.task] = msgspec.structs.replace(known, looked_at=self._forecast.now)
        self._changed()

    def _may_have(self, name: str, order: Order) -> bool:
        hold = self.holds.get(name)
        return hold is None or hold.task == order.id or self._rank[hold.task] > order.rank

    def _keep(self, made: Reservation, holds: dict[str, Hold], rank: Rank, away: Sequence[Place] = ()) -> None:
        self.holds = {**self.holds, **holds}
        places = [Place(name, sorted(hold.gpus)) for name, hold in holds.items()]
        self._kept[made.task] = msgspec.structs.replace(made, places=[*places, *away])
        self._rank[made.task] = rank
        self._changed()

    def _changed(self) -> None:
        self.kept = tuple(sorted(self._kept.values(), key=lambda one: (one.since, one.task)))
        self._lowest = max((self._rank[kept] for kept in self._kept), default=None)
