"""From the master's SIGKILL to its answer to `server.info`, with many tasks waiting."""

from __future__ import annotations

import time
from pathlib import Path

from bench.lab import BenchError, Lab, Scale
from bench.report import Figure, at_most

SUBJECT = "serving again after SIGKILL"
TARGETS_S = {10_000: 0.5, 100_000: 1.0}


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """One master per number of tasks, killed once a run."""
    figures = []
    for full, target_s in TARGETS_S.items():
        count = scale.of(full)
        with Lab(workshop, gpus=8) as lab:
            lab.fill(count)
            runs = tuple(_restart(lab, count) for _ in range(scale.runs))
        figures.append(Figure(SUBJECT, f"{count:,} waiting", "s", runs, at_most(target_s)))
    return figures


def _restart(lab: Lab, count: int) -> float:
    begun = time.perf_counter()
    lab.kill()
    lab.start()
    took = time.perf_counter() - begun
    with lab.client() as client:
        waiting = client.info()["tasks"]["waiting"]
    if waiting != count:
        raise BenchError(f"{waiting} of {count} tasks wait after the restart")
    return took
