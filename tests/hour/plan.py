"""What the people of a lab submit within an hour, and what else happens: drawn from a seed, nothing is done here."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

HOUR_S = 3600.0
SHORTEST_PACE = 0.1
"""Of a run that is shorter than an hour the tasks are shorter, too, but not less than this part."""
BUSY = (4, 10, 12, 9, 4, 3, 9, 12, 9, 5)
"""How much is submitted in each tenth of the day: it has a morning, a noon and an afternoon."""
ARRIVALS = 0.86
"""In so much of the time things are submitted; in the rest the last ones run."""
HOURS_HOSTS, HOURS_CARDS = 3, 4
"""The hosts of an hour, and the cards of each, to which the numbers in KINDS belong."""


@dataclass(frozen=True)
class Kind:
    """A kind of task. `per_hour`: so many on these hosts; `peak`, `grow`, `run`: bounds of what it uses, in MiB and
    seconds; `asks`: what its owner asks for; `is_limited`: with a time limit; `urgent`, `forced`: how it is put before
    others; `whole_host`: it wants all GPUs of a host; `card`: it uses a card that it was not given."""

    name: str
    per_hour: int
    peak: tuple[int, int]
    grow: tuple[float, float]
    run: tuple[float, float]
    asks: dict[str, Any]
    is_limited: bool = True
    urgent: bool = False
    forced: bool = False
    whole_host: bool = False
    card: bool = False

    @property
    def is_greedy(self) -> bool:
        """It uses far more than its owner asked for."""
        return self.peak[1] > int(self.asks.get("gpu_memory_mib", self.peak[1]))


def share(mib: int | None) -> dict[str, Any]:
    """A part of one GPU; None: what tasks like it were seen to use."""
    return {"gpus": 1, "share": True, **({} if mib is None else {"gpu_memory_mib": mib})}


KINDS = (
    Kind("bert", 210, (7200, 7900), (40, 120), (60, 240), share(8000)),
    Kind("probe", 150, (3200, 3900), (2, 8), (30, 120), share(4000)),
    Kind("vit", 110, (6700, 6900), (15, 40), (60, 150), share(None), is_limited=False),
    Kind("diffusion", 18, (20_000, 20_000), (8, 8), (60, 120), share(8000)),
    Kind("ablation", 75, (12_000, 18_000), (5, 60), (60, 200), {"gpus": 1}),
    Kind("sweep", 10, (9000, 12_000), (5, 30), (60, 150), {"gpus": 1, "gpus_max": 2}),
    Kind("llm", 4, (23_000, 23_500), (10, 20), (60, 110), {}, whole_host=True, urgent=True),
    Kind("tuning", 3, (20_000, 22_000), (10, 20), (60, 110), {}, whole_host=True, forced=True),
    Kind("evaluation", 2, (20_000, 22_000), (10, 20), (60, 110), {}, whole_host=True),
    Kind("cleaning", 30, (0, 0), (1, 1), (10, 60), {"gpus": 0}),
    Kind("notebook", 2, (5000, 6000), (3, 6), (60, 90), {"gpus": 0}, card=True),
)
OWNERS = ("li", "zhang", "ann")
MENTOR = "wang"
"""Urgent tasks are this user's, who also forces those of others: it is an admin."""


@dataclass(frozen=True)
class Wish:
    """A task that somebody submits `at` so many seconds of the hour."""

    at: float
    owner: str
    kind: Kind
    words: tuple[str, ...]
    spec: dict[str, Any]


@dataclass(frozen=True)
class Visitor:
    """Somebody who uses a card without asking the queue."""

    at: float
    host: int
    card: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """`kills`: when the master is killed. All times in seconds from the first one on."""

    seed: int
    length_s: float
    hosts: int
    cards: int
    wishes: list[Wish]
    visitors: list[Visitor]
    kills: list[float]

    @property
    def pace(self) -> float:
        """How long tasks are, beside those of an hour."""
        return pace_of(self.length_s)


def pace_of(length_s: float) -> float:
    """How long the tasks of a run are, beside those of an hour."""
    return min(1.0, max(SHORTEST_PACE, length_s / HOUR_S))


def draw(length_s: float, seed: int, *, hosts: int = HOURS_HOSTS, cards: int = HOURS_CARDS) -> Plan:
    """The plan of a seed."""
    chance = random.Random(seed)
    part = length_s / HOUR_S / pace_of(length_s) * hosts * cards / (HOURS_HOSTS * HOURS_CARDS)
    wishes = [
        _wish(kind, _moment(chance, length_s), pace_of(length_s), cards, chance)
        for kind in KINDS
        for _ in range(max(1, round(kind.per_hour * part)))
    ]
    visits = max(1, round(3 * part))
    kills = [length_s * share_of for share_of in ((0.35,) if length_s < HOUR_S / 2 else (0.3, 0.55, 0.7))]
    visitors = [_visitor(_moment(chance, length_s), pace_of(length_s), hosts, cards, chance) for _ in range(visits)]
    return Plan(seed, length_s, hosts, cards, sorted(wishes, key=lambda wish: wish.at), visitors, kills)


def _moment(chance: random.Random, length_s: float) -> float:
    tenth = chance.choices(range(len(BUSY)), BUSY)[0]
    return (tenth + chance.random()) / len(BUSY) * length_s * ARRIVALS


def _wish(kind: Kind, at: float, pace: float, cards: int, chance: random.Random) -> Wish:
    peak = chance.randint(*kind.peak)
    grow = chance.uniform(*kind.grow) * (1.0 if kind.is_greedy else pace)
    run = max(chance.uniform(*kind.run) * pace, 25.0 if kind.is_greedy or kind.card else 5.0)
    spec = {**kind.asks, "name": kind.name}
    if kind.whole_host:
        spec["gpus"] = cards
    if kind.is_limited:
        spec["time_limit_s"] = round(run * chance.uniform(1.2, 2.0) + 10.0, 1)
    if kind.urgent:
        spec["urgent"] = True
    card = [str(chance.randrange(cards))] if kind.card else []
    words = ("train", kind.name, str(peak), f"{grow:.1f}", f"{run:.1f}", *card)
    return Wish(at, MENTOR if kind.urgent else chance.choice(OWNERS), kind, words, spec)


def _visitor(at: float, pace: float, hosts: int, cards: int, chance: random.Random) -> Visitor:
    mib, run = chance.randint(3000, 6000), max(20.0, chance.uniform(90.0, 200.0) * pace)
    words = ("train", "visitor", str(mib), "3", f"{run:.1f}")
    return Visitor(at, chance.randrange(hosts), chance.randrange(cards), words)
