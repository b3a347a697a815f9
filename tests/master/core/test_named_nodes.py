"""On which nodes a task runs that names them: any of a list, so many of it at once, or exact GPUs on each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.attempts.exits import Exit
from master.core.nodes.inventory import NodeSpec, request_of
from master.core.tasks.task import Task, TaskState
from tests.faults import refusing
from tests.master.core.small_core import core_with, launch_of, run, submit
from wire.errors import ImpossibleError
from wire.message import Message, names

ALL, A_AND_B, A, B = (names(some) for some in ("abcd", "ab", "a", "b"))
LAB = tuple(NodeSpec(name=name, gpu_models=("GPU",) * 4) for name in "abcd")


def places(task: Task) -> dict[str, list[int]]:
    return {part.node: part.gpus for part in task.allocation}


def test_a_task_runs_on_one_of_the_nodes_that_it_names_and_on_no_other() -> None:
    core = core_with(*LAB)
    full = submit(core, gpus=4, node="c")
    core.plan(1.0)
    either, neither = submit(core, gpus=4, node_list=["c", "b"]), submit(core, gpus=4, node_list=["c", "b"])
    core.plan(2.0)
    assert places(either) == {"b": [0, 1, 2, 3]}
    assert neither.state is TaskState.WAITING
    told = str(core.reason(neither))
    assert "4 GPUs on one of c, b" in told
    assert f"tasks {full.id}-{either.id}" in told, "both stand in the way, and nothing is said of a and d"


def test_a_gang_takes_so_many_of_the_nodes_that_it_names() -> None:
    core = core_with(*LAB)
    submit(core, gpus=4, node="b")
    core.plan(1.0)
    task = submit(core, gpus=2, nodes=2, node_list=["b", "d", "a"])
    core.plan(2.0)
    assert set(places(task)) == {"a", "d"}
    third = submit(core, gpus=3, nodes=2, node_list=["b", "d", "a"])
    core.plan(3.0)
    assert third.state is TaskState.WAITING
    assert "3 GPUs on each of 2 of b, d, a" in str(core.reason(third))


def test_where_all_that_are_named_are_wanted_the_first_one_is_rank_0() -> None:
    core = core_with(*LAB)
    named = submit(core, gpus=1, nodes=3, node_list=["d", "b", "c"])
    exact = submit(core, gpus=1, nodes=2, gpus_on={"c": [3], "a": [0]})
    core.plan(1.0)
    assert [part.node for part in named.allocation] == ["d", "b", "c"]
    assert [(part.node, part.gpus) for part in exact.allocation] == [("c", [3]), ("a", [0])]


def test_exact_gpus_of_each_node_are_waited_for_and_no_others_are_taken() -> None:
    core = core_with(*LAB)
    holder = submit(core, gpus=1, node="b", gpu_ids=[2])
    core.plan(1.0)
    task = submit(core, gpus=2, nodes=2, gpus_on={"a": [0, 1], "b": [2, 3]})
    core.plan(2.0)
    assert task.state is TaskState.WAITING, "all or nothing, though a has its two"
    assert str(core.reason(task)).startswith("needs GPU 0, 1 on node a and GPU 2, 3 on node b: ")
    assert f"b: GPU 2 held (task {holder.id})" in [str(one) for one in core.wait(task).obstacles]
    run(core, holder)
    core.plan(4.0)
    assert places(task) == {"a": [0, 1], "b": [2, 3]}


def test_a_forced_one_keeps_just_the_gpus_that_it_names() -> None:
    core = core_with(*LAB[:2])
    small = [submit(core, gpus=1, node=name, gpu_ids=[0]) for name in "ab"]
    core.plan(1.0)
    task = submit(core, gpus=1, nodes=2, gpus_on={"a": [0], "b": [0]})
    core.force(task.id)
    core.plan(2.0)
    assert {place.node: place.gpus for place in core.reservations[0].places} == {"a": [0], "b": [0]}
    behind, beside = submit(core, gpus=1, gpu_ids=[0]), submit(core, gpus=3, node="a")
    core.plan(3.0)
    assert (behind.state, beside.state) == (TaskState.WAITING, TaskState.STARTING)
    for one in small:  # without a plan between: by then it is known how long its like takes, and that it may pass
        core.started(one.allocation[0].node, launch_of(one), 2.0, 2.0)
        core.exited(one.allocation[0].node, Exit(launch_of(one), "exited", 4.0, 0), 4.0)
    core.plan(5.0)
    assert (task.state, behind.state) == (TaskState.STARTING, TaskState.WAITING)


@pytest.mark.parametrize(
    ("wants", "why"),
    [
        (
            {"gpus": 1, "node_list": ["a", "x"], "nodes": 2},
            Message("no_such_node", node="x", nodes=ALL),
        ),
        (
            {"gpus": 5, "node_list": ["a", "b"]},
            Message("has", amount=Message("amount", count=4, unit="GPU"), nodes=A_AND_B),
        ),
        (
            {"gpus": 1, "nodes": 2, "gpus_on": {"a": [0], "b": [4]}},
            Message("has_no_piece", unit="GPU", number=4, last=3, nodes=B),
        ),
        (
            {"gpus": 1, "nodes": 2, "node_list": ["a", "b"], "exclude": ["a"]},
            Message("is_excluded", nodes=A),
        ),
    ],
)
def test_what_the_named_nodes_could_never_give_is_refused(wants: dict[str, object], why: Message) -> None:
    core = core_with(*LAB)
    with refusing(ImpossibleError, why.key, **why.args):
        submit(core, **wants)


def test_one_that_waits_goes_on_with_the_nodes_that_are_left_when_one_is_taken_out() -> None:
    core = core_with(*LAB)
    blocker = submit(core, gpus=4, node="a")
    core.plan(1.0)
    task = submit(core, gpus=4, node_list=["a", "b"])
    core.drain("b", "why", "ann", 1.0)
    core.plan(2.0)
    core.set_nodes(LAB[:1] + LAB[2:])
    core.plan(3.0)
    assert task.state is TaskState.WAITING
    run(core, blocker)
    core.plan(4.0)
    assert places(task) == {"a": [0, 1, 2, 3]}


WISHES = st.fixed_dictionaries(
    {},
    optional={
        "node": st.sampled_from("ab"),
        "node_list": st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True),
        "gpus_on": st.dictionaries(st.sampled_from("ab"), st.lists(st.integers(0, 3), min_size=1, max_size=2)),
        "exclude": st.lists(st.sampled_from("cd"), unique=True),
        "licences": st.dictionaries(st.sampled_from("xy"), st.integers(1, 2)),
    },
)


@given(st.lists(WISHES, min_size=2, max_size=5))
def test_what_is_asked_is_what_each_says_whatever_others_said_before(wishes: list[dict[str, Any]]) -> None:
    for wish in wishes:
        task = Task(id=1, command="x", gpus=1, **wish)
        asked = request_of(msgspec.json.decode(msgspec.json.encode(task), type=Task))
        exact = wish.get("gpus_on", {})
        listed = wish.get("node_list", []) or [name for name in [wish.get("node")] if name]
        assert asked.only == tuple(exact or listed)
        assert {name: list(gpus) for name, gpus in asked.gpus_on} == exact
        assert asked.exclude == tuple(sorted(wish.get("exclude", [])))
        assert {need.resource: need.amount for need in asked.shared} == {
            f"licence {name}": count for name, count in wish.get("licences", {}).items()
        }
