"""Simulates a queue: the core, the executor in memory and a clock that jumps from one event to the next. Pure.

Everything that is decided is decided by the code that decides in a running master; only time and machines are made up.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import msgspec

from master.config.settings import Caps, Settings
from master.core.core import Core
from master.core.effects import Effect, WakeAt
from master.core.nodes.inventory import NodeSpec
from master.core.tasks.task import Task
from master.executors.memory import MemoryExecutor, Run

MOST_ROUNDS = 10_000
"""So often things may go back and forth at one moment, before it is called a defect."""


class Job(msgspec.Struct, frozen=True):
    """A user submits `wish` at a time (seconds since the epoch), and each attempt of it takes this course."""

    at: float
    wish: Task
    run: Run


class EndlessError(Exception):
    """A defect of ours: at one moment of simulated time, things never come to rest."""


class Simulation:
    """A cluster of these nodes, all online from the start, and what is submitted to it. `advance` lets time pass."""

    def __init__(self, specs: tuple[NodeSpec, ...], jobs: Iterable[Job], *, cpus: int = 64) -> None:
        self._jobs = sorted(jobs, key=attrgetter("at"))[::-1]
        self.now = self._jobs[-1].at if self._jobs else 0.0
        room = Caps(waiting_tasks=max(1, len(self._jobs)))
        self.core = Core(specs, lambda task_id, attempt: f"{task_id}.{attempt}", Settings(limits=room))
        self._runs: dict[int, Run] = {}
        self._wake_at: float | None = None
        self.executor = MemoryExecutor(self.core, lambda task: self._runs[task.id], lambda: self.now, runs_as="owners")
        for spec in specs:
            self.executor.connect(spec.name, cpus=cpus)

    @property
    def next_at(self) -> float | None:
        """When something happens next; None: never again."""
        times = [self.executor.next_at, self._wake_at, self._jobs[-1].at if self._jobs else None]
        return min((at for at in times if at is not None), default=None)

    def advance(self, until: float) -> None:
        """Let time pass until then, and everything happen that is due; first what somebody has asked meanwhile."""
        self._settle()
        while (at := self.next_at) is not None and at <= until:
            self.now = max(self.now, at)
            self._submit_due()
            self._settle()
        self.now = max(self.now, until)

    def play(self) -> list[Task]:
        """Let time pass until nothing happens any more. All tasks, by id."""
        self._settle()
        while (at := self.next_at) is not None:
            self.advance(at)
        return [self.core.tasks[task_id] for task_id in sorted(self.core.tasks)]

    def _submit_due(self) -> None:
        while self._jobs and self._jobs[-1].at <= self.now:
            job = self._jobs.pop()
            (task,) = self.core.submit([msgspec.structs.replace(job.wish)], self.now)
            self._runs[task.id] = job.run

    def _settle(self) -> None:
        for _ in range(MOST_ROUNDS):
            told = self.executor.advance()
            if self._wake_at is not None and self._wake_at <= self.now:
                self._wake_at = None
                self.core.woken()
            if self.core.plan_needed:
                self.core.plan(self.now)
            outcome = self.core.take_outcome()
            if outcome is not None:
                self._carry_out(outcome.effects)
            elif not told:
                return
        raise EndlessError(f"at {self.now} things do not come to rest")

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, WakeAt):
                self._wake_at = effect.at
        self.executor.perform([effect for effect in effects if not isinstance(effect, WakeAt)])
