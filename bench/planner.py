"""The costs of planning: the core alone, without disk, clock and network, over 1,000 nodes of 8 GPUs.

Of a full plan, and of the end of a task with the plan that follows: seconds of a CPU, which others' work leaves alone.
The cluster is busy (nothing is free), nearly full (one GPU of fifty is free), or empty. Where room is kept, everybody
who waits has waited long enough to be entitled to it, and as many reservations as may be are in force.

A plan keeps what it found for the next one. The first plan, for which nothing was kept, is measured beside it; and, in
the same run, how the costs grow with the tasks that wait and with the nodes.
"""

from __future__ import annotations

import gc
import itertools
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bench.lab import BenchError, Scale
from bench.report import Figure, Target, at_most
from master.config.settings import Caps, Settings
from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.facts import Facts, NodeState
from master.core.nodes.node import NodeSpec
from master.core.planning.reservations import Reservation
from master.core.planning.scheduler import Plan, explain, plan
from master.core.tasks.task import Task
from wire.agent import PROTOCOL

SUBJECT = "the planner"
NODES, GPUS, OWNERS = 1_000, 8, 20
GROWTH_WAITING = (1_000, 10_000, 100_000)
GROWTH_NODES = (10, 100, 1_000, 2_000)
MODELS = ("V100", "RTX 3090", "A100", "H100")
MEMORY_MIB = {"V100": 32_768, "RTX 3090": 24_576, "A100": 81_920, "H100": 81_559}
WAITING, MANY = 10_000, 100_000
PLAN_MS, MANY_MS, END_MS = 50, 200, 2
ENDS = 40
FREE = 50
"""Of a nearly full cluster one GPU of so many is free."""
MANY_NODES = 2
DAY_S = 86_400.0
MORE_TASKS, MORE_NODES = 5, 10
"""A plan may cost so many times as much where 100 times as many wait, and where there are 10 times the nodes."""
_MS = 1000


def shapes(nodes: int = NODES) -> list[dict[str, Any]]:
    """200 different things to ask for, of a cluster of so many nodes."""
    models: list[list[str]] = [[], *([model] for model in MODELS)]
    besides: list[dict[str, Any]] = [
        {},
        {"cpus": 4},
        {"cpus": 8, "memory_mib": 32_768},
        {"gpu_memory_mib": 20_000},
        {"gpu_memory_mib": 8_000, "share": True},
        {"gpu_memory_mib": 16_000, "share": True},
        {"min_free_util": 50.0},
        {"nodes": 2},
        {"nodes": max(1, min(16, nodes // 8))},
        {"exclude": ["n0", "n1"]},
    ]
    return [
        {"gpus": gpus, "gpu_models": model, **beside} for gpus in (1, 2, 4, 8) for model in models for beside in besides
    ]


def measure(_workshop: Path, scale: Scale) -> list[Figure]:
    """One core for each kind of cluster; a plan is made several times, for it changes nothing."""
    times = max(3, scale.runs)
    found = []
    for kind in ("busy", "nearly full", "empty"):
        for kept in (False, True):
            lab = _Cluster(kind, scale.of(WAITING), since=-DAY_S if kept else 0.0)
            name = f"{kind}, {scale.of(WAITING):,} waiting" + (", 4 kept" if kept else "")
            found.append(_figure(f"first: {name}", [lab.plans(anew=True) for _ in range(times)]))
            found.append(_figure(name, [lab.plans() for _ in range(times)], at_most(PLAN_MS)))
            if kind == "nearly full":
                ends = [lab.end_one() for _ in range(ENDS)]
                found.append(_figure(f"an end: {name}", ends, at_most(END_MS)))
                found.append(_figure(f"why a gang waits: {name}", [lab.tells() for _ in range(times)]))
    for kept in (False, True):
        lab = _Cluster("busy", scale.of(MANY), since=-DAY_S if kept else 0.0)
        name = f"busy, {scale.of(MANY):,} waiting" + (", 4 kept" if kept else "")
        found.append(_figure(name, [lab.plans() for _ in range(times)], at_most(MANY_MS)))
    return [*found, *_growth(scale, times)]


def _growth(scale: Scale, times: int) -> list[Figure]:
    """Measure the costs at ten times the tasks, and at ten times the nodes: the end of a task and the plan that
    follows, and the first plan of all."""
    found: list[Figure] = []
    sizes = [(scale.of(waiting), NODES) for waiting in GROWTH_WAITING]
    sizes += [(scale.of(WAITING), nodes) for nodes in GROWTH_NODES if nodes != NODES]
    ends: dict[tuple[int, int], Figure] = {}
    firsts: dict[tuple[int, int], Figure] = {}
    for waiting, nodes in sizes:
        lab = _Cluster("nearly full", waiting, 0.0, nodes)
        size = f"{waiting:,} waiting, {nodes:,} nodes"
        firsts[waiting, nodes] = _figure(f"first: {size}", [lab.plans(anew=True) for _ in range(times)])
        ends[waiting, nodes] = _figure(f"an end: {size}", [lab.end_one() for _ in range(min(ENDS, nodes))])
        found += [firsts[waiting, nodes], ends[waiting, nodes]]
    few, many = sizes[0], sizes[len(GROWTH_WAITING) - 1]
    small, large = (scale.of(WAITING), GROWTH_NODES[1]), (scale.of(WAITING), NODES)
    for name, figures in (("the first plan", firsts), ("an end", ends)):
        found.append(_ratio(f"100 times the tasks: {name}", figures[many], figures[few], at_most(MORE_TASKS)))
        found.append(_ratio(f"10 times the nodes: {name}", figures[large], figures[small], at_most(MORE_NODES)))
    return found


def _ratio(name: str, of: Figure, to: Figure, target: Target) -> Figure:
    return Figure(SUBJECT, name, "x", (of.median / to.median,), target)


def _figure(name: str, seconds: list[float], target: Target | None = None) -> Figure:
    return Figure(SUBJECT, name, "ms", tuple(_MS * one for one in seconds), target)


class _Cluster:
    """A core with nodes on which tasks run, and so many that wait, each `since` then (seconds from now)."""

    def __init__(self, kind: str, waiting: int, since: float, nodes: int = NODES) -> None:
        chance, numbers = random.Random(kind), itertools.count(1)
        conf = Settings(limits=Caps(waiting_tasks=1_000_000))
        self.core = Core(_specs(nodes), lambda task, attempt: f"{task}.{attempt}.{next(numbers)}", conf)
        self.now = 10 * DAY_S
        facts = Facts(boot_id="b", state_id="s", cpus=128, memory_mib=1 << 20, protocol=PROTOCOL, runs_as="another")
        for name in list(self.core.inventory.nodes):
            self.core.node_state(name, NodeState.ONLINE, None, facts)
        self.running: list[Task] = []
        if kind != "empty":
            self._fill(chance, nodes)
        if kind == "nearly full":
            for task in chance.sample(self.running, nodes * GPUS // FREE):
                self._end(task)
        drafts = _drafts(waiting, chance, nodes)
        self.core.submit(drafts, self.now + since)
        self.core.take_outcome()
        self.reservations: tuple[Reservation, ...] = ()
        if since and not self._plan().reservations and kind != "empty":
            raise BenchError("nobody was kept room for")
        self.reservations = self._plan().reservations if since else ()

    def plans(self, *, anew: bool = False) -> float:
        """Make a plan, and give the seconds that it took. `anew`: with nothing that was kept."""
        return _took(lambda: self._plan(anew=anew))

    def end_one(self) -> float:
        """Let a task end, and plan: what the master does then, but to write it down and tell it."""
        task = self.running.pop()
        part = task.allocation[0]
        self.now += 1.0
        told = Exit(part.launch_id, "exited", self.now, 0)

        def ends() -> None:
            self.core.exited(part.node, told, self.now)
            self.core.plan(self.now)

        if not self.core.reservations and not self.reservations:
            self.core.plan(self.now)  # what could start at once has
        took = _took(ends)
        self.core.take_outcome()
        return took

    def tells(self) -> float:
        """Work out why a task that wants many nodes waits."""
        (demand, *_) = (one for _, one in self.core.backlog.groups() if one.request.nodes > MANY_NODES)
        return _took(lambda: explain(demand, self.core.inventory, self.core.quotas, self.core.holds))

    def _plan(self, *, anew: bool = False) -> Plan:
        seen = msgspec.structs.replace(self.core.plan_input(self.now), reservations=self.reservations)
        return plan(msgspec.structs.replace(seen, free=None) if anew else seen, self.now)

    def _fill(self, chance: random.Random, nodes: int) -> None:
        drafts = [
            Task(id=0, owner=f"u{at % OWNERS}", command="true", gpus=1, time_limit_s=chance.choice([None, 3 * DAY_S]))
            for at in range(nodes * GPUS)
        ]
        self.running = self.core.submit(drafts, self.now - DAY_S)
        self.core.plan(self.now - DAY_S)
        for task in self.running:
            part = task.allocation[0]
            self.core.started(part.node, part.launch_id, self.now - DAY_S, self.now - DAY_S)
        self.core.take_outcome()
        chance.shuffle(self.running)

    def _end(self, task: Task) -> None:
        part = task.allocation[0]
        self.running.remove(task)
        self.core.exited(part.node, Exit(part.launch_id, "exited", self.now, 0), self.now)


def _specs(nodes: int) -> tuple[NodeSpec, ...]:
    models = [MODELS[at % len(MODELS)] for at in range(nodes)]
    return tuple(
        NodeSpec(name=f"n{at}", gpu_models=(model,) * GPUS, gpu_memory_mib=(MEMORY_MIB[model],) * GPUS)
        for at, model in enumerate(models)
    )


def _drafts(count: int, chance: random.Random, nodes: int) -> list[Task]:
    asked = shapes(nodes)
    return [
        Task(
            id=0,
            owner=f"u{chance.randrange(OWNERS)}",
            command="python train.py",
            time_limit_s=chance.choice([None, 600.0, 3600.0, DAY_S]),
            **asked[at % len(asked)],
        )
        for at in range(count)
    ]


def _took(work: Callable[[], object]) -> float:
    """Return the seconds of a CPU that `work` takes. Garbage is collected before it, not within."""
    gc.collect()
    begun = time.thread_time()
    work()
    return time.thread_time() - begun
