"""Allocations that are held and get more GPUs, or give some back."""

from __future__ import annotations

import msgspec
import pytest

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.inventory import NodeSpec
from master.core.people.quota import Quota
from master.core.tasks.task import Task, TaskState
from tests.faults import refusing
from tests.master.core.small_core import core_with, launch_of, submit
from wire.errors import ConflictError

FOUR = NodeSpec(name="a", gpu_models=("A100",) * 4)
TWO = NodeSpec(name="b", gpu_models=("A100",) * 2)


def allocated(core: Core, gpus: int = 2, **wants: object) -> Task:
    task = submit(core, **{"name": "exp", "is_allocation": True, "gpus": gpus, **wants})
    core.plan(10.0)
    return task


def gpus_of(task: Task) -> list[list[int]]:
    return [part.gpus for part in task.allocation]


def test_it_grows_on_its_node_and_the_tasks_within_use_that() -> None:
    core = core_with(FOUR)
    exp = allocated(core)
    within = submit(core, gpus=2, within=exp.id)
    more = submit(core, gpus=1, within=exp.id)
    core.plan(11.0)
    assert more.state is TaskState.WAITING
    core.grow_allocation(exp.id, 1)
    assert core.plan_needed, "nothing else need happen for those within to start"
    core.plan(12.0)
    assert (gpus_of(exp), exp.gpus) == ([[0, 1, 2]], 3)
    assert gpus_of(more) == [[2]]
    assert gpus_of(within) == [[0, 1]]


def test_who_waits_for_no_gpu_keeps_none_from_it() -> None:
    core = core_with(FOUR)
    exp = allocated(core)
    submit(core, gpus=0, cpus=4)
    waits = submit(core, gpus=0, cpus=4)
    core.plan(11.0)
    assert waits.state is TaskState.WAITING
    core.grow_allocation(exp.id, 1)
    assert gpus_of(exp) == [[0, 1, 2]]


def test_what_is_given_back_goes_to_who_waits() -> None:
    core = core_with(FOUR)
    exp = allocated(core, 4)
    within = submit(core, gpus=1, within=exp.id)
    other = submit(core, gpus=2)
    core.plan(11.0)
    core.shrink_allocation(exp.id, 2)
    core.plan(12.0)
    assert gpus_of(exp) == [[0, 1]]
    assert gpus_of(other) == [[2, 3]]
    assert gpus_of(within) == [[0]]


def test_those_in_use_stay_whichever_they_are() -> None:
    core = core_with(FOUR)
    exp = allocated(core, 4)
    first, last = submit(core, gpus=3, within=exp.id), submit(core, gpus=1, within=exp.id)
    core.plan(11.0)
    core.started("a", launch_of(first), 12.0, 12.0)
    core.exited("a", Exit(launch_of(first), "exited", 13.0, 0), 13.0)
    core.shrink_allocation(exp.id, 3)
    assert gpus_of(exp) == gpus_of(last) == [[3]]


@pytest.mark.parametrize(
    ("count", "told"), [(4, "no GPU left"), (5, "no GPU left"), (3, "could never start"), (2, "not in use")]
)
def test_no_more_is_given_back_than_nobody_needs(count: int, told: str) -> None:
    core = core_with(FOUR)
    exp = allocated(core, 4)
    submit(core, gpus=3 if count == 2 else 1, within=exp.id)
    core.plan(11.0)
    submit(core, gpus=2, within=exp.id, state=TaskState.HELD)
    with pytest.raises(ConflictError, match=told):
        core.shrink_allocation(exp.id, count)
    assert gpus_of(exp) == [[0, 1, 2, 3]]


def test_it_does_not_grow_past_those_who_wait_a_quota_or_what_there_is() -> None:
    core = core_with(FOUR)
    core.people.add("ann")
    exp = allocated(core, owner="ann")
    with pytest.raises(ConflictError, match="2 of 3 GPUs more"):
        core.grow_allocation(exp.id, 3)
    core.people.edit("ann", quota=Quota(max_total_gpus=3))
    with pytest.raises(ConflictError, match="come to 3 GPUs"):
        core.grow_allocation(exp.id, 2)
    waits = submit(core, gpus=3)
    core.plan(11.0)
    with pytest.raises(ConflictError, match="others wait"):
        core.grow_allocation(exp.id, 1)
    core.cancel(waits.id, 12.0)
    core.grow_allocation(exp.id, 1)
    assert gpus_of(exp) == [[0, 1, 2]]


def test_on_several_nodes_it_grows_on_each_or_not_at_all() -> None:
    core = core_with(FOUR, TWO)
    exp = allocated(core, 1, nodes=2)
    with pytest.raises(ConflictError, match="node b: 1 of 2"):
        core.grow_allocation(exp.id, 2)
    assert sorted(map(len, gpus_of(exp))) == [1, 1]
    core.grow_allocation(exp.id, 1)
    assert sorted(map(len, gpus_of(exp))) == [2, 2]
    core.shrink_allocation(exp.id, 1)
    assert sorted(map(len, gpus_of(exp))) == [1, 1]


def test_one_that_is_not_held_or_is_about_to_end_keeps_its_size() -> None:
    core = core_with(FOUR)
    first = allocated(core, 4)
    waits = allocated(core, 2, name="later")
    with refusing(ConflictError, "allocation_not_held", name="later", id=waits.id):
        core.shrink_allocation(waits.id, 1)
    submit(core, gpus=1, within=first.id)
    core.plan(11.0)
    core.release_allocation(first.id, "ann", 12.0, wait=True)
    for change in (core.grow_allocation, core.shrink_allocation):
        with pytest.raises(ConflictError, match="about to end"):
            change(first.id, 1)


def test_its_size_outlives_the_master_and_is_what_it_asks_for_again() -> None:
    core = core_with(FOUR)
    exp = allocated(core, 2, gpu_ids=[0, 1])
    core.grow_allocation(exp.id, 1)
    fresh = core_with(FOUR, online=False)
    fresh.load({exp.id: msgspec.json.decode(msgspec.json.encode(exp), type=Task)}, {}, 2)
    fresh.sanity_check()
    assert gpus_of(fresh.tasks[exp.id]) == [[0, 1, 2]]
    core.release_allocation(exp.id, "ann", 12.0)
    core.retry(exp.id)
    core.plan(13.0)
    assert len(exp.allocation[0].gpus) == 3
