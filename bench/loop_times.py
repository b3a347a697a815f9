"""How long the turns of the loop of the master were in a while, as it measured them itself (`loop` of `server.info`).

In wall time, which tells what people feel on this machine now, and in the loop's own CPU time, which others' work does
not touch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.lab import Lab
from bench.report import Figure, Target

LONG_S = 0.02
_MS = 1000


@dataclass
class LoopTimes:
    """Of one while. Seconds: the longest turn by wall time and by CPU time, and `beyond`, how many of so many `turns`
    took more than LONG_S. `stalls`: the longest, as the master tells them."""

    turns: int = 0
    beyond: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    stalls: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def watched(lab: Lab) -> Iterator[LoopTimes]:
    """Measure the loop while this is open; the times are known when it is closed."""
    times = LoopTimes()
    before = _told(lab)
    yield times
    after = _told(lab)
    times.turns = after["turns"] - before["turns"]
    first = after["edges"].index(LONG_S) + 1
    times.beyond = sum(after["by_wall"][first:]) - sum(before["by_wall"][first:])
    times.stalls = [one for one in after["longest"] if one not in before["longest"]]
    times.wall = max([one["wall"] for one in times.stalls], default=_edge(before, after, "by_wall"))
    times.cpu = max([one["cpu"] for one in times.stalls], default=_edge(before, after, "by_cpu"))


def figures(subject: str, runs: list[LoopTimes], most: Target | None = None) -> list[Figure]:
    """Of several whiles. `most`: the goal of the longest turn's CPU time, in milliseconds."""
    return [
        Figure(subject, "the loop's longest turn", "ms", tuple(run.wall * _MS for run in runs)),
        Figure(subject, "the loop's longest turn, its own CPU", "ms", tuple(run.cpu * _MS for run in runs), most),
        Figure(
            subject, "turns beyond 20 ms, of 1,000", "", tuple(1000 * run.beyond / max(1, run.turns) for run in runs)
        ),
    ]


def _told(lab: Lab) -> dict[str, Any]:
    with lab.client() as client:
        told: dict[str, Any] = client.info()["loop"]
    return told


def _edge(before: dict[str, Any], after: dict[str, Any], counts: str) -> float:
    """The upper edge of the longest turn, where none was long enough to be remembered."""
    grown = [now > then for then, now in zip(before[counts], after[counts], strict=True)]
    last = max((place for place, has in enumerate(grown) if has), default=0)
    edges: list[float] = after["edges"]
    return edges[min(last, len(edges) - 1)]
