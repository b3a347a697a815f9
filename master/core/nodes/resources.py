"""The resources that tasks ask for, nodes have and tasks hold: a row of the table for each resource, and every rule
written once.

Pure. A row says how much a task asks, how much there is, who has it, and the words for it; what fits, what lacks, what
is taken and given back follow. A resource is of a node (each part of an attempt is fitted against one node) or of the
cluster as a whole. Of some resources each piece has a number, which a task is told and may ask for: GPUs. Which node is
chosen is the scheduler's matter, what is told at length that of `obstacles`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from math import ceil
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import msgspec

from master.core.nodes.cards import Card, Cards, GpuTerms
from master.core.nodes.leases import Lease
from master.core.nodes.node import Node
from master.core.tasks.attempt import Part
from master.core.tasks.task import Task, Wish
from wire.message import Message


class Scope(StrEnum):
    """Against what a resource is counted."""

    NODE = "node"
    CLUSTER = "cluster"


class Cluster:
    """The resources that exist once for all nodes: `has`, by resource, and how much of it is held."""

    def __init__(self, has: Mapping[str, int]) -> None:
        self.has = dict(has)
        self.held: Counter[str] = Counter()


class Need(NamedTuple):
    """So much of a resource; `exact`: these pieces of it, by number, or () where any will do; `most`: up to so many if
    they are there, 0 for no more than `amount`; `terms`: what each piece must be like, None where any will do."""

    resource: str
    amount: int
    exact: tuple[int, ...] = ()
    most: int = 0
    terms: GpuTerms | None = None


P = TypeVar("P", Node, Cluster)


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """For a resource whose pieces have numbers: which are free as a whole, who holds which, why one is given to nobody
    although none holds it, and how a task gets and returns some. An allocation has them in a field of the resource's
    name. `room`: what the planner chooses from; `terms`: what a task asks of each piece; `why_never`: the
    words for terms that no piece there could ever meet."""

    free: Callable[[Any], Sequence[int]]
    holders: Callable[[Any], Mapping[int, Iterable[int]]]
    closed: Callable[[Any, int], Message | None]
    take: Callable[[Any, Part, int], None]
    give_back: Callable[[Any, Part, int], None]
    room: Callable[[Any], Cards]
    terms: Callable[[Wish], GpuTerms | None]
    why_never: Callable[[Any, Need], Message | None]


class Resource(msgspec.Struct, Generic[P], frozen=True, kw_only=True):
    """One row. `fields`: of a Wish, that say how much; `asked`: how much a task asks, 0 for none; `exact`: which pieces
    of it; `most`: up to how much; `has`: how much there is, None while nobody knows; `unit`: what one is called. Where
    the usual words will not do: `one`: what is asked; `counted`: so much of it; `none`: that there is not enough, ever,
    said of `nodes`; `short`: that there is not enough now; `unknown`: that
    nobody knows how much there is."""

    name: str
    scope: Scope = Scope.NODE
    fields: tuple[str, ...]
    asked: Callable[[Wish], int]
    exact: Callable[[Wish], Sequence[int] | None] | None = None
    most: Callable[[Wish], int | None] | None = None
    has: Callable[[P], int | None]
    numbers: Numbers | None = None
    unit: str
    one: Message | None = None
    counted: Callable[[int], Message] | None = None
    none: Message | None = None
    short: Callable[[int, int], Message] | None = None
    unknown: Message | None = None

    def needed_by(self, task: Wish) -> Need | None:
        """Return the need of a task for this resource; None for nothing."""
        amount = self.asked(task)
        if not amount:
            return None
        exact = self.exact(task) if self.exact is not None else None
        most = self.most(task) if self.most is not None else None
        terms = self.numbers.terms(task) if self.numbers is not None else None
        return Need(self.name, amount, tuple(exact or ()), most or 0, terms)

    def free(self, place: P) -> int:
        """How much of it may be given out there now."""
        if self.numbers is not None:
            return len(self.numbers.free(place))
        return (self.has(place) or 0) - place.held.get(self.name, 0)

    # -- words ------------------------------------------------------------------------------------------------

    def describe(self, need: Need) -> Message:
        """`2 GPUs`, for people."""
        if need.exact:
            told = Message("pieces", unit=self.unit, numbers=need.exact)
        elif need.most:
            told = Message("amount_range", least=need.amount, most=need.most, unit=self.unit)
        else:
            told = self.one or self._counted(need.amount)
        return told if need.terms is None else described(told, need.terms)

    def why_never(self, need: Need, place: P) -> Message | None:
        """Why a place could never give so much, even when nothing is held there, to be said of `nodes`; None if it
        could, or may."""
        has = self.has(place)
        if has is None or (need.amount <= has and not need.exact and need.terms is None):
            return None
        beyond = [number for number in need.exact if number >= has]
        if beyond:
            if has:
                return Message("has_no_piece", unit=self.unit, number=max(beyond), last=has - 1)
            return Message("has_no_pieces", unit=self.unit, number=max(beyond))
        if need.amount > has:
            return self.none or Message("has", amount=self._counted(has))
        return self.numbers.why_never(place, need) if self.numbers is not None and need.terms is not None else None

    def told_short(self, place: P) -> Message:
        """How much is free there, where it is not enough."""
        known = self.has(place)
        if known is None and self.unknown is not None:
            return self.unknown
        free, has = self.free(place), known or 0
        return self.short(free, has) if self.short is not None else Message("free", free=free, has=has, unit=self.unit)

    def _counted(self, count: int) -> Message:
        if self.counted is not None:
            return self.counted(count)
        return Message("amount", count=count, unit=self.unit)


# -- what a task asks of each GPU ------------------------------------------------------------------------------

LEARNED_MORE = 1.1
"""Of what tasks like it were seen to use, a task gets so much: no two runs are alike."""


def terms_of(task: Wish) -> GpuTerms | None:
    """Return the terms of a task for each of its GPUs; None if any will do. One that would share and of whose memory
    nobody knows anything has its GPUs to itself."""
    memory, seen = task.gpu_memory_mib or 0, 0
    if task.share and not memory:
        seen = getattr(task, "learned_gpu_mib", None) or 0
        memory = ceil(LEARNED_MORE * seen)
    share = task.share and memory > 0
    if not (memory or task.gpu_models or task.min_free_util):
        return None
    return GpuTerms(memory, tuple(task.gpu_models), share, task.min_free_util, seen)


def described(what: Message, terms: GpuTerms) -> Message:
    """`2 GPUs of model A100, 8000 MiB of each`, for people."""
    if terms.models:
        what = Message("of_model", what=what, models=terms.models)
    if terms.memory_mib:
        mib = terms.memory_mib
        what = Message("share_of", what=what, mib=mib) if terms.share else Message("with_memory", what=what, mib=mib)
    if not terms.min_free_util:
        return what
    percent = terms.min_free_util
    return Message("with_free_util", what=what, percent=int(percent) if percent.is_integer() else percent)


def why_no_card(node: Node, need: Need) -> Message | None:
    """Why no GPUs of a node could ever meet the terms; None if enough could, or may."""
    terms = need.terms
    if terms is None:
        return None
    cards = [Card(node, gpu) for gpu in range(len(node.spec.gpu_models))]
    if need.exact:
        cards = [card for card in cards if card.index in need.exact]
    of_model = [card for card in cards if card.is_of(terms.models)]
    if not of_model and not need.exact:
        return Message("has_only_models", there=tuple(dict.fromkeys(card.model for card in cards)))
    if len(of_model) < need.amount:
        return Message("has_of_model", count=len(of_model), models=terms.models)
    large = [card for card in of_model if card.is_large_enough(terms, node.rules)]
    if len(large) >= need.amount:
        return None
    most = max(card.most_mib(node.rules) or 0 for card in of_model)
    if len(large) == 0:
        return Message("gpus_too_small", most=most)
    return Message("has_of_memory", count=len(large), mib=terms.memory_mib)


def is_of_whole_gpus(need: Need) -> bool:
    """Tell whether this need is for GPUs that are not shared."""
    return need.resource == GPUS.name and not (need.terms is not None and need.terms.share)


# -- the table ------------------------------------------------------------------------------------------------

GPUS = Resource[Node](
    name="gpus",
    fields=(
        "gpus", "gpus_max", "gpu_ids", "gpu_memory_mib", "gpu_models", "share", "min_free_util", "learned_gpu_mib",
    ),
    asked=lambda task: task.gpus if task.gpu_ids is None else len(task.gpu_ids),
    exact=lambda task: task.gpu_ids,
    most=lambda task: task.gpus_max,
    has=lambda node: len(node.spec.gpu_models),
    numbers=Numbers(
        free=lambda node: node.free_gpus,
        holders=lambda node: node.gpu_holders,
        closed=Node.why_closed,
        take=lambda node, part, task_id: node.hold_gpus(part.gpus, task_id, part.gpu_mib),
        give_back=lambda node, part, task_id: node.free_up_gpus(part.gpus, task_id),
        room=Cards,
        terms=terms_of,
        why_never=why_no_card,
    ),
    unit="GPU",
)  # fmt: skip
CPUS = Resource[Node](
    name="cpus",
    fields=("cpus",),
    asked=lambda task: task.cpus or 0,
    has=lambda node: node.cpus or None,
    unit="CPU",
    unknown=Message("cpus_unknown"),
)
MEMORY = Resource[Node](
    name="memory_mib",
    fields=("memory_mib",),
    asked=lambda task: task.memory_mib or 0,
    has=lambda node: node.memory_mib or None,
    unit="MiB of memory",
    counted=lambda mib: Message("memory", mib=mib),
    short=lambda free, has: Message("memory_free", free=free, has=has),
    unknown=Message("memory_unknown"),
)
TMP_DISK = Resource[Node](
    name="tmp_disk_mib",
    fields=("tmp_disk_mib",),
    asked=lambda task: task.tmp_disk_mib or 0,
    has=lambda node: node.tmp_disk_mib,
    unit="MiB of temporary disk",
    counted=lambda mib: Message("tmp_disk", mib=mib),
    short=lambda free, has: Message("tmp_disk_free", free=free, has=has),
    unknown=Message("tmp_disk_unknown"),
)
SLOTS = Resource[Node](
    name="slots",
    fields=("gpus", "cpus"),
    # A task with neither GPUs nor CPUs takes one of the node's slots; others are not counted against them.
    asked=lambda task: int(task.gpus == 0 and task.cpus is None),
    has=lambda node: node.spec.slots if node.spec.slots is not None else node.cpus or None,
    unit="slot",
    one=Message("one_slot"),
    none=Message("has_no_slots"),
    short=lambda free, has: Message("slots_taken", taken=has - free, has=has),
    unknown=Message("slots_unknown"),
)
RESOURCES: dict[str, Resource[Any]] = {row.name: row for row in (GPUS, CPUS, MEMORY, TMP_DISK, SLOTS)}
"""In this order what a task needs is looked at and told."""


LICENCE = "licence "
"""Before the name of one: what the resource of that licence is called. Which there are is the lab's to say."""


@lru_cache(maxsize=1024)
def licence(name: str) -> Resource[Cluster]:
    """The row of one licence, by the name of its resource."""
    said = name.removeprefix(LICENCE)
    return Resource[Cluster](
        name=name,
        scope=Scope.CLUSTER,
        fields=("licences",),
        asked=lambda task: task.licences.get(said, 0),
        has=lambda cluster: cluster.has.get(name, 0),
        unit="licence",
        counted=lambda count: Message("licences", count=count, name=said),
        short=lambda free, has: Message("licences_free", free=free, has=has, name=said),
    )


def is_licence(resource: str) -> bool:
    """Is this the name of a licence's resource? No node is called so."""
    return resource.startswith(LICENCE)


def name_of(place: str) -> str | Message:
    """Return the name of a reservation's place in messages: of the node, or of the licence."""
    return Message("licence", name=place.removeprefix(LICENCE)) if is_licence(place) else place


def row_of(resource: str) -> Resource[Any]:
    """The row of a resource, by its name."""
    row = RESOURCES.get(resource)
    if row is not None:  # as mostly
        return row
    if not is_licence(resource):
        raise KeyError(resource)
    return licence(resource)


def rows_of(scope: Scope) -> list[Resource[Any]]:
    """The rows of one scope, but licences."""
    return [row for row in RESOURCES.values() if row.scope is scope]


def rows_of_cluster(cluster: Cluster) -> list[Resource[Any]]:
    """The rows of what this cluster has as a whole."""
    return [*rows_of(Scope.CLUSTER), *(licence(name) for name in cluster.has if is_licence(name))]


def needs_of(task: Wish, scope: Scope) -> tuple[Need, ...]:
    """Return the needs of a task on one node, or on the cluster."""
    needs = [row.needed_by(task) for row in RESOURCES.values() if row.scope is scope]
    if scope is Scope.CLUSTER and task.licences:
        needs += [licence(LICENCE + name).needed_by(task) for name in sorted(task.licences)]
    return tuple(need for need in needs if need is not None)


# -- the rules ------------------------------------------------------------------------------------------------


class Kept(Protocol):
    """The resources that are kept for another task: these GPUs, and of what is counted all but so much."""

    gpus: frozenset[int]
    spare: dict[str, int]


class GpusKept(msgspec.Struct):
    """The GPUs that are kept for another task, of which nothing else counts."""

    gpus: frozenset[int]
    spare: dict[str, int]


def leaves_over(kept: Kept, needs: Iterable[Need]) -> bool:
    """Is enough left over, of what is counted, beside what is kept?"""
    spare = kept.spare
    return not spare or all(spare.get(need.resource, need.amount) >= need.amount for need in needs)


def use_spare(kept: Kept, needs: Iterable[Need]) -> None:
    """Take of what is left over beside what is kept."""
    spare = kept.spare
    if spare:
        for need in needs:
            if need.resource in spare:
                spare[need.resource] -= need.amount


class Free:
    """The free resources at one place, less those that were taken since this was made. `counts`: how much of each
    resource, of what has numbers as a whole; `pieces`: of what has numbers, which."""

    __slots__ = ("counts", "pieces")

    def __init__(self, place: Node | Lease | Cluster, rows: Iterable[Resource[Any]]) -> None:
        self.counts: dict[str, int] = {}
        self.pieces: dict[str, Cards] = {}
        for row in rows:
            if row.numbers is None:
                self.counts[row.name] = row.free(place)
            else:
                cards = self.pieces[row.name] = row.numbers.room(place)
                self.counts[row.name] = len(cards.whole)

    def copy(self) -> Self:
        """The same again, to take from."""
        made = self.__class__.__new__(self.__class__)
        made.counts = dict(self.counts)
        made.pieces = {name: cards.copy() for name, cards in self.pieces.items()}
        return made

    def fits(self, needs: Collection[Need], beside: Kept | None = None) -> bool:
        """Is there enough of everything, if `beside` it something is kept?"""
        if beside is not None and not leaves_over(beside, needs):
            return False
        counts = self.counts
        for need in needs:
            if need.terms is not None or need.exact or (beside is not None and need.resource in self.pieces):
                if self._chosen(need, need.amount, beside) is None:
                    return False
            elif counts.get(need.resource, 0) < need.amount:
                return False
        return True

    def lack(self, needs: Iterable[Need]) -> Need | None:
        """The first of these of which there is not enough; None where all fits."""
        for need in needs:
            if not self.fits((need,)):
                return need
        return None

    def take(self, needs: Collection[Need], beside: Kept | None = None) -> dict[str, list[int]]:
        """Take what fits, of what has a range as much as there is. Gives the numbers of the pieces that were taken, by
        resource."""
        if beside is not None:
            use_spare(beside, needs)
        taken = {}
        for need in needs:
            name = need.resource
            if name not in self.pieces:
                self.counts[name] -= need.amount
                continue
            amounts = range(max(need.amount, need.most), need.amount - 1, -1)
            choices = (self._chosen(need, amount, beside) for amount in amounts)
            pieces = taken[name] = next(chosen for chosen in choices if chosen is not None)
            self.pieces[name].take(pieces, need.terms)
            self.counts[name] = len(self.pieces[name].whole)
        return taken

    def give_back(self, needs: Iterable[Need], part: Part | None) -> None:
        """A task with these needs has ended, which held this part: for a look ahead."""
        for need in needs:
            cards = self.pieces.get(need.resource)
            if cards is None:
                self.counts[need.resource] += need.amount
            elif part is not None:
                cards.give_back(part.gpus, part.gpu_mib)
                self.counts[need.resource] = len(cards.whole)

    def _chosen(self, need: Need, amount: int, beside: Kept | None = None) -> list[int] | None:
        without = beside.gpus if beside is not None else ()
        return self.pieces[need.resource].chosen(amount, need.exact, need.terms, without)


class FreeNode(Free):
    """The free resources of one node. `cpus`: how many it has, held or not; 0 while nobody knows."""

    __slots__ = ("cpus", "node")

    def __init__(self, node: Node, rows: Iterable[Resource[Any]] | None = None) -> None:
        super().__init__(node, rows_of(Scope.NODE) if rows is None else rows)
        self.node = node
        self.cpus = node.cpus

    @classmethod
    def soon(cls, node: Node) -> Self:
        """The same with the GPUs that a task has just given back, or that no sample has shown yet: for a look
        ahead."""
        made = cls(node)
        if node.kept_back:
            cards = made.pieces[GPUS.name] = Cards(node, node.why_closed_for_long)
            made.counts[GPUS.name] = len(cards.whole)
        return made

    def copy(self) -> Self:
        """The same again, to take from."""
        made = super().copy()
        made.node, made.cpus = self.node, self.cpus
        return made


def take(place: Node | Lease | Cluster, needs: Iterable[Need], task: Task, part: Part | None = None) -> None:
    """Book what a task holds there; of what has numbers, what its allocation says. Raises ValueError, and has changed
    nothing, where a piece is held already."""
    if part is not None:
        for numbers in _numbered():
            numbers.take(place, part, task.id)
    for need in needs:
        if row_of(need.resource).numbers is None:
            place.held[need.resource] += need.amount


def give_back(place: Node | Lease | Cluster, needs: Iterable[Need], task: Task, part: Part | None = None) -> None:
    """Undo `take`."""
    if part is not None:
        for numbers in _numbered():
            numbers.give_back(place, part, task.id)
    for need in needs:
        if row_of(need.resource).numbers is None:
            place.held[need.resource] -= need.amount


def _numbered() -> list[Numbers]:
    return [row.numbers for row in RESOURCES.values() if row.numbers is not None]
