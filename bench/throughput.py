"""No-op tasks per second, from a batch's submit to its last task's end, beside the shim floor of the same run."""

from __future__ import annotations

import time
from pathlib import Path

from bench.floor import shim_floor
from bench.lab import BenchError, Lab, Scale, eventually
from bench.report import Figure, at_least

SUBJECT = "no-op tasks, end to end"
SLOTS = (2, 64)
TASKS = 1_500
SHARE_OF_FLOOR = 0.7
_LOOK_S = 0.02


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Floor and whole follow each other in each run, so that both see the same machine."""
    figures = []
    for slots in SLOTS:
        runs = []
        for run in range(scale.runs):
            floor = shim_floor(workshop / f"floor-{slots}-{run}", scale.of(TASKS), slots)
            with Lab(workshop, slots=slots) as lab:
                runs.append((floor, end_to_end(lab, scale.of(TASKS))))
        floors, rates = zip(*runs, strict=True)
        shares = tuple(rate / floor for floor, rate in runs)
        figures += [
            Figure(SUBJECT, f"{slots} slots: share of the floor", "", shares, at_least(SHARE_OF_FLOOR)),
            Figure(SUBJECT, f"{slots} slots: tasks", "/s", rates),
            Figure(SUBJECT, f"{slots} slots: the shim floor (agent alone)", "/s", floors),
        ]
    return figures


def end_to_end(lab: Lab, tasks: int) -> float:
    """No-op tasks per second. Raises BenchError if one of them does not succeed."""
    with lab.client() as client:
        client.wait([client.submit("true")])
        before = client.info()["tasks"]["succeeded"]
        begun = time.perf_counter()
        client.submit_batch(["true"] * tasks)

        def all_ended() -> bool:
            counts = client.info()["tasks"]
            return not any(counts[state] for state in ("waiting", "starting", "running"))

        eventually(all_ended, "the end of all tasks", _LOOK_S)
        took = time.perf_counter() - begun
        succeeded = client.info()["tasks"]["succeeded"] - before
    if succeeded != tasks:
        raise BenchError(f"{succeeded} of {tasks} no-ops succeeded")
    return tasks / took
