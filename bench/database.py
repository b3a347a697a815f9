"""The effect of an outage of InfluxDB on starts, and on the metrics of that time. It should have none on either.

A real InfluxDB, and the writer as a process of its own beside the master. Starts are timed with the database there,
gone, and swallowing what it is sent, by turns in one and the same master, so that what else the machine does falls on
all three. Then it is gone for a minute, and comes back.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.lab import ROOT, Lab, Scale, eventually
from bench.latency import one_by_one
from bench.report import Figure, at_most
from tests.monitor.databases import Influx

SUBJECT = "InfluxDB goes away and comes back"
ROUNDS = 5
TASKS = 100
OUTAGE_S = 60.0
SAMPLES_EVERY_S = 2.0
_NS = 1_000_000_000
_SAMPLES = 'SELECT "value" FROM "cpu" WHERE "cpu" = \'cpu-total\''


class MeasuredLab(Lab):
    """A lab whose metrics are written to `influx`."""

    def __init__(self, workshop: Path, influx: Influx) -> None:
        self._influx = influx
        super().__init__(workshop)

    def _keys(self) -> dict[str, Any]:
        return {"influx": {"url": self._influx.url, "version": 1}}

    @contextmanager
    def writer(self) -> Iterator[None]:
        """The writer runs, and has written."""
        with (self.folder / "writer.out").open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "monitor", "--conf", str(self.conf)],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        try:
            eventually(lambda: bool(self.sampled()), "the first points in InfluxDB", 0.1)
            yield
        finally:
            process.terminate()
            process.wait()

    def sampled(self) -> list[float]:
        """When the samples in the database were taken, in seconds since the epoch."""
        return [row["time"] / _NS for row in self._influx.rows(_SAMPLES)]


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """One master and one database for all of it."""
    influx = Influx(workshop / "influx")
    try:
        with MeasuredLab(workshop, influx) as lab, lab.writer():
            rounds = [_round(lab, influx, scale.of(TASKS)) for _ in range(max(1, round(ROUNDS * scale.share)))]
            outage_s = OUTAGE_S * scale.share
            hole, caught_up = _outage(lab, influx, outage_s)
    finally:
        influx.stop()
    there, gone, silent = zip(*rounds, strict=True)
    name = "submit to start, {} : there"
    return [
        Figure(SUBJECT, "submit to start, there, median", "ms", there),
        Figure(SUBJECT, name.format("gone"), "", _ratios(gone, there), at_most(1.1)),
        Figure(SUBJECT, name.format("silent"), "", _ratios(silent, there), at_most(1.1)),
        Figure(SUBJECT, f"longest hole after {outage_s:.0f} s without it", "s", (hole,), at_most(2 * SAMPLES_EVERY_S)),
        Figure(SUBJECT, "until the points of that time are there", "s", (caught_up,)),
    ]


def _ratios(values: tuple[float, ...], beside: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(value / other for value, other in zip(values, beside, strict=True))


def _round(lab: MeasuredLab, influx: Influx, tasks: int) -> tuple[float, float, float]:
    """Milliseconds from submit to start, the median of each state of the database: there, gone, silent."""

    def timed() -> float:
        return one_by_one(lab, tasks)[0]

    there = timed()
    influx.stop()
    try:
        gone = timed()
        with socket.create_server(("127.0.0.1", urlsplit(influx.url).port or 0)):
            silent = timed()
    finally:
        influx.start()
    return there, gone, silent


def _outage(lab: MeasuredLab, influx: Influx, seconds: float) -> tuple[float, float]:
    """The longest time between two samples in the database after an outage, and how long they took to arrive."""
    began = time.time()
    influx.stop()
    time.sleep(seconds)
    influx.start()
    back = time.time()
    eventually(lambda: lab.sampled()[-1] > back, "a sample taken after the outage", 0.1)
    caught_up = time.time() - back
    times = [at for at in lab.sampled() if at > began - 3 * SAMPLES_EVERY_S]
    return max(later - earlier for earlier, later in pairwise(times)), caught_up
