"""Whose tasks are whose, found without looking at everybody's."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from master.core.core import Core
from master.core.nodes.inventory import NodeSpec
from master.core.people import owned
from master.core.people.owned import OwnTasks
from master.core.tasks.task import ENDED, Task, TaskState
from wire.errors import MusterError

PEOPLE = ("ann", "bob", "cem")


def crowd() -> Core:
    core = Core((NodeSpec(name="a", gpu_models=("GPU",)),), lambda task, no: f"{task}.{no}")
    for name in PEOPLE:
        core.people.add(name)
    return core


def ids(tasks: Iterable[Task]) -> set[int]:
    return {task.id for task in tasks}


@pytest.mark.parametrize("few", [0, 1000], ids=["what is over is forgotten at once", "as usual"])
@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_each_has_those_of_his_that_are_not_over(
    seed: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owned, "FEW", few)
    chance, core = random.Random(seed), crowd()
    for _ in range(300):
        try:
            _something(core, chance)
        except MusterError:
            continue  # what cannot be done is refused
        if chance.random() < 0.3:
            who = chance.choice(PEOPLE)
            due = {task.id for task in core.tasks.values() if task.owner == who and task.state not in ENDED}
            assert ids(core.tasks_of(who)) == due
        core.sanity_check()


def _something(core: Core, chance: random.Random) -> None:
    number = chance.choice([*core.tasks, 1])
    what = chance.choice(["submit", "submit", "hold", "cancel", "retry", "give", "remove"])
    if what == "submit":
        state = chance.choice([TaskState.WAITING, TaskState.HELD])
        core.submit([Task(id=0, command="true", owner=chance.choice(PEOPLE), state=state)], 1.0)
    elif what == "hold":
        core.hold(number)
    elif what == "cancel":
        core.cancel(number, 2.0, by="ann")
    elif what == "retry":
        core.retry(number)
    elif what == "give":
        core.give_to(number, chance.choice(PEOPLE))
    else:
        core.remove(number, 3.0)


def test_what_is_over_is_forgotten_though_nobody_ever_looks() -> None:
    tasks: dict[int, Task] = {}
    known = OwnTasks(tasks)
    for number in range(1, 20_001):
        tasks[number] = Task(id=number, command="true", owner="ann", state=TaskState.WAITING)
        known.moved(tasks[number])
        tasks.pop(number - 10, None)
    assert known.kept <= 2 * 10 + 2 * owned.FEW
    assert ids(known.of("ann")) == set(range(19_991, 20_001))


def test_of_somebody_nobody_has_heard_of_there_is_nothing() -> None:
    assert crowd().tasks_of("dan") == []
