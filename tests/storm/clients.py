"""The load: clients that submit without rest, each with a book of its own of what it was answered.

A client asks until it is answered, always with the same `request_id`, as a person would who sees the master die; some
ask twice on purpose. The book is a file of JSON lines, written when the answer is there and never read by what is
tested.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.storm.line import GoneError, Line, RefusedError
from tests.storm.witness import Witness

CLIENTS = 8
PATIENCE_S = 120.0
FOREVER_S = 600.0
MAY_BE_ASKED_AGAIN = frozenset({"store_unavailable"})
TWICE, DOOMED, LEFTOVER = 0.05, 0.03, 0.03


@dataclass
class Job:
    """One task as the clients know it. `doomed`: it would sleep for ever and is cancelled. `node`: it has to run
    there."""

    number: int
    gpus: int
    code: int
    nap_s: float
    leftover: bool = False
    doomed: bool = False
    node: str = ""


def make_jobs(count: int, chance: random.Random) -> list[Job]:
    """Of 0 to 8 GPUs and up to 8 seconds: most succeed, some fail, kill themselves, leave something, or are
    cancelled."""
    return [_make_job(number, chance) for number in range(count)]


def _make_job(number: int, chance: random.Random) -> Job:
    code = chance.choice((0, 0, 0, 0, 1, 2, 7, 137))
    gpus = chance.choice((0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8))
    nap = chance.uniform(0.0, 0.1) if chance.random() < 0.4 else chance.uniform(0.5, 3.0)
    nap = chance.uniform(3.0, 8.0) if chance.random() < 0.1 else nap
    kind = chance.random()
    doomed = kind < DOOMED
    return Job(
        number,
        gpus,
        code,
        FOREVER_S if doomed else round(nap, 3),
        leftover=DOOMED <= kind < DOOMED + LEFTOVER,
        doomed=doomed,
    )


class Feed:
    """The jobs that may be submitted by now, for whichever client is free. `jobs`: all that were ever planned or
    added."""

    def __init__(self, jobs: list[Job], chance: random.Random) -> None:
        self.jobs = list(jobs)
        self._planned = deque(jobs)
        self._let = 0
        self._ready: deque[Job] = deque()
        self._chance = chance
        self._ended = False
        self._changed = threading.Condition()

    def let(self, count: int) -> None:
        """So many of the planned jobs, from the first one, may go."""
        with self._changed:
            while self._let < count and self._planned:
                self._ready.append(self._planned.popleft())
                self._let += 1
            self._changed.notify_all()

    def push(self, node: str = "", *, gpus: int | None = None) -> None:
        """One job more than was planned, for whoever waits for something to happen (there, with so many GPUs)."""
        with self._changed:
            job = _make_job(len(self.jobs), self._chance)
            job.doomed, job.nap_s, job.node = False, 0.05, node
            job.gpus = job.gpus if gpus is None else gpus
            self.jobs.append(job)
            self._ready.append(job)
            self._changed.notify_all()

    def end(self) -> None:
        """Let all go; when nothing is left, the clients may."""
        self.let(len(self.jobs))
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def idle(self) -> bool:
        """Is everything that may go taken?"""
        with self._changed:
            return not self._ready

    def take(self) -> Job | None:
        """The next job, as soon as there is one; None when there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended)
            return self._ready.popleft() if self._ready else None


class Client(threading.Thread):
    """One client. `problems`: what it was told that cannot be."""

    def __init__(self, number: int, port: int, feed: Feed, book: Path, seed: int) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self.problems: list[str] = []
        self.asked_again = 0
        self.refused = 0
        self._port = port
        self._feed = feed
        self._book = book
        self._seed = seed
        self._chance = random.Random(f"{seed}.{number}")
        self._line: Line | None = None

    def run(self) -> None:
        """Everything."""
        try:
            with self._book.open("w", encoding="utf-8") as book:
                while (job := self._feed.take()) is not None:
                    number = self._submit(job)
                    book.write(json.dumps({"id": number, "at": time.time(), **asdict(job)}) + "\n")
                    book.flush()
                    if job.doomed:
                        time.sleep(self._chance.uniform(0.0, 1.0))
                        self._insist("task.cancel", ids=[number])
        except Exception as error:  # noqa: BLE001  (a thread's end must be seen by the run, whatever it was)
            self.problems.append(f"{self.name} gave up: {error!r}")
        if self._line is not None:
            self._line.close()

    def _submit(self, job: Job) -> int:
        spec: dict[str, Any] = {
            "command": Witness.command(job.code, job.nap_s, leftover=job.leftover),
            "gpus": job.gpus,
            "name": f"job {job.number}",
            "request_id": f"{self._seed}-{job.number}",
            **({"node": job.node} if job.node else {}),
        }
        number = int(self._insist("task.submit", **spec)["id"])
        if self._chance.random() < TWICE and (again := self._insist("task.submit", **spec)["id"]) != number:
            self.problems.append(f"job {job.number}, asked twice with one request_id, is {number} and {again}")
        return number

    def _insist(self, method: str, **params: Any) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._line = self._line or Line(self._port)
                return self._line.call(method, **params)
            except GoneError:
                if self._line is not None:
                    self.asked_again += 1
                    self._line.close()
                    self._line = None
                if time.monotonic() > deadline:
                    raise
            except RefusedError as error:
                if error.code not in MAY_BE_ASKED_AGAIN or time.monotonic() > deadline:
                    raise
                self.refused += 1
            time.sleep(self._chance.uniform(0.02, 0.1))


def read_books(folder: Path) -> dict[int, dict[str, Any]]:
    """By id, what the clients were answered; more than one job with an id is told by `twice`."""
    found: dict[int, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            before = found.get(entry["id"])
            found[entry["id"]] = {**entry, "twice": before is not None}
    return found
