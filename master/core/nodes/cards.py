"""The GPUs of one node as they are given out: whole to one task, or by memory to several.

Pure. A share is debited with the larger of what its task asked for and what it was seen to use, from the moment that it
is planned: so nobody slips in while a task still grows. Where a task uses more than its share, nobody knows how much it
will use, so that card gets no other task until that is over. The memory that others use is subtracted, as the samples
show it; a node that is not probed goes by what is asked. The scheduler decides which task comes next, and on which
node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import lru_cache

import msgspec

from master.config.settings import Scheduling
from master.core.nodes.leases import Lease
from master.core.nodes.node import Node
from wire.message import Message

OPEN_TO_SHARES = frozenset({"gpu_used", "gpu_not_free", "gpu_not_free_yet"})
"""Obstacles that keep a whole GPU from being given out and do not count against a share of it: others' memory is
counted."""
CLEARING = frozenset({"gpu_not_free", "gpu_not_free_yet"})
"""Of these, those that end by themselves, with a sample."""
OUTGROWN = Message("card_outgrown")
WhyClosed = Callable[[int], Message | None]
"""Why a GPU is not given out although no task holds it; None if it is."""
FULL = 100.0
"""All of a GPU's time, in percent."""


class GpuTerms(msgspec.Struct, frozen=True, cache_hash=True):
    """The terms of a task for each of its GPUs. `memory_mib`: so much, of a share; else the whole GPU has at least
    that. `models`: one of these. `min_free_util`: so much of its time is unused, in percent. `seen_mib`: nobody asked
    for the memory, its like were seen to use so much, and it is content with a GPU that has no more; 0: somebody
    asked."""

    memory_mib: int = 0
    models: tuple[str, ...] = ()
    share: bool = False
    min_free_util: float = 0.0
    seen_mib: int = 0


class Found(msgspec.Struct, frozen=True, cache_hash=True):
    """All that a task may find of a GPU besides its model in the registry: the fields of its `Card`."""

    is_whole: bool
    left_mib: int | None
    clearing_mib: int
    tasks: int
    total_mib: int | None
    shown: str
    shown_mib: int
    free_util: float


class Card:
    """One GPU. `left_mib`: memory that a share could still get, None where nobody knows how much it has;
    `clearing_mib`: what the last task on it has left, which is free soon; `tasks`: how many hold some of it;
    `is_whole`: whether it may be given out whole; `closed`: why no share of it is given out."""

    __slots__ = (
        "_seen", "clearing_mib", "closed", "free_util", "index", "is_whole", "left_mib", "model", "shown", "shown_mib",
        "tasks", "total_mib",
    )  # fmt: skip

    def __init__(self, node: Node | Lease, index: int, why_closed: WhyClosed | None = None) -> None:
        closed = (why_closed or node.why_closed)(index)
        report = node.watch.newest.get(index)
        holders = node.gpu_holders.get(index, {})
        self.index = index
        self.model = node.spec.gpu_models[index]
        self.shown = report.model if report is not None else ""
        self.shown_mib = (report.memory_total_mib or 0) if report is not None else 0
        self.total_mib = node.gpu_memory_mib(index)
        self.tasks = len(holders)
        self.is_whole = not holders and closed is None
        self.closed = _why_no_share(node, index, closed) if holders else _closed_to_shares(closed)
        self.left_mib = None if self.total_mib is None else _left(node, index, self.total_mib)
        self.clearing_mib = 0 if holders or closed is None else _clearing(node, index, closed)
        self.free_util = FULL - node.watch.busy_percent(index, holders)
        self._seen: Found | None = None

    def most_mib(self, rules: Scheduling) -> int | None:
        """Memory that a share of it could ever get."""
        return None if self.total_mib is None else _most(self.total_mib, rules)

    @property
    def room_mib(self) -> int:
        """Memory that a share of it could still get when it is cleared: by that the tightest is chosen, for an empty
        card is no tighter while its last task's memory is still in use."""
        return (self.left_mib or 0) + self.clearing_mib

    def copy(self) -> Card:
        """The same again, to be given out by itself."""
        made = Card.__new__(Card)
        for name in Card.__slots__:
            setattr(made, name, getattr(self, name))
        return made

    def what_matters(self) -> Found | None:
        """All that a task may find of it besides its model in the registry; None where none may have it."""
        if not self.is_whole and self.closed is not None:
            return None
        if self._seen is None:
            self._seen = Found(
                self.is_whole, self.left_mib, self.clearing_mib, self.tasks, self.total_mib, self.shown,
                self.shown_mib, self.free_util,
            )  # fmt: skip
        return self._seen

    def debit(self, share: int | None) -> None:
        """One more task has it: so many MiB of it, or all of it."""
        self._seen = None
        self.tasks += 1
        self.is_whole = False
        if share is None:
            self.left_mib = 0
            self.closed = self.closed or Message("gpu_held_whole")
        elif self.left_mib is not None:
            self.left_mib -= share

    def credit(self, mib: int | None, node: Node | Lease, why_closed: WhyClosed) -> None:
        """One task less has it, which had `mib` of it, or all of it."""
        self._seen = None
        self.tasks -= 1
        if mib is None:
            most = self.most_mib(node.rules)
            self.left_mib = None if most is None else most - node.watch.foreign_mib(self.index)
            self.closed = _closed_to_shares(why_closed(self.index))
        elif self.left_mib is not None:
            self.left_mib += mib
        if not self.tasks:
            closed = why_closed(self.index)
            self.closed = _closed_to_shares(closed)  # who used more than its share is gone, too
            self.is_whole = closed is None
            self.free_util = FULL - node.watch.busy_without_tasks(self.index)

    def is_of(self, models: Sequence[str]) -> bool:
        """Is it of one of these models? Of any, if none is named."""
        return not models or is_one_of(self.model, self.shown, tuple(models))

    def is_large_enough(self, terms: GpuTerms, rules: Scheduling) -> bool:
        """Has it enough memory, were it empty? It may, while nobody knows."""
        if terms.seen_mib:
            shown = max(self.total_mib or 0, self.shown_mib)
            return self.total_mib is None or shown >= terms.seen_mib
        most = self.most_mib(rules) if terms.share else self.total_mib
        return not terms.memory_mib or most is None or most >= terms.memory_mib

    def share_mib(self, terms: GpuTerms, rules: Scheduling) -> int:
        """Memory that a share with these terms gets of it: what is asked, but where nobody asked no more than there
        is."""
        most = self.most_mib(rules) if terms.seen_mib else None
        return terms.memory_mib if most is None else min(terms.memory_mib, most)

    def fits(self, terms: GpuTerms, rules: Scheduling) -> bool:
        """May one more task with these terms have it now?"""
        if not (self.is_whole or (terms.share and self.closed is None)) or not self.is_of(terms.models):
            return False  # as mostly: it is found without a word
        return self.why_not(terms, rules) is None

    def why_not(self, terms: GpuTerms, rules: Scheduling) -> Message | None:
        """Why one more task with these terms may not have it now; None if it may."""
        if not self.is_of(terms.models):
            return Message("card_other_model")
        if not self.is_large_enough(terms, rules):
            return Message("card_too_small", most=self.most_mib(rules) or 0)
        if not terms.share and not self.is_whole:
            return Message("card_not_free")
        if terms.memory_mib and self.total_mib is None:
            return Message("card_memory_unknown")
        if self.free_util < terms.min_free_util:
            return Message("card_busy", free=round(self.free_util))
        if not terms.share:
            return None
        if self.closed is not None:
            return Message("card_not_free")
        if rules.max_tasks_per_gpu is not None and self.tasks >= rules.max_tasks_per_gpu:
            return Message("card_tasks", tasks=self.tasks, most=rules.max_tasks_per_gpu)
        left = self.left_mib or 0
        return Message("card_left", left=max(0, left)) if left < self.share_mib(terms, rules) else None


class Cards:
    """The GPUs of a node, or of a lease there, less what was taken since this was made. `whole`: those that may be
    given out whole. With `why_closed` they are those that this does not close."""

    __slots__ = (
        "_cards", "_found", "_given", "_is_probed", "_node", "_others", "_returned", "_rules", "_spec", "_why_closed",
        "whole",
    )  # fmt: skip

    def __init__(self, node: Node | Lease, why_closed: WhyClosed | None = None) -> None:
        self.whole = list(node.free_gpus) if why_closed is None else _open(node, why_closed)
        self._why_closed = why_closed or node.why_closed
        self._node = node
        self._spec = node.spec
        self._rules = node.rules
        self._is_probed = bool(node.watch.newest)
        self._given = 0  # so many were taken whole
        self._returned: dict[int, list[int | None]] = {}  # what was given back of each before its card was made
        self._cards: list[Card] | None = None  # made when somebody looks closer: most ask for whole GPUs of any kind
        self._others: set[int] = set()  # those of which the card is another's too, and copied before it is changed
        self._found: dict[Hashable, list[int] | None] = {}  # what was chosen of them as they are now

    def copy(self) -> Cards:
        """The same again, to take from. It knows each GPU, and so no more than was known of the node at this time."""
        self.cards()
        made = Cards.__new__(Cards)
        for name in Cards.__slots__:
            setattr(made, name, getattr(self, name))
        self.part()
        made.part()
        return made

    def part(self) -> None:
        """Nobody else's cards are changed by what is taken here from now on."""
        self.whole, self._cards, self._found = list(self.whole), list(self.cards()), {}
        self._others = set(range(self.count))

    @property
    def count(self) -> int:
        """How many there are, by the registry."""
        return len(self._spec.gpu_models)

    def chosen(
        self, amount: int, exact: Sequence[int], terms: GpuTerms | None, without: Collection[int] = ()
    ) -> list[int] | None:
        """So many GPUs (`exact`: these; `without`: none of these) that may be given out to one more task with these
        terms; None if there are not enough. Shares go where the least is left over, so that whole GPUs stay free."""
        if terms is None:
            whole = [gpu for gpu in self.whole if gpu not in without] if without else self.whole
            if not exact:
                return whole[:amount] if len(whole) >= amount else None
            return list(exact) if set(exact) <= set(whole) else None
        if len(self.whole) < amount and not terms.share:
            return None
        asked = (amount, tuple(exact), terms, frozenset(without))
        if asked not in self._found:
            self._found[asked] = self._chosen(amount, exact, terms, without)
        return self._found[asked]

    def _chosen(self, amount: int, exact: Sequence[int], terms: GpuTerms, without: Collection[int]) -> list[int] | None:
        if len(self.whole) < amount and not self._has_shares():
            return None
        fitting = [card for card in self.cards() if card.index not in without and card.fits(terms, self._rules)]
        if exact:
            return list(exact) if set(exact) <= {card.index for card in fitting} else None
        if len(fitting) < amount:
            return None
        fitting.sort(key=_tightest if terms.share else _smallest)
        return sorted(card.index for card in fitting[:amount])

    def take(self, gpus: Iterable[int], terms: GpuTerms | None) -> None:
        """Give these to a task."""
        share = terms is not None and terms.share
        self._found = {}
        for gpu in gpus:
            if gpu >= self.count:
                continue  # the registry has it no more
            is_whole = gpu in self.whole
            if is_whole:
                self.whole.remove(gpu)
                self._given += 1
            if self._cards is not None or share or not is_whole:
                card = self._own(gpu)
                card.debit(card.share_mib(terms, self._rules) if share and terms is not None else None)

    def give_back(self, gpus: Iterable[int], mib: int | None) -> None:
        """A task has them no more: `mib` of each, or all of it. For a look ahead: what others use stays as it is."""
        holders = self._node.gpu_holders
        self._found = {}
        for gpu in gpus:
            if gpu >= self.count:
                continue  # the registry has it no more
            if self._cards is None and not self._given:
                returned = self._returned.setdefault(gpu, [])
                returned.append(mib)
                tasks = len(holders.get(gpu, ())) - len(returned)
            else:
                card = self._own(gpu)
                card.credit(mib, self._node, self._why_closed)
                tasks = card.tasks
            if not tasks and self._why_closed(gpu) is None:
                self.whole = sorted({*self.whole, gpu})

    def left_over(self, amount: int, terms: GpuTerms) -> int:
        """MiB that would be left on the GPUs that a share would get: the less, the better it fits."""
        chosen = self.chosen(amount, (), terms) or ()
        cards = self.cards()
        return sum(cards[gpu].room_mib - cards[gpu].share_mib(terms, self._rules) for gpu in chosen)

    def parts_free(self) -> float:
        """How many GPUs are free, those counted in part that are shared."""
        if not self._has_shares():
            return len(self.whole)
        shared = (card for card in self.cards() if card.closed is None and not card.is_whole)
        return len(self.whole) + sum(max(0, card.left_mib or 0) / (card.total_mib or 1) for card in shared)

    def parts_taken(self, amount: int, terms: GpuTerms | None) -> float:
        """How many of them, or which part, so many would take that are given out with these terms."""
        if terms is None or not terms.share:
            return amount
        cards = self.cards()
        chosen = (cards[gpu] for gpu in self.chosen(amount, (), terms) or ())
        return sum(card.share_mib(terms, self._rules) / (card.total_mib or 1) for card in chosen)

    def share_mib(self, gpus: Iterable[int], terms: GpuTerms) -> int:
        """Memory of each of these that a share gets: of all as much."""
        cards = self.cards()
        return min((cards[gpu].share_mib(terms, self._rules) for gpu in gpus), default=terms.memory_mib)

    def what_matters(self) -> tuple[Hashable, ...]:
        """All that any task may find here: where it is equal, the same is chosen. Of GPUs that are free as a whole, and
        of which no sample tells, the registry says all."""
        looks = self._has_shares() or (self._is_probed and self.whole)
        told = tuple(card.what_matters() for card in self.cards()) if looks else ()
        return (self._spec.gpu_models, self._spec.gpu_memory_mib, tuple(self.whole), told)

    def _has_shares(self) -> bool:
        """May a share be had of a GPU that is not free as a whole?"""
        if self._cards is not None or self._returned:
            return any(card.closed is None and not card.is_whole for card in self.cards())
        holders = self._node.gpu_holders
        if len(self.whole) + self._given + len(holders) < len(self._spec.gpu_models):
            return True
        return any(None not in held.values() for held in holders.values())

    def cards(self) -> list[Card]:
        """One by one, by number."""
        if self._cards is None:
            self._cards = [Card(self._node, gpu, self._why_closed) for gpu in range(self.count)]
            for gpu, returned in self._returned.items():
                for mib in returned:
                    self._cards[gpu].credit(mib, self._node, self._why_closed)
            for card in self._cards:
                if card.is_whole and card.index not in self.whole:
                    card.debit(None)
        return self._cards

    def _own(self, gpu: int) -> Card:
        """A card to change: what others see of it stays as it is."""
        cards = self.cards()
        if gpu in self._others:
            self._others.discard(gpu)
            cards[gpu] = cards[gpu].copy()
        return cards[gpu]


def _tightest(card: Card) -> tuple[int, int]:
    return (card.room_mib, card.index)


def _smallest(card: Card) -> tuple[int, int]:
    return (card.total_mib or 0, card.index)


def _open(node: Node | Lease, why_closed: WhyClosed) -> list[int]:
    return [gpu for gpu in range(len(node.spec.gpu_models)) if gpu not in node.gpu_holders and why_closed(gpu) is None]


def _why_no_share(node: Node | Lease, gpu: int, closed: Message | None) -> Message | None:
    if any(mib is None for mib in node.gpu_holders.get(gpu, {}).values()):
        return Message("gpu_held_whole")
    if node.watch.outgrown(gpu, node.gpu_holders.get(gpu, {})):
        return OUTGROWN
    return _closed_to_shares(closed)


def _clearing(node: Node | Lease, gpu: int, closed: Message) -> int:
    """How much the last task on a GPU that nobody holds has left there, as the last sample shows it."""
    return node.watch.unexplained_mib(gpu, {}) if closed.key in CLEARING else 0


def _closed_to_shares(closed: Message | None) -> Message | None:
    return closed if closed is not None and closed.key not in OPEN_TO_SHARES else None


def _left(node: Node | Lease, gpu: int, total_mib: int) -> int:
    """Return the free memory of a GPU: the total without the memory that each task asked for, or was seen to use if
    that is more, without the memory that others use, and without any other memory in use."""
    debited = node.watch.debited_mib
    held = node.gpu_holders.get(gpu, {})
    booked = sum(max(mib or 0, debited(gpu, task_id)) for task_id, mib in held.items())
    others = node.watch.foreign_mib(gpu) + node.watch.unexplained_mib(gpu, held)
    return _most(total_mib, node.rules) - booked - others


def _most(total_mib: int, rules: Scheduling) -> int:
    return total_mib - round(total_mib * rules.keep_gpu_memory)


@lru_cache(maxsize=4096)
def is_one_of(registered: str, shown: str, wanted: tuple[str, ...]) -> bool:
    """Is a GPU of one of these models?"""
    return any(is_model(registered, shown, model) for model in wanted)


@lru_cache(maxsize=4096)
def is_model(registered: str, shown: str, wanted: str) -> bool:
    """Is a GPU, by its name in the registry or the driver's name for it, one of this model? `3090` is RTX3090 and
    `NVIDIA GeForce RTX 3090`, and neither a 3090 Ti nor a 30900; an A10 is no A100."""
    pattern = _pattern(wanted)
    return any(pattern.search(_plain(name)) is not None for name in (registered, shown) if name)


@lru_cache(maxsize=1024)
def _pattern(wanted: str) -> re.Pattern[str]:
    plain = re.escape(_plain(wanted))
    if not plain:
        return re.compile(r"(?!)")
    begin = r"(?<!\d)" if plain[0].isdigit() else r"(?<![a-z])"
    return re.compile(begin + plain + r"(?!\d|ti(?![a-z])|super)")


@lru_cache(maxsize=1024)
def _plain(name: str) -> str:
    return "".join(re.findall(r"[a-z0-9]+", name.lower()))
