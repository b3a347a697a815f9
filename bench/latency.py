"""From `submit` to the news that the task runs, on an idle local node, as a client of the Python API sees it."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from bench.lab import DEADLINE_S, BenchError, Lab, Scale
from bench.report import Figure, at_most, percentile
from client.api import Client
from client.session import Session
from client.states import ENDED

SUBJECT = "submit to start, idle node"
TASKS = 300
_MS = 1000


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Each run is so many tasks, one after the other; its median and its p99 are taken."""
    runs = []
    for _ in range(scale.runs):
        with Lab(workshop) as lab:
            runs.append(one_by_one(lab, scale.of(TASKS)))
    return figures(SUBJECT, runs, median_ms=4)


def one_by_one(lab: Lab, tasks: int) -> tuple[float, float, float]:
    """Milliseconds until the client hears of a start, median and p99, and until the process is there."""
    with lab.client() as client:
        changes = lab.task_changes()
        pairs = [_one(client, changes) for _ in range(tasks)]
        changes.close()
    heard, started = zip(*pairs, strict=True)
    return statistics.median(heard), percentile(heard, 0.99), statistics.median(started)


def figures(subject: str, runs: list[tuple[float, float, float]], *, median_ms: float) -> list[Figure]:
    """Return the figures for the runs of `one_by_one`; `median_ms` is the target."""
    median, p99, started = zip(*runs, strict=True)
    return [
        Figure(subject, "until the client hears of it, median", "ms", median, at_most(median_ms)),
        Figure(subject, "until the client hears of it, p99", "ms", p99, at_most(15)),
        Figure(subject, "until the process is there, median", "ms", started),
    ]


def _one(client: Client, changes: Session) -> tuple[float, float]:
    """Submit a task and wait for its end; milliseconds to the news that it runs, and to its own start.

    It lives for a moment: of a task that is over at once, the first thing told may be its end. On a busy machine that
    may be so all the same, and then it counts as the news.
    """
    wall, begun = time.time(), time.perf_counter()
    task_id = client.submit(["sleep", "0.02"])
    running = _next_state(changes, task_id, ENDED | {"running"})
    heard = time.perf_counter() - begun
    if running["state"] not in ENDED:
        _next_state(changes, task_id, ENDED)
    return heard * _MS, (running["started_at"] - wall) * _MS


def _next_state(changes: Session, task_id: int, states: set[str] | frozenset[str]) -> dict[str, Any]:
    for message in changes.notifications(DEADLINE_S):
        task: dict[str, Any] = message["params"].get("task") or {}
        if task.get("id") == task_id and task["state"] in states:
            return task
    raise BenchError(f"task {task_id} never became {' or '.join(states)}")
