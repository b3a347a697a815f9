"""What was announced of a reservation comes true: while tasks end within their limits, it starts by then."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from master.core.nodes.inventory import NodeSpec
from master.core.tasks.task import ACTIVE, Task, TaskState
from master.executors.memory import Run
from master.executors.simulation import Job, Simulation
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
    {"gpus": 1, "node_list": ["b", "c"]}, {"gpus": 2, "gpu_ids": [0, 1], "node": "a"}, {"gpus": 1, "cpus": 33},
)  # fmt: skip


def arrivals(chance: random.Random) -> list[Job]:
    """Tasks of one class that end within their limits, and of which nothing is learned, since all of them fail."""
    jobs = []
    for _ in range(chance.randrange(6, 20)):
        limit = chance.choice([600.0, HOUR, 5 * HOUR])
        wish = Task(id=0, command="work", time_limit_s=limit, **chance.choice(WISHES))
        jobs.append(
            Job(chance.uniform(0.0, 6 * HOUR), wish, Run(seconds=limit * chance.choice([0.1, 0.7, 0.99]), code=1))
        )
    return jobs


@settings(max_examples=CASES, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.integers(0, 1 << 30))
def test_a_reserved_task_starts_by_the_time_that_was_announced(seed: int) -> None:
    chance = random.Random(seed)
    simulation = Simulation(LAB, arrivals(chance))
    core, announced = simulation.core, dict[int, float]()
    core.tuning.set("scheduler.reserve_after", chance.choice([0.0, 600.0, HOUR]), "ann", 0.0)
    while (at := simulation.next_at) is not None:
        simulation.advance(at)
        kept = {hold.task: hold.until for hold in core.holds.values()}
        waits = {number for number in announced if core.tasks[number].state is TaskState.WAITING}
        assert waits <= kept.keys(), "nobody of its class displaces it"
        for number, until in kept.items():
            assert until is not None, "each holder has a limit"
            known = announced.setdefault(number, until)
            assert until <= known + 1e-6, f"task {number} was to start by {known}, and then by {until}"
        for number, until in announced.items():
            task = core.tasks[number]
            assert task.state is not TaskState.WAITING or simulation.now <= until + 1e-6
            assert task.started_at is None or task.started_at <= until + 1e-6
    assert not [task for task in core.tasks.values() if task.state in ACTIVE]
