"""The backlog against a plain sorted list, under any sequence of what can happen to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from master.core.tasks.backlog import Backlog, Order, order_of
from master.core.tasks.request import Demand, Request, demand_of, request_of
from master.core.tasks.task import After, Task, TaskState
from tests.calls import calls_of
from tests.master.core.small_core import core_with, submit

TASKS = st.builds(
    Task,
    id=st.integers(1, 8),
    command=st.just("true"),
    owner=st.sampled_from(["ann", "ben"]),
    gpus=st.integers(0, 2),
    node=st.sampled_from([None, "a"]),
    priority=st.integers(-1, 1),
    urgent=st.booleans(),
    forced=st.booleans(),
    position=st.sampled_from([None, 0.5, 3.5]),
)
STEPS = st.lists(st.one_of(TASKS, st.integers(1, 8), st.just("take")), max_size=60)


@given(STEPS)
def test_each_group_gives_its_tasks_in_the_order_of_the_queue(steps: list[Task | int | str]) -> None:
    backlog = Backlog()
    model: dict[int, Task] = {}
    for step in steps:
        if isinstance(step, Task):
            backlog.add(step)
            model[step.id] = step
        elif isinstance(step, int):
            backlog.discard(step)
            model.pop(step, None)
        elif model:
            head = min(model.values(), key=order_of)
            assert min(backlog.wishes()) == (order_of(head), demand_of(head))
            assert min(backlog.groups()) == (order_of(head), demand_of(head))
            assert next(backlog.following(demand_of(head))).id == head.id
            backlog.discard(head.id)
            del model[head.id]
        heads = {demand: order for order, demand in backlog.groups()}
        for demand in {demand_of(task) for task in model.values()}:
            group = sorted(order_of(task) for task in model.values() if demand_of(task) == demand)
            assert list(backlog.following(demand)) == group
            assert heads.pop(demand) == group[0]
        assert not heads
        firsts: dict[Request, tuple[Order, Demand]] = {}
        for task in sorted(model.values(), key=order_of):
            firsts.setdefault(request_of(task), (order_of(task), demand_of(task)))
        assert sorted(backlog.wishes()) == sorted(firsts.values())
        assert len(backlog) == len(model)
        assert all((number in backlog) == (number in model) for number in range(1, 9))


def test_what_is_first_costs_no_more_in_a_queue_that_grew_task_by_task() -> None:
    def cost_of_next(length: int) -> int:
        backlog = Backlog()
        for number in range(1, length + 1):
            backlog.add(Task(id=number, command="true", owner="ann"))
            assert [order.id for order, _ in backlog.wishes()] == [1]
        backlog.discard(1)
        return calls_of(lambda: list(backlog.wishes()))

    assert cost_of_next(1000) == cost_of_next(10)


def test_who_stands_before_whom() -> None:
    tasks = [
        Task(id=9, command="a", forced=True),
        Task(id=8, command="a", urgent=True, priority=-5),
        Task(id=7, command="a", priority=3),
        Task(id=1, command="a"),
        Task(id=6, command="a", position=1.5),
        Task(id=2, command="a"),
        Task(id=3, command="a", priority=-1),
    ]
    assert sorted(tasks, key=order_of) == tasks


def test_tasks_of_one_demand_are_found_together_those_that_wait_for_more_than_room_alone_and_no_others() -> None:
    core = core_with()
    for gpus in (8, 1, 8, 8, 1, 8):
        submit(core, gpus=gpus)
    submit(core, gpus=1, after=[After(1)])
    core.hold(6)
    core.plan(0.0)
    assert core.tasks[1].state is TaskState.STARTING
    assert list(core.backlog.alike(core.tasks.values()).values()) == [[2, 5], [3, 4], [6], [7]]
    assert core.backlog.alike([core.tasks[1]]) == {}
    assert core.backlog.alike(core.tasks[number] for number in (4, 6)) == {demand_of(core.tasks[3]): [4], 6: [6]}


def test_the_first_of_a_wish_is_looked_for_again_where_something_came_or_went_and_nowhere_else() -> None:
    def cost_of_next(wishes: int) -> int:
        backlog = Backlog()
        for number in range(1, 2 * wishes + 1):
            backlog.add(Task(id=number, command="true", owner="ann", gpus=1 + number % wishes))
        assert [order.id for order, _ in backlog.wishes()] == list(range(1, wishes + 1))
        backlog.discard(1)
        calls = calls_of(backlog.wishes)
        assert [order.id for order, _ in backlog.wishes()] == list(range(2, wishes + 2))
        return calls

    assert cost_of_next(100) == cost_of_next(10)
