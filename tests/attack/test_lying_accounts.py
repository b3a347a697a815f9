"""After records were lost the agent of one user's account may tell of attempts that nobody knows: it is believed about
that account's tasks, and about nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from master.core.attempts.exits import Seen
from master.core.core import Core
from master.core.effects import Kill
from master.core.tasks.task import Task, TaskState
from tests.master.core.nodes.test_accounts import lab_with, up
from tests.master.core.small_core import submit
from wire.errors import ConflictError, NotFoundError

LIS, WANGS = 3, 4


@pytest.fixture
def core() -> Core:
    """A lab that lost records, and has a waiting task each of li and wang. li's agent has the account li2."""
    core = lab_with()
    for name in ("li", "wang", "deng"):
        core.people.add(name)
    tasks = [
        Task(id=LIS, command="train", owner="li", gpus=1, state=TaskState.HELD),
        Task(id=WANGS, command="train", owner="wang", gpus=1, state=TaskState.HELD),
    ]
    core.load({task.id: task for task in tasks}, {}, 9)
    core.end_access()
    up(core, "li2")
    for task in tasks:
        core.release(task.id)
    core.take_outcome()
    return core


def tell(core: Core, task_id: int, gpus: str | None = "0", **more: Any) -> str:
    """The agent of li's account says that an attempt of this task runs."""
    launch = f"{task_id}.1.x"
    core.reconcile("a", [Seen(launch, 4.0, pid=7, pid_start=8, gpus=gpus, log="/logs/3.log", **more)], 5.0, "li2")
    return launch


def adopt(core: Core, launch: str) -> Task:
    return core.adopt("a", launch, None, by="ada", now=9.0, log_folder="/logs")


def test_it_holds_no_task_of_another_user(core: Core) -> None:
    tell(core, WANGS)
    assert core.tasks[WANGS].state is TaskState.WAITING
    tell(core, LIS)
    assert core.tasks[LIS].state is TaskState.HELD


def test_what_is_adopted_of_it_is_no_task_of_another_user(core: Core) -> None:
    task = adopt(core, tell(core, WANGS, run_as="wang", log_path="/logs/wang/4.log"))
    assert core.tasks[WANGS].state is TaskState.WAITING
    assert (task.id, task.owner, task.allocation[0].run_as, task.log_path) == (9, "li", "", "/logs/4.log")
    assert Kill("a", "4.1.x", "li2") not in getattr(core.take_outcome(), "effects", [])


def test_its_own_is_adopted_as_the_task_that_waits_for_it(core: Core) -> None:
    task = adopt(core, tell(core, LIS))
    assert task is core.tasks[LIS]
    assert task.state is TaskState.RUNNING


def test_of_two_agents_with_one_attempt_nobody_acts_on_the_wrong_one(core: Core) -> None:
    launch = tell(core, LIS)
    core.reconcile("a", [Seen(launch, 6.0, pid=9, pid_start=10, gpus="1", log="/logs/3.log")], 6.0)  # the node's own
    actions: dict[str, Callable[..., Any]] = {
        "adopt": lambda **which: core.adopt("a", launch, None, by="ada", now=9.0, log_folder="/logs", **which),
        "end": lambda **which: core.end_unknown("a", launch, "ada", **which),
        "dismiss": lambda **which: core.dismiss_unknown("a", launch, "ada", **which),
    }
    for name, act in actions.items():
        with pytest.raises(ConflictError, match=r'li2 and ""') as refused:
            act()
        assert refused.value.key == "unknown_is_several", name
        with pytest.raises(NotFoundError):
            act(account="deng2")
    assert core.end_unknown("a", launch, "ada", "").login == ""
    assert Kill("a", launch) in core.take_outcome().effects  # type: ignore[union-attr]
    assert core.adopt("a", launch, None, by="ada", now=9.0, log_folder="/logs", account="li2") is core.tasks[LIS]
    assert core.tasks[LIS].allocation[0].login == "li2"


def test_it_closes_the_node_to_nobody_else(core: Core) -> None:
    tell(core, LIS, gpus=None)
    node = core.inventory.nodes["a"]
    assert node.takes_tasks
    chiefs = submit(core, owner="chief", gpus=1)
    lis = submit(core, owner="li", gpus=1)
    core.plan(6.0)
    assert (chiefs.state, lis.state) == (TaskState.STARTING, TaskState.WAITING)
    assert "muster node attempts a" in str(core.why_it_waits(lis))
    core.reconcile("a", [], 7.0, "li2")
    core.plan(7.0)
    assert lis.state is TaskState.STARTING
