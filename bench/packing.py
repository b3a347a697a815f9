"""`python -m bench.packing FOLDER`: how much of its GPUs a cluster has given out when nothing more fits, by rule.

The tasks of a production cluster arrive in a random order, repeatedly, until they ask for more than the cluster has;
none ends. The planner places them by its present rule, and by others (`packing_rules`). FOLDER holds the two tables of
Alibaba's trace cluster-trace-gpu-v2023 (github.com/alibaba/clusterdata), which is not part of this repository: 1,213
nodes with 6,212 GPUs, 8,152 tasks that ask for shares of a GPU, GPUs, CPUs, memory.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

from bench.packing_rules import GPU, Ask, Cluster, Left, best_fit, best_fit_by_gpus, first_fit, fragmentation
from bench.report import Figure, at_least, table, verdict
from master.core.core import Core
from master.core.nodes.facts import Facts, NodeState
from master.core.nodes.node import NodeSpec
from master.core.planning.availability import Availability
from master.core.planning.free_nodes import FreeNodes
from master.core.tasks.request import demand_of
from master.core.tasks.task import Task
from wire.agent import PROTOCOL

NODES, TASKS = "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv"
SEEDS = (42, 43, 44)
LOADS = (1.0, 1.3)
"""At these times is looked: so much was asked for by then, as a part of what there is."""
GOAL = 94.5
SUBJECT = "what is given out of the GPUs, in percent"
Place = Callable[[Ask], bool]


class Trace(NamedTuple):
    """The nodes of the cluster, and the requests."""

    nodes: list[Left]
    asked: list[Ask]


def read(folder: Path) -> Trace:
    """The trace that lies there. Raises OSError, KeyError and ValueError."""
    nodes = [
        Left(int(row["cpu_milli"]), int(row["memory_mib"]), (GPU,) * int(row["gpu"]), row["model"])
        for row in _rows(folder / NODES)
    ]
    asked = []
    for row in _rows(folder / TASKS):
        models = tuple(filter(None, row["gpu_spec"].split("|")))
        gpus, share = int(row["num_gpu"]), int(row["gpu_milli"])
        asked.append(Ask(int(row["cpu_milli"]), int(row["memory_mib"]), gpus, share, models))
    return Trace(nodes, asked)


def replay(trace: Trace, place: Place, seed: int, loads: Iterable[float] = LOADS) -> list[float]:
    """Return the share of all GPUs that is in use, in percent, at each of `loads`: the share of all GPUs that was
    requested."""
    total, arrived, given, found = sum(sum(one.gpus) for one in trace.nodes), 0, 0, list[float]()
    asked = _arriving(trace.asked, random.Random(seed))
    for load in loads:
        while arrived < load * total:
            ask = next(asked)
            arrived += ask.gpu_total
            given += ask.gpu_total if place(ask) else 0
        found.append(100 * given / total)
    return found


def _arriving(asked: list[Ask], chance: random.Random) -> Iterator[Ask]:
    """Each once, in any order, then some of them again."""
    yield from chance.sample(asked, len(asked))
    while True:
        yield chance.choice(asked)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def planner(trace: Trace) -> Place:
    """The planner itself, with such nodes. A thousandth of a GPU is to it a MiB, and one of a CPU a CPU."""
    specs = tuple(
        NodeSpec(name=f"n{at}", gpu_models=(one.model,) * len(one.gpus), gpu_memory_mib=one.gpus)
        for at, one in enumerate(trace.nodes)
    )
    core, ids = Core(specs, lambda task, attempt: f"{task}.{attempt}"), count(1)
    for spec, one in zip(specs, trace.nodes, strict=True):
        facts = Facts(
            boot_id="b", state_id="s", cpus=one.cpu, memory_mib=one.memory, protocol=PROTOCOL, runs_as="another"
        )
        core.node_state(spec.name, NodeState.ONLINE, None, facts)
    available = Availability(core.inventory, FreeNodes(core.inventory))

    def place(ask: Ask) -> bool:
        shares = ask.gpus == 1 and ask.share < GPU
        task = Task(
            id=next(ids),
            command="train",
            owner="ann",
            gpus=ask.gpus,
            gpu_models=list(ask.models),
            share=shares,
            gpu_memory_mib=ask.share if shares else None,
            cpus=ask.cpu,
            memory_mib=ask.memory,
        )
        return available.place(demand_of(task), task.id) is not None

    return place


RULES: dict[str, Callable[[Trace], Place]] = {
    "Muster's planner": planner,
    "FGD": lambda trace: Cluster(trace.nodes, fragmentation(trace.asked)).place,
    "first fit": lambda trace: Cluster(trace.nodes, first_fit).place,
    "best fit": lambda trace: Cluster(trace.nodes, best_fit(trace.nodes)).place,
    "best fit by GPUs": lambda trace: Cluster(trace.nodes, best_fit_by_gpus(trace.nodes)).place,
}


def measure(trace: Trace, seeds: Iterable[int]) -> list[Figure]:
    """All rules, each with the same tasks in the same orders."""
    figures = []
    for name, rule in RULES.items():
        begun = time.thread_time()
        runs = [replay(trace, rule(trace), seed) for seed in seeds]
        print(f"{name}: {time.thread_time() - begun:.0f} s of a CPU", file=sys.stderr)
        for load, shares in zip(LOADS, zip(*runs, strict=True), strict=True):
            goal = at_least(GOAL) if rule is planner and load == LOADS[-1] else None
            figures.append(Figure(SUBJECT, f"{name}, {load:.0%} asked for", "%", shares, goal))
    return figures


def main(arguments: list[str] | None = None) -> int:
    """Run the command; give the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.packing", description="How much of the GPUs is given out?")
    parser.add_argument("folder", type=Path, help=f"where {NODES} and {TASKS} lie (github.com/alibaba/clusterdata)")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS), metavar="N", help="orders of the tasks")
    options = parser.parse_args(arguments)
    try:
        trace = read(options.folder)
    except (OSError, KeyError, ValueError) as error:
        where = "github.com/alibaba/clusterdata, cluster-trace-gpu-v2023"
        print(f"error: bench: {options.folder} holds no such trace ({where}): {error!r}", file=sys.stderr)
        return 1
    figures = measure(trace, options.seeds)
    print(table(figures))
    print(verdict(figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
