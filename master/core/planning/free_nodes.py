"""The free resources of the nodes, kept from plan to plan: each node that takes tasks is of a kind, and a plan moves
nodes from kind to kind.

Pure. It says what the inventory says, and is always equal to one that is made anew: whoever changes a node tells it
(`refresh`), and only that node is looked at again. A plan gives back in the end all that it takes (`give_back`), for a
plan changes nothing; a placement that is then carried out comes in with `refresh`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from master.core.nodes.cards import Cards
from master.core.nodes.inventory import Inventory
from master.core.nodes.resources import GPUS, FreeNode, GpusKept, Kept, Need, Scope, rows_of, use_spare
from master.core.planning.alike import Access, Candidates, Kind, Taken
from master.core.planning.placement import DEFAULT, POLICIES
from master.core.tasks.request import KEPT, Request

SPARE_KINDS = 1000
"""So many kinds of which there is no node, and as many as there are others, are remembered: they come back."""

REQUESTS = 16
"""Of so many requests it is remembered what was found for each node."""

NOWHERE: Mapping[int, Any] = MappingProxyType({})


class FreeNodes:
    """`live`: the kinds of which there is a node, a bit for each. Places are those of the nodes in the registry."""

    def __init__(self, inventory: Inventory, placement: str = DEFAULT) -> None:
        self.live = 0
        self._inventory = inventory
        self._policy = POLICIES[placement]
        self._rows = rows_of(Scope.NODE)
        self._begin()
        self.refresh(())

    def _begin(self) -> None:
        """Forget everything, and look at all nodes."""
        self._rules = self._inventory.rules
        self._names = list(self._inventory.nodes)
        self._place_of = {name: at for at, name in enumerate(self._names)}
        self._kind_at: list[Kind | None] = [None] * len(self._names)
        self._kinds: dict[Hashable, Kind] = {}
        self._guarded: list[Kind] = []  # the kinds that are not for all
        self._by_bit: dict[int, Kind] = {}
        self._spare_bits: list[int] = []
        self._cards: dict[Hashable, Cards] = {}
        self._with_whole: defaultdict[int, int] = defaultdict(int)  # the kinds with so many whole GPUs, or more
        self._of_models: dict[tuple[str, ...], int] = {}  # the kinds with a GPU of one of these models
        self._found: dict[str, dict[Hashable, Any]] = {}
        self._answers: dict[Request, dict[str, Any]] = {}
        self._candidates: dict[Request, Candidates] = {}
        self._plainly: dict[Request, Candidates] = {}  # those of them that `fits_nowhere` tells of
        self._taken: dict[int, Kind] = {}
        self.live = 0
        for at in range(len(self._names)):
            self._look_at(at)

    def refresh(self, changed: Collection[str], sampled: Iterable[str] = ()) -> None:
        """Something of these nodes may have changed, or of which there are, or of the rules for all; of those that were
        `sampled` nothing but what samples tell of their GPUs."""
        self.give_back()
        inventory = self._inventory
        if self._rules is not inventory.rules or self._names != list(inventory.nodes):
            self._begin()
        else:
            for name in changed:
                if name in self._place_of:
                    self._look_at(self._place_of[name])
            for name in sampled:
                if name in self._place_of and name not in changed:
                    self._look_at(self._place_of[name], is_sampled=True)
        if len(self._kinds) > 2 * self.live.bit_count() + SPARE_KINDS:
            self._forget()

    # -- looking ----------------------------------------------------------------------------------------------

    @property
    def is_open_to_all(self) -> bool:
        """Does each node take everybody's tasks, but for those of the `root_owners` that are no admin's?"""
        return not any(kind.places and not kind.access.is_for_all for kind in self._guarded)

    @property
    def root_owners(self) -> frozenset[str]:
        """Return the owners whose tasks run as root on some node."""
        return frozenset(
            owner for kind in self._guarded if kind.places and (owner := kind.access.root_owner) is not None
        )

    def by_name(self) -> Mapping[str, FreeNode]:
        """Return the free resources of each node that takes tasks. The values are for reading only, and do not say
        which node they belong to."""
        kinds = zip(self._names, self._kind_at, strict=True)
        return {name: kind.free for name, kind in kinds if kind is not None}

    def free_on(self, name: str) -> FreeNode | None:
        """The same of one node; None where it takes no tasks."""
        place = self.place_of(name)
        return None if place is None else self.kind_at(place).free

    def name_at(self, place: int) -> str:
        """The node that stands there."""
        return self._names[place]

    def place_of(self, name: str) -> int | None:
        """Where a node stands; None where it takes no tasks."""
        place = self._place_of.get(name)
        return None if place is None or self._kind_at[place] is None else place

    def places_of(self, names: Iterable[str]) -> set[int]:
        """Where those of these nodes stand that take tasks."""
        return {place for place in map(self.place_of, names) if place is not None}

    def kind_at(self, place: int) -> Kind:
        """Of which kind the node there is, which takes tasks."""
        kind = self._kind_at[place]
        if kind is None:
            raise KeyError(self._names[place])
        return kind

    def kind_before(self, name: str) -> Kind | None:
        """Of which kind a node was before a plan took anything there; None where it takes no tasks."""
        place = self._place_of[name]
        return self._taken.get(place, self._kind_at[place])

    def found_on(self, name: str) -> dict[Hashable, Any]:
        """Return a place for findings about a node, which lasts as long as nothing of the node or its tasks changes;
        resources that a plan takes there are no change."""
        return self._found.setdefault(name, {})

    def forget_findings(self, names: Iterable[str]) -> None:
        """Something of the tasks on these nodes changed, and nothing of what is free there."""
        for name in names:
            self._found.pop(name, None)

    def answers_to(self, request: Request) -> dict[str, Any]:
        """Likewise, by node, for whoever asks the same of all nodes again and again: of the last few requests what was
        found is remembered."""
        answers = self._answers.pop(request, None)
        if answers is None:
            answers = {}
            if len(self._answers) >= REQUESTS:
                del self._answers[next(iter(self._answers))]
        self._answers[request] = answers
        return answers

    def ratings(self, request: Request) -> Mapping[int, Any]:
        """How well a request goes on each kind where there is room for one part of it, by the policy's key and the bit
        of the kind; also for some of which there is no node now."""
        candidates = self._candidates_for(request)
        return candidates.ratings if candidates.look(self._live_for(candidates), self._by_bit) else NOWHERE

    def fits_nowhere(self, request: Request) -> bool:
        """Is there no node where it would fit, were nothing kept for others? That is found in a moment, where nothing
        is said of certain nodes' GPUs, of licences, or of an allocation; of others it is said of none."""
        candidates = self._plainly.get(request)
        if candidates is None:
            if request.gpus_on or request.shared or request.within is not None:
                return False
            candidates = self._plainly[request] = self._candidates_for(request)
        if candidates.whole and not self.live & self._with_whole[candidates.whole]:
            return True  # as mostly in a full cluster
        live = self._live_for(candidates)
        return not live or not (live & candidates.able or candidates.look(live, self._by_bit))

    def the_best_first(self, request: Request) -> Sequence[tuple[Any, int, Kind]]:
        """Return the kinds where there is room for one part of it, the best first, with the ratings and their bits;
        some may have no node now. Nothing where it fits on no node."""
        candidates = self._candidates_for(request)
        return candidates.the_best_first if candidates.look(self._live_for(candidates), self._by_bit) else ()

    # -- taking -----------------------------------------------------------------------------------------------

    def take(self, place: int, request: Request, beside: Kept | None = None) -> Taken:
        """Give a task what it asks for there, where it fits; `beside` what is kept for another."""
        kind = self._kind_at[place] or self.kind_at(place)
        taken = kind.after(request, beside)
        if taken is None:
            taken = self._after(kind, request.needs, beside)
            kind.note_after(request, beside, taken)
        if beside is not None:
            use_spare(beside, request.needs)
        self._taken.setdefault(place, kind)
        self._move(place, taken.kind)
        return taken

    def give_back(self) -> None:
        """Undo all that was taken."""
        taken, self._taken = self._taken, {}
        for place, kind in taken.items():
            self._move(place, kind)

    def _after(self, kind: Kind, needs: tuple[Need, ...], beside: Kept | None) -> Taken:
        free = kind.free.copy()
        gpus = free.take(needs, None if beside is None else GpusKept(beside.gpus, {})).get(GPUS.name, [])
        terms = next((need.terms for need in needs if need.terms is not None), None)
        mib = free.pieces[GPUS.name].share_mib(gpus, terms) if terms is not None and terms.share else None
        return Taken(tuple(gpus), mib, self._kind_of(free, kind.access))

    # -- kinds ------------------------------------------------------------------------------------------------

    def _look_at(self, place: int, *, is_sampled: bool = False) -> None:
        name = self._names[place]
        self._found.pop(name, None)
        for request, answers in self._answers.items():
            if not is_sampled or request.looks:  # to the others samples say nothing
                answers.pop(name, None)
        node = self._inventory.nodes[name]
        self._move(place, self._kind_of(FreeNode(node, self._rows), Access.to(node)) if node.takes_tasks else None)

    def _kind_of(self, free: FreeNode, access: Access) -> Kind:
        what = what_matters(free, access)
        kind = self._kinds.get(what)
        if kind is None:
            bit = self._spare_bits.pop() if self._spare_bits else 1 << len(self._by_bit)
            self._share_pieces(free)
            kind = self._kinds[what] = self._by_bit[bit] = Kind(what, free, access, bit)
            if not kind.is_for_all:
                self._guarded.append(kind)
            for amount in range(free.counts[GPUS.name] + 1):
                self._with_whole[amount] |= bit
            for models in self._of_models:
                self._of_models[models] |= kind.bit_if_of(models)
        return kind

    def _share_pieces(self, free: FreeNode) -> None:
        """Findings about some GPUs hold for all that are alike, whatever else their nodes have."""
        for name, cards in free.pieces.items():
            told = cards.what_matters()
            if told not in self._cards:
                self._cards[told] = cards.copy()
            free.pieces[name] = self._cards[told]

    def _move(self, place: int, to: Kind | None) -> None:
        before = self._kind_at[place]
        if before is to:
            return
        if before is not None:
            del before.places[bisect_left(before.places, place)]
            if not before.places:
                self.live ^= before.bit
        if to is not None:
            if not to.places:
                self.live |= to.bit
            insort(to.places, place)
        self._kind_at[place] = to

    def _forget(self) -> None:
        """Forget the kinds of which there is no node."""
        gone = 0
        for what, kind in list(self._kinds.items()):
            if kind.places:
                kind.forget()
            else:
                gone |= kind.bit
                self._spare_bits.append(kind.bit)
                del self._kinds[what], self._by_bit[kind.bit]
        self._guarded = [kind for kind in self._guarded if kind.places]
        pieces = [cards for kind in self._kinds.values() for cards in kind.free.pieces.values()]
        self._cards = {cards.what_matters(): cards for cards in pieces}
        for amount in self._with_whole:
            self._with_whole[amount] &= ~gone
        for models in self._of_models:
            self._of_models[models] &= ~gone
        for candidates in {id(one): one for one in self._candidates.values()}.values():
            candidates.forget(gone)

    def _candidates_for(self, request: Request) -> Candidates:
        found = self._candidates.get(request)
        if found is None:
            if len(self._candidates) >= KEPT:
                self._candidates.clear()
                self._plainly.clear()
            one = request.of_one_node
            found = self._candidates.get(one)
            if found is None:
                found = self._candidates[one] = Candidates(one, self._policy(one))
            self._candidates[request] = found
        return found

    def _live_for(self, candidates: Candidates) -> int:
        """The kinds of which there is a node, with enough whole GPUs, and of the models, where it needs that."""
        live, models = self.live, candidates.models
        if candidates.whole:
            live &= self._with_whole[candidates.whole]
        if models:
            if models not in self._of_models:
                self._of_models[models] = sum(kind.bit_if_of(models) for kind in self._kinds.values())
            live &= self._of_models[models]
        return live

    # -- checking ---------------------------------------------------------------------------------------------

    def discrepancies(self, besides: Collection[str] = ()) -> list[str]:
        """Return where this differs from the inventory, but for nodes that are to be looked at again anyway."""
        if self._taken:
            return ["of what is free a plan has not given back what it took"]
        if self._rules is not self._inventory.rules or self._names != list(self._inventory.nodes):
            return []  # all will be looked at again
        found = []
        for name, kind in zip(self._names, self._kind_at, strict=True):
            node = self._inventory.nodes[name]
            due = what_matters(FreeNode(node), Access.to(node)) if node.takes_tasks else None
            if name not in besides and due != (None if kind is None else kind.what):
                found.append(f"of node {name} something else is kept than is free there")
        return found


def what_matters(free: FreeNode, access: Access) -> Hashable:
    """All that any request, or any policy, may find there."""
    return (access, free.cpus, *free.counts.values(), *(pieces.what_matters() for pieces in free.pieces.values()))
