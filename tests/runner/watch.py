"""Follows what the workers of one pytest process record, and notices when one of them hangs.

At its deadline a test gets an error, wherever its main thread is. A test can swallow that error, or hang where it is
not raised: in a thread, in C code. So a worker that is still at the same test some time later counts as hanging.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from tests.runner import signals
from tests.runner.records import Reader
from tests.runner.results import Case

TICK_S = 0.05
"""The kernel tells the start of a process in ticks of 0.01 s, and a test is noted a moment late."""
STACKS_S = 10.0
"""How long a worker may take to write the stacks of its threads."""


@dataclass
class Worker:
    """What one worker recorded so far. Times are of the monotonic clock, in seconds."""

    pid: int = 0
    test: str = ""
    since: float = 0.0
    deadline: float = 0.0
    warned: bool = False
    """Whether it got the error of a test at its deadline."""
    threads: list[str] = field(default_factory=list)
    state: str = "collecting"
    """`collecting`, `idle`, `testing`, `finished` (no test is left) or `left` (all its threads have ended, too)."""


class Watch:
    """What the workers of one pytest process have recorded, and whether one of them hangs."""

    def __init__(self, folder: Path, grace_s: float, quiet_s: float) -> None:
        """`grace_s`: how long a worker may be silent beyond its test's deadline. `quiet_s`: how long all workers may be
        silent while no test runs: while they collect, and while they end."""
        self.workers: dict[str, Worker] = {}
        self.tests: dict[str, Case] = {}
        self.unselected: dict[str, str] = {}
        """Tests that were found and not selected, with their layers, apart from those that only `make soak` runs."""
        self.files: set[str] = set()
        """The files in which a test was found, also those with tests that only `make soak` runs."""
        self.folder = folder
        self._spans: list[tuple[str, float, float]] = []
        self._reader = Reader(folder)
        self._grace_s = grace_s
        self._quiet_s = quiet_s
        self._last = monotonic()

    def read(self) -> None:
        """Take in what is new."""
        for name, line in self._reader.new():
            worker = self.workers.setdefault(name, Worker())
            self._last = max(self._last, line["at"])
            self._note(worker, line)

    def hanging(self, now: float) -> str:
        """The name of a worker that hangs, or an empty text. A worker whose test is at its deadline gets an error."""
        for name, worker in self.workers.items():
            if worker.state == "testing" and now > worker.since + worker.deadline and not worker.warned:
                worker.warned = True
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signals.LATE)
            if worker.state == "testing" and now > worker.since + worker.deadline + self._grace_s:
                return name
        busy = any(worker.state == "testing" for worker in self.workers.values())
        if not busy and now > self._last + self._quiet_s:
            return next((name for name, worker in self.workers.items() if worker.state != "left"), "main")
        return ""

    def explain(self, name: str) -> str:
        """What a hanging worker is at, with the stacks of its threads."""
        worker = self.workers.get(name, Worker())
        where = f"hangs: {worker.test}" if worker.state == "testing" else f"hangs while {worker.state}"
        if worker.threads:
            where += f"; threads left: {'; '.join(worker.threads)}"
        return f"worker {name} {where}\n{self._stacks(name) or '(the worker wrote no stacks)'}"

    def _stacks(self, name: str) -> str:
        with suppress(ProcessLookupError, KeyError):
            os.kill(self.workers[name].pid, signals.STACKS)
            until = monotonic() + STACKS_S
            while not self._reader.stacks(name) and monotonic() < until:
                sleep(0.05)
            sleep(0.1)  # for the threads after the first
        return self._reader.stacks(name)

    def unfinished(self) -> Iterator[str]:
        """What workers were at when they ended too early."""
        for name, worker in self.workers.items():
            if worker.state == "testing":
                yield f"worker {name} died in {worker.test}"
            elif worker.state == "finished":
                yield f"worker {name} did not end by itself; threads left: {'; '.join(worker.threads) or 'none known'}"
            elif worker.state != "left":
                yield f"worker {name} died while {worker.state}"

    def tested_at(self, moment: float) -> Iterator[str]:
        """The tests that ran at this moment of the monotonic clock, to `TICK_S`."""
        for test, begin, end in self._spans:
            if begin - TICK_S <= moment <= end + TICK_S:
                yield test

    def _note(self, worker: Worker, line: dict[str, Any]) -> None:
        """Take in one line; `tests/runner/plugin.py` says what each kind means."""
        match line["kind"]:
            case "began":
                worker.pid = line["pid"]
            case "collected":
                worker.state = "idle"
                self._collected(line["tests"])
            case "start":
                worker.state, worker.test = "testing", line["test"]
                worker.since, worker.deadline, worker.warned = line["at"], line["deadline"], False
            case "report":
                self._report(self.tests[line["test"]], line)
            case "end":
                worker.state = "idle"
                self._spans.append((worker.test, worker.since, line["at"]))
            case "finished":
                worker.state, worker.threads = "finished", line["threads"]
            case "left":
                worker.state = "left"

    def _collected(self, tests: list[tuple[str, str, str, str]]) -> None:
        for name, layer, fate, _ in tests:
            self.files.add(name.partition("::")[0])
            if fate == "selected":
                self.tests.setdefault(name, Case(layer))
            elif fate == "unselected":
                self.unselected[name] = layer

    def _report(self, test: Case, line: dict[str, Any]) -> None:
        test.seconds += line["seconds"]
        test.final = test.final or line["final"]
        if line["outcome"] == "failed" or test.outcome == "failed":
            test.outcome = "failed"
        elif line["when"] == "call" or line["outcome"] == "skipped":
            test.outcome = line["outcome"]
