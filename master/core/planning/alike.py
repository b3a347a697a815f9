"""Nodes that are alike, those together of which any request would find the same: so it is asked once for all of them.

Pure. In a cluster of a thousand nodes most are full, or empty, of a few makes. A kind is known by what there is to find
on its nodes and by nothing else, so what was found out of it holds for as long as anybody remembers it, whichever nodes
are of that kind then. Which node is of which kind now is `free_nodes`' matter.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, NamedTuple

import msgspec

from master.core.nodes.accounts import OWN, Gate
from master.core.nodes.node import Node, Restriction
from master.core.nodes.resources import GPUS, FreeNode, GpusKept, Kept, is_of_whole_gpus, leaves_over
from master.core.tasks.request import Request

NO_GPUS: frozenset[int] = frozenset()

REMEMBERED = 1000
"""So many findings of one sort are remembered of a kind."""


class Taken(NamedTuple):
    """The resources that a task gets on a node of some kind: GPUs, and of each so many MiB (None: all of it); and the
    kind of the node afterwards."""

    gpus: tuple[int, ...]
    mib: int | None
    kind: Kind


class Kind:
    """`what`: what there is to find on each of these nodes; `free`: the same, to be asked, never changed; `places`:
    where they stand in the registry, in order; `bit`: its own in the sets of `Candidates`; `is_for_all`: they take
    everybody's tasks."""

    __slots__ = ("_after", "_fitting", "access", "bit", "free", "is_for_all", "places", "takes", "what")

    def __init__(self, what: Hashable, free: FreeNode, access: Access, bit: int) -> None:
        self.what = what
        self.free = free
        self.access = access
        self.takes = access.takes
        self.is_for_all = access.is_for_all and access.root_owner is None
        self.bit = bit
        self.places: list[int] = []
        self._after: dict[tuple[Request, frozenset[int]], Taken] = {}
        self._fitting: dict[tuple[Request, frozenset[int]], bool] = {}

    def after(self, request: Request, beside: Kept | None) -> Taken | None:
        """Return the resources of a task that was placed here before and asked for the same; None if there was none.
        `beside`: the same GPUs were kept for another."""
        return self._after.get((request, NO_GPUS if beside is None else beside.gpus))

    def note_after(self, request: Request, beside: Kept | None, taken: Taken) -> None:
        """Remember what a task gets."""
        if len(self._after) >= REMEMBERED:
            self._after.clear()
        self._after[request, NO_GPUS if beside is None else beside.gpus] = taken

    def fits_beside(self, request: Request, kept: Kept) -> bool:
        """Does a request fit beside what is kept here for another, which fits if nothing is?"""
        asked = (request, kept.gpus)
        fits = self._fitting.get(asked)
        if fits is None:
            if len(self._fitting) >= REMEMBERED:
                self._fitting.clear()
            fits = self._fitting[asked] = self.free.fits(request.needs, GpusKept(kept.gpus, {}))
        return fits and leaves_over(kept, request.needs)

    def forget(self) -> None:
        """Forget what leads to kinds of which there is no node."""
        self._after = {asked: taken for asked, taken in self._after.items() if taken.kind.places}

    def bit_if_of(self, models: tuple[str, ...]) -> int:
        """Its bit, if there is a GPU of one of these models on each of its nodes, else 0."""
        cards = self.free.pieces[GPUS.name].cards()
        return self.bit if any(card.is_of(models) for card in cards) else 0

    def first(self, count: int, without: Collection[int], among: Collection[int] | None) -> Iterable[int]:
        """The first so many places, or all: `without` these, `among` those."""
        if not without and among is None:
            return self.places[:count]
        found: list[int] = []
        for at in self.places:
            if at not in without and (among is None or at in among):
                found.append(at)
                if len(found) == count:
                    break
        return found


class Access(msgspec.Struct, frozen=True):
    """The tasks that a node takes. `restriction`: those of some owners only, None for all; `gives_tokens`: also those
    that are to get a token; `gate`: over which accounts, None where all are the node's own agent's; `root_owner`: see
    `Node`."""

    restriction: Restriction | None
    gives_tokens: bool
    gate: Gate | None = None
    root_owner: str | None = None

    @classmethod
    def to(cls, node: Node) -> Access:
        """As it is now."""
        return cls(node.restriction, node.no_tokens is None, node.accounts.gate(node.boot_id), node.root_owner)

    @property
    def is_for_all(self) -> bool:
        """Does it take everybody's tasks, but of the root owner's only an admin's?"""
        return self.restriction is None and self.gate is None

    def takes(self, owner: str, *, by_admin: bool) -> bool:
        """May tasks of this owner be started there, if any may? `by_admin`: they count as an admin's."""
        login = OWN if self.gate is None else self.gate.of(owner)
        if login == OWN:
            if owner == self.root_owner and not by_admin:
                return False
            return self.restriction is None or self.restriction.why_not(owner, by_admin=by_admin) is None
        return login is not None and self.gate is not None and login not in self.gate.closed


class Candidates:
    """The kinds of nodes where a request fits, the best first. Kinds come in as they are met (`look`); sets of them are
    numbers, with a bit for each kind. `whole`: so many GPUs it needs that are free as a whole; `models`: of these, if
    any is named."""

    __slots__ = ("_known", "_rate", "_request", "able", "models", "ratings", "the_best_first", "whole")

    def __init__(self, request: Request, rate: Callable[[FreeNode], Any]) -> None:
        self.able = 0
        self.ratings: dict[int, Any] = {}
        """By the bit of each kind where it fits, how well it does, by a policy's key: the less, the better."""
        self.the_best_first: list[tuple[Any, int, Kind]] = []
        self._known = 0
        self._request = request
        self._rate = rate
        self.whole = max((need.amount for need in request.needs if is_of_whole_gpus(need)), default=0)
        self.models = next((need.terms.models for need in request.needs if need.terms is not None), ())

    def look(self, live: int, kinds: dict[int, Kind]) -> int:
        """Those of the `live` kinds where it fits; any that it meets for the first time is looked at."""
        new = live & ~self._known
        while new:
            bit = new & -new
            new ^= bit
            self._note(kinds[bit])
        return live & self.able

    def forget(self, gone: int) -> None:
        """These kinds are no more, and others get their bits."""
        self._known &= ~gone
        if self.able & gone:
            self.able &= ~gone
            self.the_best_first = [one for one in self.the_best_first if not one[1] & gone]
            self.ratings = {bit: rating for rating, bit, _ in self.the_best_first}

    def _note(self, kind: Kind) -> None:
        self._known |= kind.bit
        request, free = self._request, kind.free
        if (request.token and not kind.access.gives_tokens) or not free.fits(request.needs):
            return
        self.able |= kind.bit
        rating = self.ratings[kind.bit] = self._rate(free)
        insort(self.the_best_first, (rating, kind.bit, kind))
