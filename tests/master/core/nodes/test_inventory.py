"""The ledger: what is held, what is free, and why something can never be."""

from __future__ import annotations

import pytest

from master.core.nodes.inventory import Facts, Inventory, Node, NodeSpec, NodeState, request_of
from master.core.tasks.attempt import Part
from master.core.tasks.task import Task

FOUR = NodeSpec(name="a", gpu_models=("GPU",) * 4)
FACTS = Facts(boot_id="b", state_id="s", cpus=8, memory_mib=1000)


def task(number: int = 1, gpus: list[int] | None = None, **wants: object) -> Task:
    held = [Part("a", gpus or [])]
    return Task(id=number, command="true", gpus=len(gpus or []), allocation=held, **wants)  # type: ignore[arg-type]


def test_what_is_taken_and_given_back_leaves_nothing() -> None:
    inventory = Inventory((FOUR,))
    node = inventory.nodes["a"]
    tasks = [task(1, [2, 0]), task(2, [3], cpus=2), task(3), task(4, cpus=3)]
    for one in tasks:
        inventory.take(one)
    assert (node.free_gpus, node.gpu_holders) == ([1], {2: {1: None}, 0: {1: None}, 3: {2: None}})
    assert (node.held["slots"], node.held["cpus"], node.active) == (1, 5, {1, 2, 3, 4})
    for one in tasks:
        inventory.give_back(one)
    assert (node.free_gpus, node.gpu_holders) == ([0, 1, 2, 3], {})
    assert (node.held["slots"], node.held["cpus"], node.active) == (0, 0, set())


def test_a_gpu_is_never_booked_twice_and_a_refused_booking_changes_nothing() -> None:
    inventory = Inventory((FOUR,))
    node = inventory.nodes["a"]
    inventory.take(task(1, [1]))
    with pytest.raises(ValueError, match="GPU 1 of a is held by task 1, not free for 2"):
        inventory.take(task(2, [0, 1], cpus=2))
    assert (node.free_gpus, node.gpu_holders, node.held, node.active) == ([0, 2, 3], {1: {1: None}}, {}, {1})


def test_a_node_that_left_the_registry_keeps_what_runs_there_and_takes_nothing_new() -> None:
    inventory = Inventory((FOUR,))
    inventory.take(Task(id=1, command="true", gpus=1, allocation=[Part("gone", [0])]))
    node = inventory.nodes["gone"]
    assert not node.takes_tasks
    assert node.gpu_holders == {0: {1: None}}
    assert "registry" in (node.reason or "")


def test_a_node_takes_tasks_only_online_and_where_it_may() -> None:
    node = Node(FOUR)
    assert not node.takes_tasks
    node.state = NodeState.ONLINE
    assert node.takes_tasks
    closed = Node(NodeSpec(name="b", schedulable=False))
    closed.state = NodeState.ONLINE
    assert not closed.takes_tasks


def test_cpus_and_slots_are_the_registrys_word_or_else_the_machines() -> None:
    node = Node(FOUR)
    assert (node.cpus, node.slots) == (0, 0)
    node.facts = FACTS
    assert (node.cpus, node.slots) == (8, 8)
    told = Node(NodeSpec(name="b", cpus=3, slots=5))
    told.facts = FACTS
    assert (told.cpus, told.slots) == (3, 5)


@pytest.mark.parametrize(
    ("wants", "says"),
    [
        ({"gpus": 5}, "it asks for 5 GPUs, but node a has 4 GPUs"),
        ({"gpus": 1, "gpu_ids": [4]}, "it asks for GPU 4, but node a has no GPU 4 (only 0 to 3)"),
        ({"node": "b"}, "there is no node 'b' (nodes: a)"),
        ({"node": "a", "gpus": 9}, "it asks for 9 GPUs on node a, but node a has 4 GPUs"),
        ({"cpus": 9}, "it asks for 9 CPUs, but node a has 8 CPUs"),
    ],
)
def test_what_can_never_be_is_said_with_what_there_is(wants: dict[str, object], says: str) -> None:
    inventory = Inventory((FOUR,))
    inventory.nodes["a"].facts = FACTS
    request = request_of(Task(id=1, command="true", **wants))  # type: ignore[arg-type]
    assert str(inventory.why_never(request)) == says


def test_without_nodes_nothing_can_ever_start() -> None:
    assert "muster node add" in str(Inventory().why_never(request_of(task())))


def test_cpus_that_nobody_knows_yet_are_no_reason_to_refuse() -> None:
    assert Inventory((FOUR,)).why_never(request_of(task(cpus=500))) is None
