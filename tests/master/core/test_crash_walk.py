"""A crash behind every record: what a new master makes of what is on the disk is what the one before had told.

Each walk lets things happen at random, in steps as the engine takes them: events, a plan, one record, and only then
what leaves. Behind each record the master may die; the next one loads what was written, hears of the agents what they
have, and goes on. What was told is a start, an end, a retry that was used up, a time at which something begins.
"""

from __future__ import annotations

import itertools
import random
from contextlib import suppress

import msgspec
import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Kill, Start
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.records import Change
from master.core.tasks.task import ACTIVE, ENDED, After, Task, TaskState
from tests.master.core.small_core import BOOT, CheckedCore
from wire.errors import MusterError

SPECS = tuple(NodeSpec(name=name, gpu_models=("GPU",) * 2, slots=2) for name in "ab")
STEPS, CRASHES = 150, 0.2


class Nodes:
    """The agents: what each launch that they got is doing. They outlive the master."""

    def __init__(self) -> None:
        self.started: dict[str, tuple[str, int]] = {}
        self.alive: dict[str, Exit | None] = {}
        self.killed: set[str] = set()

    def take(self, effects: list[object]) -> None:
        for effect in effects:
            if isinstance(effect, Start):
                launch = next(part.launch_id for part in effect.task.allocation if part.node == effect.node)
                if launch not in self.started:  # a claim is made once
                    self.started[launch] = (effect.node, effect.task.id)
                    self.alive[launch] = None
            elif isinstance(effect, Kill) and effect.launch_id in self.alive:
                self.killed.add(effect.launch_id)

    def seen(self, node: str) -> list[Seen]:
        return [Seen(launch, 2.0, exit_) for launch, exit_ in self.alive.items() if self.started[launch][0] == node]


class Walk:
    """One life of a folder, through many masters."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.nodes = Nodes()
        self.disk: dict[int, bytes] = {}
        self.next_id = 1
        self.now = 1000.0
        self.ends: dict[int, str] = {}
        self._launches = itertools.count(1)
        self.core = self._begun()

    def _begun(self) -> Core:
        core = CheckedCore(SPECS, lambda task, attempt: f"{task}.{attempt}.{next(self._launches)}")
        tasks = {number: msgspec.json.decode(line, type=Task) for number, line in self.disk.items()}
        core.load(tasks, {}, self.next_id)
        for spec in SPECS:
            core.node_state(spec.name, NodeState.CONNECTING, None, BOOT)
            core.reconcile(spec.name, self.nodes.seen(spec.name), self.now)
            core.node_state(spec.name, NodeState.ONLINE)
        return core

    def crash(self) -> None:
        """It dies, and the next one begins. What the first has told holds."""
        before = self.told()
        fresh = CheckedCore(SPECS, lambda task, attempt: f"{task}.{attempt}.{next(self._launches)}")
        fresh.load({number: msgspec.json.decode(line, type=Task) for number, line in self.disk.items()}, {}, 1)
        assert self.told(fresh) == before
        assert [task.id for task in fresh.queue()] == [task.id for task in self.core.queue()]
        self.core = self._begun()

    def told(self, core: Core | None = None) -> dict[int, object]:
        tasks = (core or self.core).tasks
        return {
            number: (
                task.state,
                task.attempt,
                task.retries,
                task.not_before,
                task.eligible_at,
                task.position,
                task.asked_end,
                task.allocation,
            )
            for number, task in tasks.items()
        }

    def step(self) -> None:
        self.now += self.chance.choice((0.0, 1.0, 5.0, 30.0))
        with suppress(MusterError):
            self.chance.choice((self._submit, self._submit, self._agents, self._agents, self._agents, self._people))()
        self.core.plan(self.now)
        self.commit()

    def commit(self) -> None:
        """One record; then its effects. The master may die before it, which takes all back, or behind it."""
        if self.chance.random() < CRASHES / 2:
            self.core = self._begun()
            return
        outcome = self.core.take_outcome()
        if outcome is None:
            return
        change = msgspec.json.decode(msgspec.json.encode(outcome.change), type=Change)
        for task in change.tasks:
            self._check(task)
            self.disk[task.id] = msgspec.json.encode(task)
            self.next_id = max(self.next_id, task.id + 1)
        if self.chance.random() < CRASHES / 2:
            self.crash()  # before anything has left
            return
        self.nodes.take(outcome.effects)  # type: ignore[arg-type]
        if self.chance.random() < CRASHES / 2:
            self.crash()

    def _check(self, task: Task) -> None:
        """What a record may say, given what records before it said."""
        if task.id in self.ends:
            assert task.state == self.ends[task.id], "an end that was told is no end"
        if task.state in ENDED:
            self.ends[task.id] = task.state
        assert task.retries <= task.max_retries
        if task.state in ACTIVE and self.disk.get(task.id):
            before = msgspec.json.decode(self.disk[task.id], type=Task)
            due = before.not_before or 0.0
            assert before.state is not TaskState.WAITING or due <= self.now, "it began before its time"

    def _submit(self) -> None:
        chance = self.chance
        known = [number for number in self.core.tasks if number not in self.ends]
        after = [After(chance.choice(known), "any")] if known and chance.random() < 0.2 else []
        wish = Task(
            id=0,
            command="true",
            gpus=chance.randrange(3),
            after=after,
            begin_at=chance.choice((None, None, self.now + chance.randrange(60))),
            max_retries=chance.randrange(3),
            on_timeout=chance.choice(("fail", "requeue")),
        )
        self.core.submit([wish], self.now)

    def _agents(self) -> None:
        """Something ends, or its end is told again."""
        if not self.nodes.alive:
            return
        launch = self.chance.choice(list(self.nodes.alive))
        node = self.nodes.started[launch][0]
        if self.nodes.alive[launch] is None:
            cause = "killed" if launch in self.nodes.killed else self.chance.choice(("exited", "timed_out", "unknown"))
            code = self.chance.randrange(2) if cause == "exited" else None
            self.nodes.alive[launch] = Exit(launch, cause, self.now, code)
        exit_ = self.nodes.alive[launch]
        assert exit_ is not None
        self.core.exited(node, exit_, self.now)

    def _people(self) -> None:
        number = self.chance.choice(list(self.core.tasks) or [1])
        if number not in self.ends:
            self.chance.choice((self.core.cancel, self._hold, self._free))(number, self.now)

    def _hold(self, number: int, _now: float) -> None:
        self.core.hold(number)

    def _free(self, number: int, _now: float) -> None:
        self.core.release(number)


@pytest.mark.parametrize("seed", range(8))
def test_a_crash_behind_any_record_changes_nothing_that_was_told_and_starts_nothing_twice(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
    for _ in range(2000):  # and then it comes to rest
        walk.now += 700.0
        for launch, (node, _) in walk.nodes.started.items():
            exit_ = walk.nodes.alive[launch] or Exit(launch, "exited", walk.now, 0)
            walk.nodes.alive[launch] = exit_
            walk.core.exited(node, exit_, walk.now)
        for task in list(walk.core.queue()):
            if task.state is TaskState.HELD:
                walk.core.release(task.id)
        walk.core.plan(walk.now)
        outcome = walk.core.take_outcome()
        if outcome is not None:
            walk.nodes.take(outcome.effects)  # type: ignore[arg-type]
        if all(task.state in ENDED for task in walk.core.tasks.values()):
            break
    assert {task.state for task in walk.core.tasks.values()} <= ENDED
    of_tasks = [number for _, number in walk.nodes.started.values()]
    for number in set(of_tasks):
        task = walk.core.tasks[number]
        assert of_tasks.count(number) <= task.attempt, "no attempt was sent that is not counted"
