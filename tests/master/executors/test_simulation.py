"""The core in simulated time: what would happen, without waiting for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from master.core.nodes.inventory import NodeSpec
from master.core.tasks.task import ENDED, After, Task, TaskState
from master.executors.memory import Run
from master.executors.simulation import Job, Simulation

HOUR = 3600.0


def job(at: float, seconds: float, *, gpus: int = 1, code: int = 0, priority: int = 0, after: int | None = None) -> Job:
    predecessors = [After(after)] if after is not None else []
    wish = Task(id=0, command="train", gpus=gpus, priority=priority, after=predecessors)
    return Job(at, wish, Run(seconds, code))


def nodes(*gpus: int) -> tuple[NodeSpec, ...]:
    return tuple(NodeSpec(name=f"n{place}", gpu_models=("GPU",) * count) for place, count in enumerate(gpus, 1))


def waits(tasks: Iterable[Task]) -> Iterator[float]:
    """How long each task that was begun had waited, in seconds."""
    return (task.started_at - task.submitted_at for task in tasks if task.started_at is not None)


def most_at_once(tasks: Iterable[Task]) -> int:
    """How many GPUs were held at the same time at most, by tasks that have ended."""
    edges: list[tuple[float, int]] = []
    for task in tasks:
        if task.state in ENDED and task.started_at is not None and task.ended_at is not None:
            held = sum(len(part.gpus) for part in task.allocation)
            edges += [(task.started_at, held), (task.ended_at, -held)]
    return max(accumulate((held for _, held in sorted(edges)), initial=0))


def test_three_trainings_on_one_gpu_come_one_after_the_other_and_a_higher_priority_goes_first() -> None:
    simulation = Simulation(nodes(1), [job(0, HOUR), job(1, HOUR), job(2, HOUR, priority=1)])
    tasks = simulation.play()
    assert [(task.started_at, task.ended_at) for task in tasks] == [(0, 3600), (7200, 10800), (3600, 7200)]
    assert list(waits(tasks)) == [0, 7199, 3598]
    assert most_at_once(tasks) == 1


def test_a_chain_breaks_where_a_predecessor_fails() -> None:
    simulation = Simulation(nodes(4), [job(0, 60), job(0, 60, code=1, after=1), job(0, 60, after=2)])
    states = [task.state for task in simulation.play()]
    assert states == [TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED]
    assert simulation.now == 120


def test_time_can_be_stopped_where_somebody_wants_to_look() -> None:
    simulation = Simulation(nodes(1), [job(0, HOUR), job(0, HOUR)])
    simulation.advance(HOUR / 2)
    assert [task.state for task in simulation.core.tasks.values()] == [TaskState.RUNNING, TaskState.WAITING]
    assert simulation.core.reason(simulation.core.tasks[2]) == "needs 1 GPU: n1: 0 of 1 GPUs free (task 1)"
    simulation.core.cancel(1, simulation.now)
    assert simulation.play()[1].ended_at == HOUR / 2 + HOUR


def test_a_month_of_a_lab_passes_in_a_moment_and_comes_to_its_end() -> None:
    jobs = [job(600.0 * number, 300.0 * (number % 40), gpus=number % 5, priority=number % 3) for number in range(4000)]
    tasks = Simulation(nodes(8, 8, 4), jobs).play()
    assert len(tasks) == 4000
    assert {task.state for task in tasks} == {TaskState.SUCCEEDED}
    assert most_at_once(tasks) <= 20


JOBS = st.lists(
    st.builds(
        job,
        st.integers(0, 50),
        st.integers(0, 50),
        gpus=st.integers(0, 3),
        code=st.integers(0, 1),
        priority=st.integers(-1, 1),
    ),
    max_size=30,
)


@given(JOBS, st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda sizes: max(sizes) >= 3))
def test_whatever_is_submitted_ends_and_no_gpu_has_two_at_once(jobs: list[Job], sizes: list[int]) -> None:
    tasks = Simulation(nodes(*sizes), jobs).play()
    assert len(tasks) == len(jobs)
    assert all(task.state in ENDED for task in tasks)
    held: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for task in tasks:
        assert task.started_at is not None
        assert task.ended_at is not None
        for part in task.allocation:
            for gpu in part.gpus:
                held.setdefault((part.node, gpu), []).append((task.started_at, task.ended_at))
    for spans in held.values():
        assert all(before[1] <= behind[0] for before, behind in pairwise(sorted(spans)))


def test_simulated_time_passes_to_when_a_task_begins_and_over_the_pauses_before_it_is_tried_again() -> None:
    late = Task(id=0, command="train", gpus=1, begin_at=HOUR)
    again = Task(id=0, command="train", gpus=1, max_retries=2)
    simulation = Simulation(nodes(1), [Job(0, late, Run(60)), Job(0, again, Run(60, 1))])
    begun, tried = simulation.play()
    assert (begun.state, begun.started_at) == (TaskState.SUCCEEDED, HOUR)
    assert [attempt.started_at for attempt in tried.attempts] == [0, 70, 150]
    assert (tried.state, tried.retries, tried.ended_at) == (TaskState.FAILED, 2, 210)


def test_an_elastic_task_gives_way_and_grows_in_simulated_time_too() -> None:
    elastic = Task(id=0, command="train", gpus=1, gpus_max=4, elastic=True, checkpoint="out/*")
    simulation = Simulation(nodes(4), [Job(0, elastic, Run(2 * HOUR)), job(700, 60, gpus=3)])
    grown, waiter = simulation.play()
    assert [[part.gpus for part in attempt.parts] for attempt in grown.attempts] == [
        [[0, 1, 2, 3]],
        [[0]],
        [[0, 1, 2, 3]],
    ]
    assert (waiter.started_at, waiter.state) == (700, TaskState.SUCCEEDED)
    assert (grown.state, grown.resizes, grown.retries) == (TaskState.SUCCEEDED, 2, 0)
    assert [attempt.started_at for attempt in grown.attempts] == [0, 700, 1300]
    assert grown.ran_s == 1300
