"""The costs to the master of a thousand agents that dial in, with 8 GPUs each and a sample every 2 s: processor time,
memory, and the time of a user's submit, beside the same master without them."""

from __future__ import annotations

import time
from pathlib import Path

from bench.far_agents import GPUS
from bench.far_lab import FarLab, How
from bench.lab import Lab, Scale, cpu_seconds, resident_mib
from bench.latency import TASKS, one_by_one
from bench.report import Figure, at_most

AGENTS = 1_000
SETTLE_S = 4.0
WATCH_S = 20.0


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Each run has a fresh master; its first figures are without agents."""
    count, tasks = scale.of(AGENTS), scale.of(TASKS)
    runs = [_one(workshop, count, tasks, WATCH_S * scale.share) for _ in range(scale.runs)]
    alone, beside, added, cpu, followed, memory = zip(*runs, strict=True)
    subject = f"{count:,} agents that dial in, {GPUS} GPUs each"
    return [
        Figure(subject, "the master's share of one CPU", "%", cpu, at_most(30)),
        Figure(subject, "the same with a reader of all samples", "%", followed),
        Figure(subject, "memory of the master", "MiB", memory, at_most(300)),
        Figure(subject, "submit to start, median, without them", "ms", alone),
        Figure(subject, "submit to start, median, with them", "ms", beside),
        Figure(subject, "what they add to it", "ms", added, at_most(1)),
    ]


def _one(workshop: Path, count: int, tasks: int, watch_s: float) -> tuple[float, ...]:
    with FarLab(workshop, count, How(busy=True, schedulable=False)) as lab:
        alone = one_by_one(lab, tasks)[0]
        with lab.agents():
            time.sleep(SETTLE_S)
            cpu = _share(lab, watch_s)
            beside = one_by_one(lab, tasks)[0]
            memory = resident_mib(lab.pid)
            followed = _followed(lab, watch_s)
    return alone, beside, beside - alone, cpu, followed, memory


def _share(lab: Lab, watch_s: float) -> float:
    """The master's share of one CPU, in percent."""
    before = cpu_seconds([lab.pid])
    time.sleep(watch_s)
    return 100 * (cpu_seconds([lab.pid]) - before) / watch_s


def _followed(lab: FarLab, watch_s: float) -> float:
    reader = lab.follow_nodes()
    before, end = cpu_seconds([lab.pid]), time.monotonic() + watch_s
    for _ in reader.notifications(SETTLE_S):
        if time.monotonic() > end:
            break
    share = 100 * (cpu_seconds([lab.pid]) - before) / watch_s
    reader.close()
    return share
