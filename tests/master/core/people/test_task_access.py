"""For how long the token of an attempt opens, and that people are told of its end; where a task that has one may go."""

from __future__ import annotations

import pytest

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.inventory import NodeSpec
from master.core.tasks.task import TaskState
from tests.faults import says
from tests.master.core.small_core import core_with, launch_of, run, submit
from wire.message import Message, names

WHY = Message("agent_without_tokens")
A, B = (NodeSpec(name=name, gpu_models=("GPU",) * 2) for name in "ab")


def begun(core: Core, token: str = "submit") -> tuple[int, str]:  # noqa: S107
    """A task that was sent to its node; its id and its attempt's."""
    task = submit(core, token=token)
    core.plan(0.0)
    return task.id, launch_of(task)


def held(core: Core, launch_id: str) -> int | None:
    task = core.token_holder(launch_id)
    return None if task is None else task.id


def test_it_opens_from_the_launch_to_the_end_of_the_attempt_and_the_next_attempt_has_another() -> None:
    core = core_with()
    task, launch_id = begun(core)
    assert held(core, launch_id) == task
    core.started("a", launch_id, 2.0, 2.0)
    before = core.people.version
    assert held(core, launch_id) == task
    core.exited("a", Exit(launch_id, "exited", 3.0, 1), 3.0)
    assert (held(core, launch_id), core.people.version) == (None, before + 1)
    core.retry(task)
    core.plan(0.0)
    assert held(core, launch_id) is None
    assert held(core, launch_of(core.tasks[task])) == task


def test_who_wants_the_end_of_a_task_wants_none_that_it_begins_meanwhile() -> None:
    core = core_with()
    task, launch_id = begun(core)
    core.started("a", launch_id, 2.0, 2.0)
    before = core.people.version
    core.cancel(task, 3.0, by="ann")
    assert core.tasks[task].state is TaskState.RUNNING
    assert held(core, launch_id) is None
    assert core.people.version > before


def test_a_task_that_was_given_none_has_none_and_its_end_concerns_nobody() -> None:
    core = core_with()
    before = core.people.version
    _, launch_id = begun(core, token="")
    assert held(core, launch_id) is None
    run(core, submit(core))
    assert core.people.version == before


@pytest.mark.parametrize("lost", ["given up", "not started", "unknown"])
def test_it_opens_nothing_where_the_attempt_is_over_by_other_ways(lost: str) -> None:
    core = core_with()
    _, launch_id = begun(core)
    if lost == "given up":
        core.forget_facts("a")
        core.give_up("a", "ann", 3.0)
    elif lost == "not started":
        core.exited("a", Exit(launch_id, "not_started", 3.0, error="no", fault="node"), 3.0)
    else:
        core.started("a", launch_id, 2.0, 2.0)
        core.reconcile("a", [], 3.0)
    assert held(core, launch_id) is None


def test_it_goes_only_where_it_can_get_one_and_else_says_why_it_waits() -> None:
    core = core_with(A, B)
    core.tokens_told("a", WHY)
    task, other = submit(core, token="submit", gpus=1), submit(core, gpus=1, node="a")  # noqa: S106
    core.plan(0.0)
    assert [part.node for part in (*task.allocation, *other.allocation)] == ["b", "a"]
    core.tokens_told("b", WHY)
    waiting = submit(core, token="submit", gpus=1)  # noqa: S106
    bound = submit(core, token="submit", gpus=1, node="a")  # noqa: S106
    core.plan(0.0)
    assert [task.state for task in (waiting, bound)] == [TaskState.WAITING] * 2
    assert says(core.why_it_waits(waiting), "obstacle", nodes=names(["a", "b"]))
    assert says(core.why_it_waits(bound), WHY.key)
    core.tokens_told("a", None)
    core.plan(0.0)
    assert waiting.state is TaskState.STARTING
    assert bound.state is TaskState.WAITING, "the other GPU of it is taken"
    assert core.why_it_waits(bound) is not None
