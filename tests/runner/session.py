"""One call of the runner: starts the stages in order, watches them, and collects what came of them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.runner.plan import Run, Suite
from tests.runner.plugin import DEADLINE, FILES, LATER, RECORDS
from tests.runner.processes import Child, Nursery
from tests.runner.records import ALONE
from tests.runner.results import Results
from tests.runner.watch import Watch

LOOK_S = 0.25
PROGRESS_S = 30.0
LEFT_PATIENCE_S = 10.0
"""How long processes may take to end after the last test of a stage."""
MOST_FAILURES = 20
"""pytest stops after so many: they are enough to see what is broken."""
_OK, _FAILED = 0, 1
"""The exit codes of pytest that tell what the tests did; any other tells that pytest could not do its work."""
_SHELL = Path(__file__).parent.parent / "as_root.sh"


@dataclass(frozen=True)
class Limits:
    """Seconds: how long a worker may be silent beyond its test's deadline, how long all workers may be silent while no
    test runs, how long the whole call may take, and the deadline of a test in place of its run's."""

    grace_s: float
    quiet_s: float
    whole_s: float
    deadline_s: float | None = None


@dataclass
class Running:
    """A pytest process, and what its workers record."""

    run: Run
    files: list[str]
    child: Child
    watch: Watch


class Session:
    """Runs stages; `folder` is for the records and outputs, and nobody else's."""

    def __init__(self, folder: Path, suite: Suite, limits: Limits) -> None:
        self.results = Results()
        self._folder = folder
        self._suite = suite
        self._limits = limits
        self._nursery = Nursery()
        self._began = time.monotonic()
        self._unselected: dict[str, str] = {}
        """Tests that a run found and did not select, with their layers."""

    def run(self, stages: dict[str, tuple[Run, ...]], beside: Sequence[Sequence[str]]) -> None:
        """Run everything. `beside`: commands to run beside the first stage."""
        beside_first = [
            self._nursery.start(command, self._folder / f"beside-{at}.txt", os.environ)
            for at, command in enumerate(beside)
        ]
        for name, runs in stages.items():
            self._stage(name, runs, beside_first)
            self._wait_for(beside_first)
            if self.results.is_broken:
                return
        chosen = {layer for runs in stages.values() for run in runs for layer in run.layers}
        forgotten = [
            name for name, layer in self._unselected.items() if layer in chosen and name not in self.results.tests
        ]
        if forgotten:
            self._red(f"{len(forgotten)} tests were found and run by no stage, first {', '.join(forgotten[:3])}")
        elif self.results.failed:
            self._stage_alone([run for runs in stages.values() for run in runs])

    def interrupt(self) -> None:
        """End everything that was started: it has sessions of its own, so Ctrl-C only reached this process."""
        self._nursery.kill()
        self._red("the run was interrupted")

    def _red(self, told: str) -> None:
        self.results.red.append(told)

    def _wait_for(self, commands: list[Child]) -> None:
        """Wait for the commands that ran beside a stage, show what they said, and forget them."""
        while commands:
            child = commands.pop(0)
            while child.status is None and not self._is_late(child):
                time.sleep(LOOK_S)
            told = " ".join(child.command)
            _show(told, child.output)
            if child.status != 0:
                self.results.beside.append(f"{told} failed (exit code {child.status})")

    def _stage(self, name: str, runs: Sequence[Run], beside: Sequence[Child]) -> None:
        began = time.monotonic()
        running = [self._start(run, f"{name}-{at}") for at, run in enumerate(runs) if self._suite.files(run)]
        told = (f"stage {each.run.name}: {each.run.workers} workers, {len(each.files)} files" for each in running)
        print("\n".join(told), flush=True)
        self._watch(running)
        self._sweep(beside, running)
        self.results.seconds[name] = time.monotonic() - began
        for each in running:
            _show(f"stage {each.run.name}", each.child.output)
            self._take(each)

    def _start(self, run: Run, place: str) -> Running:
        files = self._suite.files(run)
        options = ["-n", str(run.workers + run.later), LATER, str(run.later), "--max-worker-restart", "0"]
        options += ["--dist", run.distribution, "-m", run.marks, "--maxfail", str(MOST_FAILURES)]
        chosen = self._folder / f"{place}-files"
        chosen.write_text("\n".join(files), encoding="utf-8")
        options += [f"{FILES}={chosen}"]  # a path of its own would be taken for a test, and decide the root
        return self._pytest(run, files, place, options, self._limits.deadline_s or run.deadline_s)

    def _pytest(self, run: Run, files: list[str], place: str, options: Sequence[str], deadline_s: float) -> Running:
        records = self._folder / place
        records.mkdir()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{RECORDS}={records}"]
        command += [DEADLINE, str(deadline_s), "-o", "faulthandler_timeout=0", *options]
        # Without this, each pytest that starts closes the parent of all others' folders to other accounts.
        command += ["--basetemp", str(self._folder / f"{place}-tmp")]
        if run.browser:
            command = ["sh", str(_SHELL), "--own-network", *command]
        child = self._nursery.start(command, records.with_suffix(".txt"), os.environ)
        return Running(run, files, child, Watch(records, self._limits.grace_s, self._limits.quiet_s))

    def _watch(self, running: Sequence[Running]) -> None:
        """Wait until all have ended; end those that hang."""
        told = time.monotonic()
        waiting = list(running)
        while waiting:
            if len(waiting) == 1:
                (waiting[0].watch.folder / ALONE).touch()
            time.sleep(LOOK_S)
            for each in list(waiting):
                over = each.child.status is not None
                each.watch.read()
                if over:
                    waiting.remove(each)
                elif hanging := each.watch.hanging(time.monotonic()):
                    self._red(f"stage {each.run.name}: {each.watch.explain(hanging)}")
                    each.child.kill()
                else:
                    self._is_late(each.child)
            if time.monotonic() > told + PROGRESS_S:
                told = time.monotonic()
                print("; ".join(_progress(each) for each in running), flush=True)

    def _is_late(self, child: Child) -> bool:
        """Whether the whole call has taken too long; then the child is ended."""
        late = time.monotonic() > self._began + self._limits.whole_s
        if late:
            child.kill()
            told = f"the run took longer than {self._limits.whole_s:.0f} s"
            if told not in self.results.red:
                self._red(told)
        return late

    def _sweep(self, keep: Sequence[Child], running: Sequence[Running]) -> None:
        """Name and end what a stage left behind. Where a process does not show its test, name those that ran when it
        was started: it may have cleared its environment."""
        for told, test, since in self._nursery.left(keep, LEFT_PATIENCE_S):
            beside = "; ".join(name for each in running for name in each.watch.tested_at(since)) or "no test"
            self._red(f"left behind: {told}, started {f'in {test}' if test else f'beside {beside}'}")

    def _take(self, each: Running) -> None:
        """Take over what a run recorded, and note what is wrong with it apart from failed tests."""
        name, watch = f"stage {each.run.name}", each.watch
        self.results.tests |= watch.tests
        self._unselected |= watch.unselected
        failed = [test for test, what in watch.tests.items() if what.outcome == "failed"]
        if each.child.status not in (_OK, _FAILED):
            self._red(f"{name}: pytest ended with exit code {each.child.status}, see its output")
        elif each.child.status == _FAILED and not failed:
            self._red(f"{name}: pytest failed, although no test did: see its output")
        for told in watch.unfinished():
            self._red(f"{name}: {told}")
        silent = [test for test, what in watch.tests.items() if not what.outcome]
        if silent and len(failed) < MOST_FAILURES:
            self._red(f"{name}: {len(silent)} tests did not report, first {', '.join(silent[:3])}")
        empty = set(each.files) - watch.files
        if empty and watch.tests:
            self._red(f"{name}: no test was found in {', '.join(sorted(empty))}")

    def _stage_alone(self, runs: Sequence[Run]) -> None:
        """Stage C: each failed test alone, in a process of its own, with twice the deadline."""
        began = time.monotonic()
        for at, name in enumerate(self.results.failed):
            file = name.partition("::")[0]
            layer = self.results.tests[name].layer
            run = next(run for run in runs if layer in run.layers and file in self._suite.files(run))
            print(f"stage C: {name}", flush=True)
            deadline_s = 2 * (self._limits.deadline_s or run.deadline_s)
            each = self._pytest(run, [file], f"C-{at}", ["-n", "0", name], deadline_s)
            self._watch([each])
            self._sweep((), [each])
            found = each.watch.tests.get(name)
            if each.child.status == _OK and found is not None and found.outcome == "passed":
                self.results.alone.append(name)
                self.results.tests[name].outcome = "passed"
            else:
                _show(f"stage C: {name}", each.child.output)
        self.results.seconds["C"] = time.monotonic() - began


def _show(name: str, output: Path) -> None:
    text = output.read_text(encoding="utf-8", errors="replace").rstrip()
    print(f"--- {name}\n{text}" if text else f"--- {name}: no output", flush=True)


def _progress(each: Running) -> str:
    outcomes = [test.outcome for test in each.watch.tests.values()]
    over = sum(map(bool, outcomes))
    failed = outcomes.count("failed")
    return f"stage {each.run.name}: {over} of {len(outcomes)}" + (f", {failed} failed" if failed else "")
