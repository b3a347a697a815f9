"""The cost of a list of 10,000 waiting tasks: in the master, and for a person who types `muster queue`; 50 rows of
100,000; and the cost of `muster submit`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.lab import ROOT, Lab, RawConnection, Scale, request
from bench.report import Figure, Target, at_most

SUBJECT = "listing"
WAITING, MANY = 10_000, 100_000
ROWS = 50
REPEATS = 7
_MS = 1000


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """One master; each run is the median of REPEATS."""
    count = scale.of(WAITING)
    with Lab(workshop, gpus=8) as lab:
        lab.fill(count)
        figures = [*_in_the_master(lab, scale, count), *_through_the_cli(lab, scale, count)]
        lab.add(scale.of(MANY) - count)
        return [*figures, *_of_many(lab, scale, scale.of(MANY))]


def _in_the_master(lab: Lab, scale: Scale, count: int) -> list[Figure]:
    def asking(params: dict[str, Any]) -> Callable[[], object]:
        frame = request(1, "task.list", params)
        return lambda: connection.exchange(frame)

    with RawConnection(lab.data_port) as connection:
        page = tuple(_median_ms(asking({"limit": ROWS, "sparse": True})) for _ in range(scale.runs))
        sparse = tuple(_median_ms(asking({"sparse": True})) for _ in range(scale.runs))
        whole = tuple(_median_ms(asking({})) for _ in range(scale.runs))
    return [
        Figure(SUBJECT, f"in the master, {ROWS} rows of {count:,}", "ms", page, at_most(20)),
        Figure(SUBJECT, f"in the master, all {count:,}, as our client asks", "ms", sparse, at_most(20)),
        Figure(SUBJECT, f"in the master, all {count:,}, every key in every task", "ms", whole),
    ]


def _through_the_cli(lab: Lab, scale: Scale, count: int) -> list[Figure]:
    bare, submit = (
        [sys.executable, "-c", "pass"],
        [*muster(), "submit", "--conf", str(lab.conf), "--hold", "--", "true"],
    )
    page = [*muster(), "queue", "--conf", str(lab.conf)]
    bares, pages, wholes, as_json, submits = _side_by_side(
        lab, scale, [bare, page, [*page, "--limit", "0"], [*page, "--json"], submit]
    )
    return [
        _ratio("muster submit, to the bare start", submits, bares, at_most(3)),
        Figure(SUBJECT, "muster submit", "ms", submits),
        _ratio(f"muster queue, {ROWS} rows, to the bare start", pages, bares, at_most(3)),
        Figure(SUBJECT, f"muster queue, {ROWS} rows", "ms", pages),
        Figure(SUBJECT, f"muster queue --limit 0, all {count:,}", "ms", wholes, at_most(250)),
        _ratio("muster queue --limit 0, to the bare start", wholes, bares),
        Figure(SUBJECT, f"muster queue --json, all {count:,}", "ms", as_json),
        Figure(SUBJECT, "the bare start, python -c pass", "ms", bares),
    ]


def _of_many(lab: Lab, scale: Scale, count: int) -> list[Figure]:
    bare = [sys.executable, "-c", "pass"]
    bares, pages = _side_by_side(lab, scale, [bare, [*muster(), "queue", "--conf", str(lab.conf)]])
    return [
        _ratio(f"muster queue, {ROWS} rows of {count:,}, to the bare start", pages, bares, at_most(3)),
        Figure(SUBJECT, f"muster queue, {ROWS} rows of {count:,}", "ms", pages),
    ]


def _side_by_side(lab: Lab, scale: Scale, commands: list[list[str]]) -> list[tuple[float, ...]]:
    """Milliseconds that each command takes, run by run, one after the other in turn."""
    for command in commands:
        _run(lab, command)  # what it reads is in the kernel's cache from then on, and compiled
    runs = []
    for _ in range(scale.runs):
        times = [tuple(_ms(lab, command) for command in commands) for _ in range(REPEATS)]
        runs.append(tuple(statistics.median(column) for column in zip(*times, strict=True)))
    return list(zip(*runs, strict=True))


def muster() -> list[str]:
    """The command `muster`: the script beside our interpreter if it is installed, else what the script does."""
    script = Path(sys.executable).with_name("muster")
    if script.exists():
        return [str(script)]
    return [sys.executable, "-c", "import sys; from client.cli.begin import main; sys.exit(main())"]


def _ratio(name: str, over: tuple[float, ...], under: tuple[float, ...], target: Target | None = None) -> Figure:
    return Figure(SUBJECT, name, "×", tuple(a / b for a, b in zip(over, under, strict=True)), target)


def _median_ms(call: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * _MS


def _ms(lab: Lab, command: list[str]) -> float:
    begun = time.perf_counter()
    _run(lab, command)
    return (time.perf_counter() - begun) * _MS


def _run(lab: Lab, command: list[str]) -> None:
    subprocess.run(command, cwd=ROOT, env=lab.environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
