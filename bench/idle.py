"""The master's costs while nothing happens and many tasks wait: memory and processor time."""

from __future__ import annotations

import time
from pathlib import Path

from bench.lab import Lab, Scale, cpu_seconds, processes, resident_mib
from bench.report import Figure, at_most

SUBJECT = "idle, with tasks waiting"
WAITING = 10_000
LOADED_S = 9.0
"""So long after its start a master has loaded all that it loads before anybody asks for it (`CALM_S` of
`master.verbs.table`): no task takes that memory."""
SETTLE_S = 2.0
WATCH_S = 6.0


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Each run has a fresh master."""
    count = scale.of(WAITING)
    runs = [_one(workshop, count, scale.share) for _ in range(scale.runs)]
    memory, per_task, master, node = zip(*runs, strict=True)
    return [
        Figure(SUBJECT, f"memory of the master, {count:,} waiting", "MiB", memory, at_most(70)),
        Figure(SUBJECT, "memory per waiting task", "KiB", per_task, at_most(1)),
        Figure(SUBJECT, "the master's share of one CPU", "%", master),
        Figure(SUBJECT, "the agent's, with its sampler and a shim", "%", node),
    ]


def _one(workshop: Path, count: int, share: float) -> tuple[float, float, float, float]:
    watch_s = WATCH_S * share
    with Lab(workshop, gpus=8) as lab:
        time.sleep(LOADED_S * share)
        empty = resident_mib(lab.pid)
        lab.fill(count)
        time.sleep(SETTLE_S)
        memory = resident_mib(lab.pid)
        others = [pid for pid in processes(lab.folder) if pid != lab.pid]
        before = cpu_seconds([lab.pid]), cpu_seconds(others)
        time.sleep(watch_s)
        after = cpu_seconds([lab.pid]), cpu_seconds(others)
    master, node = (100 * (late - early) / watch_s for early, late in zip(before, after, strict=True))
    return memory, (memory - empty) * 1024 / count, master, node
