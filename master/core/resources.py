"""What tasks ask for, nodes have and tasks hold: a row of the table for each resource, and every rule written once.

Pure. A row says how much a task asks, how much there is, who has it, and the words for it; what fits, what lacks, what
is taken and given back follow. A resource is of a node (each part of an attempt is fitted against one node) or of the
cluster as a whole. Of some resources each piece has a number, which a task is told and may ask for: GPUs. Which node is
chosen is the scheduler's matter, what is told at length that of `obstacles`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from master.core.attempt import Allocation
from master.core.node import Node
from master.core.task import Task, Wish
from wire.message import Message


class Scope(StrEnum):
    """Against what a resource is counted."""

    NODE = "node"
    CLUSTER = "cluster"


class Cluster:
    """What there is once for all nodes: `has`, by resource, and how much of it is held."""

    def __init__(self, has: Mapping[str, int]) -> None:
        self.has = dict(has)
        self.held: Counter[str] = Counter()


class Need(NamedTuple):
    """So much of a resource; `exact`: these pieces of it, by number, or () where any will do."""

    resource: str
    amount: int
    exact: tuple[int, ...] = ()


P = TypeVar("P", Node, Cluster)


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """For a resource whose pieces have numbers: which are free, who holds which, why one is given to nobody although
    none holds it, and how a task gets and returns some. An allocation has them in a field of the resource's name."""

    free: Callable[[Any], Sequence[int]]
    holders: Callable[[Any], Mapping[int, int]]
    closed: Callable[[Any, int], Message | None]
    take: Callable[[Any, Sequence[int], int], None]
    give_back: Callable[[Any, Sequence[int], int], None]


class Resource(msgspec.Struct, Generic[P], frozen=True, kw_only=True):
    """One row. `fields`: of a Wish, that say how much; `asked`: how much a task asks, 0 for none; `exact`: which pieces
    of it; `has`: how much there is, None while nobody knows; `unit`: what one is called. Where the usual words will not
    do: `one`: what is asked; `none`: that there is not enough, ever, said of `nodes`; `short`: that there is not enough
    now."""

    name: str
    scope: Scope = Scope.NODE
    fields: tuple[str, ...]
    asked: Callable[[Wish], int]
    exact: Callable[[Wish], Sequence[int] | None] | None = None
    has: Callable[[P], int | None]
    numbers: Numbers | None = None
    unit: str
    one: Message | None = None
    none: Message | None = None
    short: Callable[[int, int], Message] | None = None

    def needed_by(self, task: Wish) -> Need | None:
        """What a task needs of it; None for nothing."""
        amount = self.asked(task)
        exact = self.exact(task) if self.exact is not None else None
        return Need(self.name, amount, tuple(exact or ())) if amount else None

    def free(self, place: P) -> int:
        """How much of it may be given out there now."""
        if self.numbers is not None:
            return len(self.numbers.free(place))
        return (self.has(place) or 0) - place.held.get(self.name, 0)

    # -- words ------------------------------------------------------------------------------------------------

    def describe(self, need: Need) -> Message:
        """`2 GPUs`, for people."""
        if need.exact:
            return Message("pieces", unit=self.unit, numbers=need.exact)
        return self.one or self._counted(need.amount)

    def why_never(self, need: Need, place: P) -> Message | None:
        """Why a place could never give so much, even when nothing is held there, to be said of `nodes`; None if it
        could, or may."""
        has = self.has(place)
        if has is None or (need.amount <= has and not need.exact):
            return None
        beyond = [number for number in need.exact if number >= has]
        if beyond:
            if has:
                return Message("has_no_piece", unit=self.unit, number=max(beyond), last=has - 1)
            return Message("has_no_pieces", unit=self.unit, number=max(beyond))
        return (self.none or Message("has", amount=self._counted(has))) if need.amount > has else None

    def told_short(self, place: P) -> Message:
        """How much is free there, where it is not enough."""
        free, has = self.free(place), self.has(place) or 0
        return self.short(free, has) if self.short is not None else Message("free", free=free, has=has, unit=self.unit)

    def _counted(self, count: int) -> Message:
        return Message("amount", count=count, unit=self.unit)


# -- the table ------------------------------------------------------------------------------------------------

GPUS = Resource[Node](
    name="gpus",
    fields=("gpus", "gpu_ids"),
    asked=lambda task: task.gpus if task.gpu_ids is None else len(task.gpu_ids),
    exact=lambda task: task.gpu_ids,
    has=lambda node: len(node.spec.gpu_models),
    numbers=Numbers(
        free=lambda node: node.free_gpus,
        holders=lambda node: node.gpu_holder,
        closed=Node.why_closed,
        take=Node.hold_gpus,
        give_back=Node.free_up_gpus,
    ),
    unit="GPU",
)
CPUS = Resource[Node](
    name="cpus",
    fields=("cpus",),
    asked=lambda task: task.cpus or 0,
    has=lambda node: node.cpus or None,
    unit="CPU",
)
SLOTS = Resource[Node](
    name="slots",
    fields=("gpus", "cpus"),
    # A task with neither GPUs nor CPUs takes one of the node's slots; others are not counted against them.
    asked=lambda task: int(task.gpus == 0 and task.cpus is None),
    has=lambda node: node.slots if node.spec.slots is not None else node.slots or None,
    unit="slot",
    one=Message("one_slot"),
    none=Message("has_no_slots"),
    short=lambda free, has: Message("slots_taken", taken=has - free, has=has),
)
RESOURCES: dict[str, Resource[Any]] = {row.name: row for row in (GPUS, CPUS, SLOTS)}
"""In this order what a task needs is looked at and told."""


def rows_of(scope: Scope) -> list[Resource[Any]]:
    """The rows of one scope."""
    return [row for row in RESOURCES.values() if row.scope is scope]


def needs_of(task: Wish, scope: Scope) -> tuple[Need, ...]:
    """What a task needs of one node, or of the cluster."""
    needs = [row.needed_by(task) for row in RESOURCES.values() if row.scope is scope]
    return tuple(need for need in needs if need is not None)


# -- the rules ------------------------------------------------------------------------------------------------


class Free:
    """What is free at one place, less what was taken since this was made."""

    __slots__ = ("counts", "numbers")

    def __init__(self, place: Node | Cluster, rows: Iterable[Resource[Any]]) -> None:
        self.counts: dict[str, int] = {}
        self.numbers: dict[str, list[int]] = {}
        counts = self.counts
        for row in rows:
            name, numbers = row.name, row.numbers
            if numbers is None:
                counts[name] = row.free(place)
            else:
                pieces = self.numbers[name] = list(numbers.free(place))
                counts[name] = len(pieces)

    def fits(self, needs: Iterable[Need]) -> bool:
        """Is there enough of everything?"""
        counts = self.counts
        for name, amount, exact in needs:
            if counts[name] < amount or (exact and not self._has_all(name, exact)):
                return False
        return True

    def lack(self, needs: Iterable[Need]) -> Need | None:
        """The first of these of which there is not enough; None where all fits."""
        for need in needs:
            if not self.fits((need,)):
                return need
        return None

    def take(self, needs: Iterable[Need]) -> dict[str, list[int]]:
        """Take what fits. Gives the numbers of the pieces that were taken, by resource."""
        taken = {}
        for name, amount, exact in needs:
            self.counts[name] -= amount
            if name in self.numbers:
                pieces = list(exact) or self.numbers[name][:amount]
                self.numbers[name] = [number for number in self.numbers[name] if number not in pieces]
                taken[name] = pieces
        return taken

    def give_back(self, needs: Iterable[Need], taken: Mapping[str, Sequence[int]]) -> None:
        """Undo `take`, which gave `taken`."""
        for name, amount, _ in needs:
            self.counts[name] += amount
            if name in self.numbers:
                self.numbers[name] = sorted([*self.numbers[name], *taken[name]])

    def _has_all(self, name: str, exact: Iterable[int]) -> bool:
        there = self.numbers[name]
        return all(number in there for number in exact)


class FreeNode(Free):
    """What is free on one node."""

    __slots__ = ("node",)

    def __init__(self, node: Node, rows: Iterable[Resource[Any]] | None = None) -> None:
        super().__init__(node, rows_of(Scope.NODE) if rows is None else rows)
        self.node = node


def take(place: Node | Cluster, needs: Iterable[Need], task: Task, part: Allocation | None = None) -> None:
    """Book what a task holds there; of what has numbers, what its allocation says. Raises ValueError, and has changed
    nothing, where a piece is held already."""
    for name, numbers in _numbered(part):
        numbers.take(place, getattr(part, name), task.id)
    for need in needs:
        if RESOURCES[need.resource].numbers is None:
            place.held[need.resource] += need.amount


def give_back(place: Node | Cluster, needs: Iterable[Need], task: Task, part: Allocation | None = None) -> None:
    """Undo `take`."""
    for name, numbers in _numbered(part):
        numbers.give_back(place, getattr(part, name), task.id)
    for need in needs:
        if RESOURCES[need.resource].numbers is None:
            place.held[need.resource] -= need.amount


def _numbered(part: Allocation | None) -> list[tuple[str, Numbers]]:
    if part is None:
        return []
    return [(row.name, row.numbers) for row in RESOURCES.values() if row.numbers is not None]
