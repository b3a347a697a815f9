"""The room that would be free after the placements made so far in a round of planning, and the choice of nodes in it.
Pure.

Where something is kept for another task, whoever is to be placed ends before, or takes what that one leaves over.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from master.core.nodes.inventory import Inventory, obstacle
from master.core.nodes.node import Node
from master.core.nodes.resources import GPUS, Free, Need, rows_of_cluster
from master.core.planning.alike import Kind
from master.core.planning.forecast import NO_HOLDS, Hold
from master.core.planning.free_nodes import FreeNodes
from master.core.tasks.attempt import Allocation
from master.core.tasks.request import Demand, Request

_Same: TypeAlias = tuple[int, Hashable]
"""The bit of a kind of nodes, and what is kept on some of them."""
NO_PLACES: frozenset[int] = frozenset()
Passes = Callable[[int, Hold], bool]
"""May a task, by its id, have what is kept for another?"""


def only_its_own(task_id: int, hold: Hold) -> bool:
    """A task has what is kept for itself, and nothing else."""
    return hold.task == task_id


class Availability:
    """`free`: what is free on the nodes that take tasks; who lends it has it back as it was (`FreeNodes.give_back`)."""

    def __init__(self, inventory: Inventory, free: FreeNodes | None = None) -> None:
        self.free = FreeNodes(inventory) if free is None else free
        self.cluster = Free(inventory.cluster, rows_of_cluster(inventory.cluster))
        self.is_open_to_all = self.free.is_open_to_all
        self.root_owners = self.free.root_owners
        self._is_open = self.is_open_to_all and not self.root_owners
        self.fits_nowhere = self.free.fits_nowhere
        self.passes: Passes = only_its_own
        self._inventory = inventory
        self._within: dict[int, dict[str, Free]] = {}
        self._holds: Mapping[str, Hold] = NO_HOLDS
        self._beside: dict[int, Hold] = {}
        # The nodes where something is kept, those together that are alike, by the bit of their kind.
        self._piles: dict[int, dict[Hashable, _Pile]] = {}
        self._pile_of: dict[int, _Same] = {}
        self._in_the_way: dict[object, list[Hold]] = {}  # these two until something is taken, or what is kept changes
        self._refused: set[object] = set()

    @property
    def is_empty(self) -> bool:
        """Is there no node that takes tasks?"""
        return not self.free.live

    @property
    def holds(self) -> Mapping[str, Hold]:
        """Return the reservations, by node and by licence."""
        return self._holds

    @holds.setter
    def holds(self, holds: Mapping[str, Hold]) -> None:
        if holds is self._holds:
            return
        self._holds = holds
        self._changed()
        placed = ((self.free.place_of(name), hold) for name, hold in holds.items())
        self._beside = {place: hold for place, hold in placed if place is not None}
        self._piles, self._pile_of = {}, {}
        for place in self._beside:
            self._file(place)

    def place(self, demand: Demand, task_id: int = 0) -> list[Allocation] | None:
        """Choose as many nodes as the task wants and take them in this room; None if what is asked for does not fit on
        enough of those where its owner may go."""
        request, same = demand.request, self._same(demand)
        if request.shared and not self._has_licences(request, task_id):
            return None
        if request.within is not None:
            return self._place_within(request.within, demand, task_id)
        if same in self._refused and not any(self.passes(task_id, hold) for hold in self.in_the_way(demand)):
            return None  # as the one before, who asked for the same and might have passed no less
        chosen = self._best(demand, task_id)
        if len(chosen) < request.nodes:
            self._refused.add(same)
            return None
        self._changed()
        self._take_licences(request, task_id)
        return [self._take(place, request, task_id) for place in chosen]

    def is_open_as_to_all(self, demand: Demand) -> bool:
        """May its owner's tasks go to each node, as nearly all others' may (see `Node`)?"""
        return self.is_open_to_all and (demand.by_admin or demand.owner not in self.root_owners)

    def within(self, allocation: int) -> dict[str, Free]:
        """Return the free GPUs among those that an allocation holds, by node, of the nodes that take tasks."""
        found = self._within.get(allocation)
        if found is None:
            leases = self._inventory.leases(allocation)
            held = {name: lease for name, lease in leases.items() if self.free.place_of(name) is not None}
            found = self._within[allocation] = {name: Free(lease, (GPUS,)) for name, lease in held.items()}
        return found

    def _place_within(self, allocation: int, demand: Demand, task_id: int) -> list[Allocation] | None:
        """The same for a task within an allocation: the GPUs are of that, and all else of its nodes."""
        request, rest, fitting = demand.request, demand.request.but_gpus, list[tuple[int, int, str]]()
        for node in self.open_to(demand):
            place, gpus = self.free.place_of(node.name), self.within(allocation)[node.name]
            has_rest = place is not None and self._rating(place, rest) is not None and self._fits(place, rest, task_id)
            if place is not None and has_rest and gpus.fits(request.gpus_of(node.name)):
                fitting.append((gpus.counts[GPUS.name], place, node.name))
        if len(fitting) < request.nodes:
            return None
        if request.nodes != len(request.only):
            fitting.sort()
        self._changed()
        self._take_licences(request, task_id)
        return [
            self._take_within(allocation, place, name, request, task_id) for _, place, name in fitting[: request.nodes]
        ]

    def _take_within(self, allocation: int, place: int, name: str, request: Request, task_id: int) -> Allocation:
        self._take(place, request.but_gpus, task_id)
        free, needs = self.within(allocation)[name], request.gpus_of(name)
        gpus = free.take(needs).get(GPUS.name, [])
        terms = next((need.terms for need in needs), None)
        shares = terms is not None and terms.share
        return Allocation(name, gpus, free.pieces[GPUS.name].share_mib(gpus, terms) if terms and shares else None)

    def open_to(self, demand: Demand) -> Iterator[Node]:
        """The nodes that may take it, be there room or not: those that could not start it only where no other ever
        could."""
        request = demand.request
        if request.avoid:
            others = [node for node in self._admits(demand) if node.name not in request.avoid]
            able = [node for node in others if obstacle(node, request) is None]
            if len(able) >= request.nodes:
                yield from able
                return
        yield from self._admits(demand)

    def open_among(self, demand: Demand, names: Collection[str]) -> Iterator[Node]:
        """Those of these nodes that may take it."""
        if demand.request.avoid:  # whether any of them may is a matter of all others
            return (node for node in self.open_to(demand) if node.name in names)
        return self._admits(demand, names)

    def in_the_way(self, demand: Demand) -> list[Hold]:
        """Return the reservations of others without which the demand would fit, on licences and on nodes: one for each
        task and time, for whether somebody may pass depends on nothing else."""
        same = self._same(demand)
        found = self._in_the_way.get(same)
        if found is None:
            alike = {(hold.task, hold.until): hold for hold in self._found_in_the_way(demand)}
            found = self._in_the_way[same] = list(alike.values())
        return found

    def _found_in_the_way(self, demand: Demand) -> list[Hold]:
        request, holds = demand.request, self._holds
        if request.shared and not self.cluster.fits(request.shared):
            return []
        licences = [holds[need.resource] for need in request.shared if need.resource in holds]
        if request.within is not None:
            return licences  # its GPUs are kept for nobody else
        piles = [pile for _, pile in self._held_for(request) if self._any_may_take(demand, pile)]
        return [*licences, *(pile.hold for pile in piles)]

    def would_fit(self, node: Node, request: Request) -> bool:
        """Is there room for it on a node, if nothing is kept there for others?"""
        place = self.free.place_of(node.name)
        return place is not None and self._rating(place, request) is not None

    def _has_licences(self, request: Request, task_id: int) -> bool:
        return all(self.cluster.fits((need,), self._kept_from(need, task_id)) for need in request.shared)

    def _take_licences(self, request: Request, task_id: int) -> None:
        for need in request.shared:
            self.cluster.take((need,), self._kept_from(need, task_id))

    def _kept_from(self, need: Need, task_id: int) -> Hold | None:
        """Return the reservation of a licence, for another than this task."""
        hold = self._holds.get(need.resource)
        return None if hold is None or self.passes(task_id, hold) else hold

    def _admits(self, demand: Demand, among: Collection[str] | None = None) -> Iterator[Node]:
        request, nodes = demand.request, self._inventory.nodes
        names: Collection[str] = request.only or nodes
        if request.within is not None:
            held = self.within(request.within)
            names = [name for name in request.only or held if name in held]
        if among is not None:
            names = [name for name in among if name in names]
        takes_all, place_of, exclude = self.is_open_as_to_all(demand), self.free.place_of, request.exclude
        for name in names:
            if name in exclude or place_of(name) is None:
                continue
            node = nodes[name]
            is_open = takes_all or node.is_open_to(demand.owner, by_admin=demand.by_admin)
            if is_open and not (request.token and node.no_tokens is not None):
                yield node

    def _may_take(self, demand: Demand, place: int) -> bool:
        """May the node take it (see `open_to`)?"""
        request, name, kind = demand.request, self.free.name_at(place), self.free.kind_at(place)
        if request.avoid:
            return any(node.name == name for node in self.open_to(demand))
        if name in request.exclude or (request.only and name not in request.only):
            return False
        return kind.takes(demand.owner, by_admin=demand.by_admin) and (kind.access.gives_tokens or not request.token)

    def _any_may_take(self, demand: Demand, pile: _Pile) -> bool:
        return any(self._may_take(demand, place) for place in pile.places)

    def _best(self, demand: Demand, task_id: int) -> list[int]:
        """The best places of nodes where it fits, also beside what is kept there; of equals the first in the
        registry."""
        request, free = demand.request, self.free
        if request.only:
            return self._best_of_named(demand, task_id)
        among = free.places_of(node.name for node in self.open_to(demand)) if request.avoid else None
        excluded = free.places_of(request.exclude) if request.exclude else NO_PLACES
        without = {*self._beside, *excluded} if excluded else self._beside
        count, found, worst, piles = request.nodes, list[tuple[Any, int]](), None, self._piles
        for rating, bit, kind in free.the_best_first(request):
            if not kind.places:
                continue
            if worst is not None and rating != worst:
                break
            if not (kind.is_for_all or kind.takes(demand.owner, by_admin=demand.by_admin)):
                continue
            if bit in piles:
                found += [(rating, place) for place in kind.first(count, without, among)]
                found += [(rating, place) for place in self._beside_others(bit, demand, task_id)]
            elif count == 1 and not excluded and among is None:  # as mostly
                found.append((rating, kind.places[0]))
            else:
                found += [(rating, place) for place in kind.first(count, excluded, among)]
            if len(found) >= count:
                worst = rating
        found.sort()
        return [place for _, place in found[:count]]

    def _beside_others(self, bit: int, demand: Demand, task_id: int) -> list[int]:
        """The first places on nodes of a kind that takes it where it fits beside what is kept there, of each pile as
        many as it wants."""
        request, found = demand.request, list[int]()
        takes_all = not request.exclude and not request.avoid
        for pile in self._piles[bit].values():
            if self._fits_beside(pile, request, task_id):
                able = (place for place in pile.places if takes_all or self._may_take(demand, place))
                found += islice(able, request.nodes)
        return found

    def _best_of_named(self, demand: Demand, task_id: int) -> list[int]:
        """The same where the nodes are named: of equals the one that was named first. If all are wanted they are in
        the order in which they are named: that is who is rank 0."""
        request, fitting = demand.request, list[tuple[Any, int, int]]()
        if not request.gpus_on and not self.free.the_best_first(request):
            return []
        for node in self.open_to(demand):
            place = self.free.place_of(node.name)
            rating = None if place is None else self._rating(place, request)
            if place is not None and rating is not None and self._fits(place, request, task_id):
                fitting.append((rating, len(fitting), place))
        if request.nodes < len(request.only):
            fitting.sort()
        return [place for *_, place in fitting[: request.nodes]]

    def _same(self, demand: Demand) -> object:
        """Of those with the same the same is to be said, but of whom a node may be kept for."""
        return demand.request if self._is_open or self.is_open_as_to_all(demand) else demand

    def _changed(self) -> None:
        self._refused.clear()
        self._in_the_way.clear()

    def _held_for(self, request: Request) -> list[tuple[Any, _Pile]]:
        """Where something is kept, and it would fit if that were not so, with the ratings."""
        if request.gpus_on:
            alone = ((self._rating(pile.places[0], request), pile) for pile in map(self._pile_with, self._beside))
            return [one for one in alone if one[0] is not None]
        ratings = self.free.ratings(request) if self._beside else {}
        if not ratings:
            return []
        bits = ratings.keys() & self._piles.keys()
        return [(ratings[bit], pile) for bit in bits for pile in self._piles[bit].values()]

    def _file(self, place: int) -> None:
        """Put a node where something is kept among those that are alike."""
        before = self._pile_of.pop(place, None)
        if before is not None:
            bit, kept = before
            pile = self._piles[bit].pop(kept)
            pile.places.remove(place)
            if pile.places:
                self._piles[bit][kept] = pile._replace(hold=self._beside[pile.places[0]])
            elif not self._piles[bit]:
                del self._piles[bit]
        pile = self._pile_with(place)
        bit, hold = pile.kind.bit, pile.hold
        kept = (hold.task, hold.until, hold.gpus, *hold.spare.items())
        alike = self._piles.setdefault(bit, {})
        if kept in alike:
            insort(alike[kept].places, place)
        else:
            alike[kept] = pile
        self._pile_of[place] = bit, kept

    def _pile_with(self, place: int) -> _Pile:
        return _Pile(self.free.kind_at(place), self._beside[place], [place])

    def _rating(self, place: int, request: Request) -> Any:
        """How well it goes there, if nothing is kept there for others; None if it does not."""
        on_it = request.on(self.free.name_at(place))
        return self.free.ratings(on_it).get(self.free.kind_at(place).bit)

    def _fits(self, place: int, request: Request, task_id: int) -> bool:
        """Does it fit on a node where it would if nothing were kept there?"""
        return place not in self._beside or self._fits_beside(self._pile_with(place), request, task_id)

    def _fits_beside(self, pile: _Pile, request: Request, task_id: int) -> bool:
        """The same where something is kept."""
        on_it = request.on(self.free.name_at(pile.places[0])) if request.gpus_on else request
        return pile.kind.fits_beside(on_it, pile.hold) or self.passes(task_id, pile.hold)

    def _take(self, place: int, request: Request, task_id: int) -> Allocation:
        hold, name = self._beside.get(place), self.free.name_at(place)
        on_it = request.on(name) if request.gpus_on else request
        if hold is None:
            gpus, mib, _ = self.free.take(place, on_it)
        else:
            gpus, mib, _ = self.free.take(place, on_it, None if self.passes(task_id, hold) else hold)
            self._file(place)
        return Allocation(name, list(gpus), mib)


class _Pile(NamedTuple):
    """Nodes of one kind where the same is kept for one task; `places` in the registry's order."""

    kind: Kind
    hold: Hold
    places: list[int]
