"""What holds of every plan, whoever comes: all who come start in the end, nobody gains by asking for more time, and the
same things give the same plan, in whatever order they are read."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from master.core.attempts.exits import Seen
from master.core.core import Core
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import ACTIVE, ENDED, Task, TaskState
from master.executors.memory import Run
from master.executors.simulation import Job, Simulation
from tests.master.core.small_core import BOOT
from tests.master.core.test_why_names import NODES, NOW, busy_lab
from tests.walks import CASES, IN_TIME

pytestmark = IN_TIME
HOUR = 3600.0
LAB = (
    NodeSpec(name="a", gpu_models=("A100",) * 4, gpu_memory_mib=(80_000,) * 4),
    NodeSpec(name="b", gpu_models=("3090",) * 2, gpu_memory_mib=(24_000,) * 2),
    NodeSpec(name="c", gpu_models=("3090",) * 2, gpu_memory_mib=(24_000,) * 2),
)
WISHES: tuple[dict[str, Any], ...] = (
    {"gpus": 1}, {"gpus": 1}, {"gpus": 1}, {"gpus": 2}, {"gpus": 4}, {"gpus": 2, "nodes": 2}, {"gpus": 2, "nodes": 3},
    {"gpus": 1, "gpus_max": 4}, {"gpus": 1, "share": True, "gpu_memory_mib": 9_000}, {"gpus": 0, "cpus": 40},
    {"gpus": 1, "share": True}, {"gpus": 1, "gpu_models": ["A100"]}, {"gpus": 1, "node_list": ["b", "c"]},
    {"gpus": 2, "gpu_ids": [0, 1], "node": "a"}, {"gpus": 1, "exclude": ["a"]}, {"gpus": 1, "cpus": 33},
)  # fmt: skip


def arrivals(chance: random.Random, most: int) -> list[Job]:
    """Tasks of all kinds, many more than there is room for at a time."""
    jobs = []
    for _ in range(chance.randrange(4, most)):
        takes = chance.choice([60.0, HOUR, 5 * HOUR])
        more: dict[str, Any] = {"priority": chance.choice([0, 0, 0, 1]), "urgent": chance.random() < 0.1}
        if chance.random() < 0.5:
            more["time_limit_s"] = takes * chance.choice([1.5, 4.0])
        wish = Task(
            id=0, owner=chance.choice("xyz"), command=f"work {chance.choice('pq')}", **chance.choice(WISHES), **more
        )
        jobs.append(Job(chance.uniform(0.0, 12 * HOUR), wish, Run(seconds=takes)))
    return jobs


@settings(max_examples=CASES, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.integers(0, 1 << 30))
def test_of_those_who_come_all_start_in_the_end(seed: int) -> None:
    tasks = Simulation(LAB, arrivals(random.Random(seed), 18)).play()
    assert {task.state for task in tasks} == {TaskState.SUCCEEDED}


@settings(max_examples=CASES // 2, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.integers(0, 1 << 30))
def test_who_asks_for_a_longer_limit_never_starts_earlier_for_it(seed: int) -> None:
    chance = random.Random(seed)
    jobs = sorted(arrivals(chance, 14), key=lambda job: job.at)
    which = chance.randrange(len(jobs))
    limit = jobs[which].wish.time_limit_s or jobs[which].run.seconds * 1.5
    begun = []
    for times in (1.0, 6.0):
        wish = msgspec.structs.replace(jobs[which].wish, time_limit_s=limit * times)
        played = Simulation(LAB, [*jobs[:which], Job(jobs[which].at, wish, jobs[which].run), *jobs[which + 1 :]]).play()
        begun.append(played[which].started_at or 0.0)
    assert begun[1] >= begun[0]


@settings(max_examples=CASES // 2, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.integers(0, 1 << 30))
def test_the_same_things_give_the_same_plan_in_whatever_order_they_are_read(seed: int) -> None:
    chance = random.Random(seed)
    core = busy_lab(chance)
    for task in [one for one in core.tasks.values() if one.state in ACTIVE and chance.random() < 0.4]:
        core.cancel(task.id, NOW)
    lines = [msgspec.json.encode(task) for task in core.tasks.values()]
    plans = []
    for _ in range(2):
        chance.shuffle(lines)
        plans.append(_plan_of(lines, core))
    assert plans[0] == plans[1]


def _plan_of(lines: list[bytes], before: Core) -> object:
    """What the next master decides, half of whose attempts have ended meanwhile."""
    numbers = iter(range(1000))
    core = Core(NODES, lambda task, attempt: f"{task}.{attempt}.{next(numbers)}", licences={"matlab": 2})
    tasks = [msgspec.json.decode(line, type=Task) for line in lines]
    core.load({task.id: task for task in tasks}, {}, before.next_id)
    for node in NODES:
        core.node_state(node.name, NodeState.CONNECTING, None, BOOT)
        parts = [
            part for task in before.tasks.values() if task.state in ACTIVE for part in task.allocation
            if part.node == node.name and not task.is_ending
        ]  # fmt: skip
        core.reconcile(node.name, [Seen(part.launch_id, 5.0) for part in parts], NOW)
        core.node_state(node.name, NodeState.ONLINE)
    core.plan(NOW + 1)
    core.plan(NOW + 7 * HOUR)
    live = [core.tasks[number] for number in sorted(core.tasks) if core.tasks[number].state not in ENDED]
    places = [(task.id, task.state, [(part.node, part.gpus) for part in task.allocation]) for task in live]
    return places, core.reservations, [(task.id, core.reason(task)) for task in core.queue()]
