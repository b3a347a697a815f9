"""What was seen in an hour: a look at the queue, its nodes and the cards each second, and how each task went.

Plain values, which the audit reads and a file keeps. Times are seconds since the epoch; memory is in MiB.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

CARD_MIB = 24_564


class Card(NamedTuple):
    """A GPU of a node."""

    node: str
    gpu: int


class Shown(msgspec.Struct):
    """A task that has not ended, as the queue shows it: its warning and why it waits, by their keys; what it is learned
    to use."""

    state: str
    warning: str | None
    reason: str | None
    learned_mib: int | None


class Reserved(msgspec.Struct):
    """What a node keeps for a task, and when that is expected to start; None: nobody knows."""

    task: int
    gpus: list[int]
    expected_at: float | None


class CardSeen(msgspec.Struct):
    """A card: what each task declares to use of it, what others do; who holds it, with the MiB granted, None for the
    whole; in one word whether it gets tasks; how much of it was in use in the last sample."""

    used: dict[int, int]
    others: int
    held: dict[int, int | None]
    condition: str
    sampled_mib: int | None = None

    @property
    def is_shared(self) -> bool:
        """Tasks are on it that leave something to others."""
        return bool(self.held) and None not in self.held.values()


class Look(msgspec.Struct):
    """All of one moment. `cards`, `reserved`: by node; the cards by number."""

    at: float
    tasks: dict[int, Shown]
    cards: dict[str, list[CardSeen]]
    reserved: dict[str, Reserved]

    def each_card(self) -> list[tuple[Card, CardSeen]]:
        """One by one."""
        return [(Card(node, gpu), seen) for node, cards in self.cards.items() for gpu, seen in enumerate(cards)]

    def kept(self, card: Card) -> Reserved | None:
        """For whom it is kept."""
        kept = self.reserved.get(card.node)
        return kept if kept is not None and card.gpu in kept.gpus else None


class Run(msgspec.Struct):
    """An attempt of a task: the cards that it had, with the MiB granted of each, None for the whole."""

    started_at: float
    ended_at: float
    cards: list[Card]
    mib: int | None


class Ended(msgspec.Struct):
    """A task that is over. `kind`: the name of what was submitted; `asked_mib`: what its owner asked for, None: nothing
    was said; `shares`: it leaves something of its cards to others; `is_greedy`: it was to use far more than that;
    `goes_first`: it is urgent, or was forced."""

    kind: str
    owner: str
    state: str
    reason: str | None
    submitted_at: float
    asked_mib: int | None
    shares: bool
    gpus: int
    time_limit_s: float | None
    runs: list[Run]
    is_greedy: bool = False
    goes_first: bool = False

    @property
    def started_at(self) -> float | None:
        """When its first attempt began."""
        return self.runs[0].started_at if self.runs else None


class Promise(msgspec.Struct):
    """A task was told for the first time when it is expected to start, and which cards are kept for it. `ends`: when
    the tasks that were on them are expected to end, None: nobody knows."""

    task: int
    told_at: float
    expected_at: float
    cards: list[Card]
    ends: dict[int, float | None]


class Seen(msgspec.Struct):
    """A whole run. `expected`: when each task was expected to end as it began, None: nobody knew; `killed`: when the
    master was killed, and when it answered again; `grace_s`: between TERM and KILL."""

    looks: list[Look]
    tasks: dict[int, Ended]
    promises: list[Promise]
    expected: dict[int, float | None]
    killed: list[tuple[float, float]]
    grace_s: float
