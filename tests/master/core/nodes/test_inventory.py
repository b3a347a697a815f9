"""The ledger: what is held, what is free, and why something can never be."""

from __future__ import annotations

import pytest

from master.core.nodes.inventory import Facts, Inventory, Node, NodeSpec, NodeState, request_of
from master.core.tasks.attempt import Part
from master.core.tasks.task import Task
from wire.message import Message, names

FOUR = NodeSpec(name="a", gpu_models=("GPU",) * 4)
FACTS = Facts(boot_id="b", state_id="s", cpus=8, memory_mib=1000)
ONLY_A = names(["a"])


def amount(count: int, unit: str) -> Message:
    return Message("amount", count=count, unit=unit)


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
    ("wants", "has"),
    [
        ({"gpus": 5}, Message("has", amount=amount(4, "GPU"), nodes=ONLY_A)),
        ({"gpus": 1, "gpu_ids": [4]}, Message("has_no_piece", unit="GPU", number=4, last=3, nodes=ONLY_A)),
        ({"node": "b"}, Message("no_such_node", node="b", nodes=ONLY_A)),
        ({"node": "a", "gpus": 9}, Message("has", amount=amount(4, "GPU"), nodes=ONLY_A)),
        ({"cpus": 9}, Message("has", amount=amount(8, "CPU"), nodes=ONLY_A)),
    ],
)
def test_what_can_never_be_is_said_with_what_there_is(wants: dict[str, object], has: Message) -> None:
    inventory = Inventory((FOUR,))
    inventory.nodes["a"].facts = FACTS
    request = request_of(Task(id=1, command="true", **wants))  # type: ignore[arg-type]
    why = inventory.why_never(request)
    assert why is not None
    assert has in (why, *_values(why, "beyond"))


def _values(message: Message, name: str) -> tuple[object, ...]:
    values = message.args.get(name, ())
    return values if isinstance(values, tuple) else (values,)


def test_without_nodes_nothing_can_ever_start() -> None:
    assert Inventory().why_never(request_of(task())) == Message("no_nodes")


def test_cpus_that_nobody_knows_yet_are_no_reason_to_refuse() -> None:
    assert Inventory((FOUR,)).why_never(request_of(task(cpus=500))) is None
