"""What is found of nodes that are alike is remembered, and holds only for what it was found for."""

from __future__ import annotations

import pytest

from master.core.nodes.inventory import Inventory, NodeSpec, NodeState
from master.core.nodes.resources import FreeNode
from master.core.planning.availability import Availability
from master.core.planning.forecast import Forecast, Hold
from master.core.planning.free_nodes import FreeNodes
from master.core.planning.reservations import Reserving
from master.core.tasks.backlog import order_of
from master.core.tasks.request import demand_of, request_of
from master.core.tasks.task import Task
from tests.calls import calls_of
from tests.master.core.small_core import BOOT

MODELS = ("A100",) * 4


def inventory_of(count: int) -> Inventory:
    """So many nodes of four GPUs, online."""
    inventory = Inventory(tuple(NodeSpec(name=f"n{at}", gpu_models=MODELS) for at in range(count)))
    for node in inventory.nodes.values():
        node.state, node.facts = NodeState.ONLINE, BOOT
        node.count_free()
    return inventory


def hold(*gpus: int, cpus: int = 4) -> Hold:
    return Hold(1, frozenset(gpus), {"cpus": cpus}, None, ())


def test_a_task_beside_a_reservation_gets_other_gpus_than_are_reserved_whatever_others_got_there() -> None:
    inventory = inventory_of(1)
    free, request = FreeNodes(inventory), request_of(Task(id=2, command="true", gpus=1, cpus=1, gpu_models=["A100"]))
    for kept in (hold(0), hold(0, 1), hold(0), hold(), hold(2), hold(0, 1)):
        alone = hold(*kept.gpus)
        due = FreeNode(inventory.nodes["n0"]).take(request.needs, alone)
        taken = free.take(0, request, kept)
        assert list(taken.gpus) == due["gpus"]
        assert kept.spare == alone.spare == {"cpus": 3}, "what is left over gets less each time"
        free.give_back()


@pytest.mark.parametrize("cpus", [0, 1, 2])
def test_what_fits_beside_a_reservation_depends_on_its_gpus_and_on_what_it_leaves_over_now(cpus: int) -> None:
    inventory = inventory_of(1)
    kind, request = FreeNodes(inventory).kind_at(0), request_of(Task(id=2, command="true", gpus=2, cpus=2))
    for _ in range(2):
        for kept in (hold(0, cpus=cpus), hold(0, 1, 2, cpus=cpus), hold(cpus=cpus)):
            due = FreeNode(inventory.nodes["n0"]).fits(request.needs, kept)
            assert kind.fits_beside(request, kept) is due is (cpus == 2 and len(kept.gpus) < 3)


def test_to_take_beside_a_reservation_costs_less_where_another_did() -> None:
    free, request = FreeNodes(inventory_of(2)), request_of(Task(id=2, command="true", gpus=1, gpu_models=["A100"]))
    first = calls_of(lambda: free.take(0, request, hold(0)))
    assert calls_of(lambda: free.take(1, request, hold(0))) < first / 2


def test_where_enough_nodes_are_free_no_other_is_looked_at_for_a_reservation() -> None:
    inventory = inventory_of(50)
    task = Task(id=1, command="true", gpus=1, nodes=2)
    reserving = Reserving(Forecast({1: task}, lambda _task: None, 1.0), inventory, most=1)
    nodes = iter(inventory.nodes.values())
    assert reserving.reserve(order_of(task), request_of(task), nodes)
    assert list(reserving.holds) == ["n0", "n1"]
    assert next(nodes).name == "n2"


def test_of_what_is_kept_on_many_nodes_for_one_task_until_one_time_one_is_in_the_way() -> None:
    available = Availability(inventory_of(3))
    available.holds = {f"n{at}": hold(*range(at, 4)) for at in range(3)}
    demand = demand_of(Task(id=2, command="true", owner="ann", gpus=4))
    assert available.place(demand, 2) is None
    assert [one.task for one in available.in_the_way(demand)] == [1]


def test_where_one_task_may_pass_it_gets_the_first_node_as_if_nothing_were_kept() -> None:
    available = Availability(inventory_of(3))
    available.holds = {f"n{at}": hold(*range(at, 4)) for at in range(3)}
    available.passes = lambda task_id, _hold: task_id == 3
    demand = demand_of(Task(id=2, command="true", owner="ann", gpus=4))
    assert available.place(demand, 2) is None
    assert [part.node for part in available.place(demand, 3) or ()] == ["n0"]
