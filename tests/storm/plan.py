"""What befalls whom, and when: all of it drawn from one seed before anything starts.

The run goes in phases, one for each life of the master. Load, and the strikes on hosts and on the queue's disk, are
let go by the phase, so that everything overlaps however fast the machine is.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice

from master.durable.failpoint import COMPACTION, START, TRAFFIC

AGENT_FAILPOINTS = (
    "agent.before_fork",
    "agent.after_fork",
    "shim.after_claim",
    "shim.after_start",
    "shim.before_exit_record",
    "shim.after_exit_record",
    "agent.before_exit_sent",
    "agent.after_exit_sent",
)
REFUSED = "refused: "
"""What the counts of followed ways out begin with."""
DAMAGES = (
    "torn tail",
    "zeroed tail",
    "record flipped",
    "queue edited",
    "queue emptied",
    "registry garbage",
    "journal emptied",
    "queue shortened",
    "journal gone",
    "queue gone",
)
PARTITIONS = ("cut", "cut", "deaf", "mute")
UNSHARED = "shared folder gone"
SICKNESSES = ("state read-only", "no processes", UNSHARED)
ONCE = frozenset(
    {"start.torn_kept", "start.locked", "start.loaded", "start.numbered", "start.listening", "start.serving"}
)
"""A start comes to these once."""
LATE = "compaction.archived"
"""Comes by only when the queue has more ended tasks than it keeps: not in the first phases."""
FIRST_SHARE, LAST_SHARE = 0.35, 0.97


@dataclass(frozen=True)
class Counts:
    """How much of everything. `agent_kills`: of agents and shims, by hand and at their failpoints."""

    hosts: int = 16
    tasks: int = 10_000
    kills: int = 500
    failpoint_kills: int = 500
    agent_kills: int = 200
    reboots: int = 100
    partitions: int = 100
    full_disks: int = 50
    failing_syncs: int = 20
    sick_nodes: int = 20
    damages: int = 20
    longest_partition_s: float = 60.0

    def scaled(self, factor: float) -> Counts:
        """The same mixture, smaller; at least one of each, and no more hosts than a small run needs."""
        numbers = {name: max(1, round(value * factor)) for name, value in vars(self).items() if isinstance(value, int)}
        return replace(self, **{**numbers, "hosts": self.hosts if factor > 0.2 else min(self.hosts, 8)})


@dataclass(frozen=True)
class Strike:
    """One fault. `seconds`: how long it lasts, where it lasts."""

    kind: str
    what: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        return f"{self.kind} {self.what}".rstrip() + lasts


@dataclass(frozen=True)
class Plan:
    """The whole run. `lives`: what ends each life of the master, in order. `hosts`, `disk`: (phase, strike), in
    order."""

    seed: int
    counts: Counts
    lives: tuple[Strike, ...]
    hosts: tuple[tuple[int, Strike], ...]
    disk: tuple[tuple[int, Strike], ...]


def draw(counts: Counts, seed: int) -> Plan:
    """The plan of a seed."""
    chance = random.Random(seed)
    lives = [Strike("kill", seconds=_life(chance)) for _ in range(counts.kills)]
    lives += _failpoints(counts.failpoint_kills, chance)
    lives += [Strike("failing sync")] * counts.failing_syncs
    lives += [Strike("damage", what) for what in islice(cycle(DAMAGES), counts.damages)]
    chance.shuffle(lives)
    _put_late(lives, chance)
    at_nodes = counts.full_disks // 2
    return Plan(
        seed,
        counts,
        tuple(lives),
        _spread(_host_strikes(counts, at_nodes, chance), len(lives), chance),
        _spread(
            [_lasting("full disk", "queue", 1.0, 4.0, chance) for _ in range(counts.full_disks - at_nodes)],
            len(lives),
            chance,
        ),
    )


def _life(chance: random.Random) -> float:
    """After its first answer a master lives so long: half of them hardly meet their nodes, half do."""
    return round(chance.uniform(0.0, 0.5) if chance.random() < 0.5 else chance.uniform(1.0, 3.5), 3)


def _failpoints(count: int, chance: random.Random) -> Iterator[Strike]:
    names = [*TRAFFIC, *START, *COMPACTION]
    chance.shuffle(names)
    for name in islice(cycle(names), count):
        times = 1 if name in ONCE or name in ("compaction.archived", "compaction.done") else chance.randint(1, 4)
        once = name in COMPACTION and name != "compaction.renamed"
        yield Strike("failpoint", f"{name}:{1 if once else times}")


def _put_late(lives: list[Strike], chance: random.Random) -> None:
    early = int(len(lives) * FIRST_SHARE)
    later = [place for place in range(early, len(lives)) if not lives[place].what.startswith(LATE)]
    for place in range(early):
        if lives[place].what.startswith(LATE) and later:
            other = later.pop(chance.randrange(len(later)))
            lives[place], lives[other] = lives[other], lives[place]


def _host_strikes(counts: Counts, full_disks: int, chance: random.Random) -> list[Strike]:
    at_failpoint = counts.agent_kills * 3 // 10
    shims = counts.agent_kills // 5
    agents = counts.agent_kills - at_failpoint - shims
    found = [Strike("agent kill", "agent")] * agents + [Strike("agent kill", "shim")] * shims
    found += [Strike("agent failpoint", name) for name in islice(cycle(AGENT_FAILPOINTS), at_failpoint)]
    found += [_lasting("reboot", "", 0.5, 5.0, chance) for _ in range(counts.reboots)]
    found += [
        _lasting("partition", what, 1.0, counts.longest_partition_s, chance)
        for what in islice(cycle(PARTITIONS), counts.partitions)
    ]
    found += [_lasting("full disk", "node", 2.0, 6.0, chance) for _ in range(full_disks)]
    found += [_lasting("sick node", what, 4.0, 12.0, chance) for what in islice(cycle(SICKNESSES), counts.sick_nodes)]
    return found


def _lasting(kind: str, what: str, least: float, most: float, chance: random.Random) -> Strike:
    return Strike(kind, what, round(chance.uniform(least, most), 1))


def _spread(strikes: list[Strike], phases: int, chance: random.Random) -> tuple[tuple[int, Strike], ...]:
    chance.shuffle(strikes)
    last = max(1, int(phases * LAST_SHARE))
    return tuple(zip(sorted(chance.randrange(last) for _ in strikes), strikes, strict=True))
