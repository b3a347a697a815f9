"""Attempts are entries in a list: nodes that are nowhere, on which time passes when somebody says so. Pure.

For tests, benchmarks and the simulation. It keeps an agent's promises (an attempt is begun at most once, ever; an end
is reported until it is acknowledged), so the core behaves as with machines.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from functools import partial

import msgspec

from master.core.attempts.agent_messages import Started
from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Ack, Kill, NodeEffect, Pause, Rest, Resume, SeekCheckpoint, Start
from master.core.executor import Change, CoreReports, Reports
from master.core.nodes.facts import Facts, NodeState, RunsAs
from master.core.tasks.attempt import part_on
from master.core.tasks.task import Task
from wire.agent import PROTOCOL
from wire.message import Message


class Run(msgspec.Struct, frozen=True):
    """How an attempt goes: after so many seconds its command ends with `code`. `not_started`: it cannot be begun, for
    this fault of its node; `checkpoints`: whenever somebody looks there is a new checkpoint of it."""

    seconds: float
    code: int = 0
    not_started: str = ""
    checkpoints: bool = True


class _Attempt(msgspec.Struct):
    node: str
    run: Run
    started_at: float | None = None
    exit: Exit | None = None
    ends_at: float = 0.0
    stands_since: float | None = None


class MemoryExecutor:
    """`runs(task)` returns the course of an attempt of this task, when it begins; `clock()` the time, in seconds since
    the epoch; `runs_as`: the account that it says tasks get; `tell` makes a change of the core. Nothing is reported
    before `advance` is called."""

    def __init__(
        self,
        core: Core,
        runs: Callable[[Task], Run],
        clock: Callable[[], float],
        *,
        runs_as: RunsAs | None,
        tell: Callable[[Change], None] = lambda change: change(),
    ) -> None:
        self._core = core
        self._tell = tell
        self._runs = runs
        self._clock = clock
        self._runs_as = runs_as
        self._attempts: dict[str, _Attempt] = {}
        self._begun: set[str] = set()
        self._boots: dict[str, str] = {}
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = itertools.count()

    def connect(self, node: str, *, cpus: int = 64, boot_id: str = "memory") -> None:
        """Connect a node, which reports its attempts: all that began on it, unless that was before another boot."""
        now, reports = self._clock(), self._reports(node)
        if self._boots.setdefault(node, boot_id) != boot_id:
            self._boots[node] = boot_id
            self._attempts = {key: one for key, one in self._attempts.items() if one.node != node or one.exit}
        facts = Facts(boot_id=boot_id, state_id=node, cpus=cpus, memory_mib=0, protocol=PROTOCOL, runs_as=self._runs_as)
        seen = [
            Seen(launch_id, attempt.started_at, exit=attempt.exit, paused=attempt.stands_since is not None)
            for launch_id, attempt in self._attempts.items()
            if attempt.node == node
        ]
        reports.connecting(facts)
        reports.joined(seen, now)
        reports.online()

    def disconnect(self, node: str) -> None:
        """Cut the connection to the node. Its attempts run on."""
        self._reports(node).gone(NodeState.UNREACHABLE, Message("nobody_answers"))

    def _reports(self, node: str) -> Reports:
        return CoreReports(self._core, node, tell=self._tell)

    def perform(self, effects: list[NodeEffect]) -> None:
        """See `Executor`."""
        now = self._clock()
        for effect in effects:
            if isinstance(effect, Start):
                self._begin(effect, now)
            elif isinstance(effect, Kill):
                self._kill(effect, now)
            elif isinstance(effect, Pause | Resume):
                self._at(now, partial(self._stand, effect.launch_id, isinstance(effect, Pause)))
            elif isinstance(effect, Ack):
                self._attempts.pop(effect.launch_id, None)
            elif isinstance(effect, SeekCheckpoint):
                self._at(now, partial(self._sought, effect.launch_id))
            elif isinstance(effect, Rest):
                self._at(now + effect.seconds, partial(self._rested, effect))

    def close(self) -> None:
        """See `Executor`."""
        self._due.clear()

    @property
    def next_at(self) -> float | None:
        """When the next thing happens there; None if nothing will by itself."""
        return self._due[0][0] if self._due else None

    def advance(self) -> int:
        """Tell the core all that has happened by now, in the order of its times. How much it was."""
        told, now = 0, self._clock()
        while self._due and self._due[0][0] <= now:
            at, _, happens = heapq.heappop(self._due)
            happens(at)
            told += 1
        return told

    def _at(self, when: float, happens: Callable[[float], None]) -> None:
        heapq.heappush(self._due, (when, next(self._numbers), happens))

    def _begin(self, effect: Start, now: float) -> None:
        task = effect.task
        part = part_on(task.allocation, effect.node)
        if part is None or part.launch_id in self._begun:
            return
        launch_id = part.launch_id
        self._begun.add(launch_id)
        run = self._runs(task)
        self._attempts[launch_id] = _Attempt(effect.node, run)
        if run.not_started:
            self._at(now, partial(self._end, launch_id, "not_started"))
        else:
            self._at(now, partial(self._started, launch_id))
            self._attempts[launch_id].ends_at = now + run.seconds
            self._at(now + run.seconds, partial(self._exit, launch_id))

    def _kill(self, effect: Kill, now: float) -> None:
        """End the attempt. One that has not begun never will: it is claimed as killed."""
        if effect.launch_id not in self._begun:
            self._begun.add(effect.launch_id)
            self._attempts[effect.launch_id] = _Attempt(effect.node, Run(0.0))
        self._at(now, partial(self._end, effect.launch_id, "killed"))

    def _started(self, launch_id: str, at: float) -> None:
        attempt = self._attempts.get(launch_id)
        if attempt is not None and attempt.exit is None:
            attempt.started_at = at
            self._reports(attempt.node).started(Started(launch_id, at), at)

    def _stand(self, launch_id: str, stands: bool, at: float) -> None:  # noqa: FBT001  (by its place, for `partial`)
        """From now on it stands still, or goes on: then it ends so much later."""
        attempt = self._attempts.get(launch_id)
        if attempt is None or attempt.exit is not None:
            return
        if (attempt.stands_since is not None) is stands:
            if not stands:
                self._stands(attempt, launch_id)
            return
        if attempt.stands_since is not None:
            attempt.ends_at += at - attempt.stands_since
            self._at(attempt.ends_at, partial(self._exit, launch_id))
        attempt.stands_since = at if stands else None
        self._stands(attempt, launch_id)

    def _stands(self, attempt: _Attempt, launch_id: str) -> None:
        """Report whether it stands still, as an agent does: by saying again that it runs."""
        at, now = attempt.started_at or 0.0, self._clock()
        fact = Started(launch_id, at, paused=attempt.stands_since is not None)
        self._reports(attempt.node).started(fact, now)

    def _sought(self, launch_id: str, at: float) -> None:
        attempt = self._attempts.get(launch_id)
        if attempt is not None and self._core.inventory.nodes[attempt.node].state is NodeState.ONLINE:
            started = attempt.started_at if attempt.run.checkpoints else None
            newest = None if started is None else max(at, started + 1.0)
            self._reports(attempt.node).checkpoint_seen(launch_id, newest, at)

    def _exit(self, launch_id: str, at: float) -> None:
        attempt = self._attempts.get(launch_id)
        if attempt is not None and attempt.stands_since is None and attempt.ends_at <= at:
            self._end(launch_id, "exited", at)

    def _end(self, launch_id: str, cause: str, at: float) -> None:
        attempt = self._attempts.get(launch_id)
        if attempt is None or attempt.exit is not None:
            return
        code = attempt.run.code if cause == "exited" else None
        fault = "node" if cause == "not_started" else ""
        error = attempt.run.not_started if fault else ""
        attempt.exit = Exit(launch_id, cause, at, code, error=error, started_at=attempt.started_at, fault=fault)
        if self._core.inventory.nodes[attempt.node].state is NodeState.ONLINE:
            self._reports(attempt.node).exited(attempt.exit, at)

    def _rested(self, effect: Rest, _at: float) -> None:
        CoreReports(self._core, effect.node, effect.login, tell=self._tell).rested()
