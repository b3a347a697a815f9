"""The table of resources: what holds for every row, for one there is and for one that comes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from master.core.nodes.inventory import Facts, Inventory, Node, NodeSpec, NodeState, request_of
from master.core.nodes.resources import RESOURCES, Cluster, Free, FreeNode, Need, Resource, Scope, needs_of, rows_of
from master.core.planning.availability import Availability
from master.core.planning.scheduler import explain
from master.core.tasks.attempt import Allocation, Part
from master.core.tasks.request import demand_of
from master.core.tasks.task import Task, Unstarted
from wire.message import Message

FACTS = Facts(boot_id="b", state_id="s", cpus=4, memory_mib=1, tmp_disk_mib=3)
SEATS = Resource[Cluster](
    name="seats",
    scope=Scope.CLUSTER,
    fields=("cpus",),
    asked=lambda task: task.cpus or 0,
    has=lambda cluster: cluster.has.get("seats", 0),
    unit="seat",
)
"""Of the cluster as a whole: a task takes as many as it takes CPUs."""
WORKED_OUT = {"unstarted": [Unstarted("elsewhere", "")]}
"""What a task with this asks for is worked out, not remembered from before there was one row more."""

NODES = st.builds(
    NodeSpec,
    name=st.just("a"),
    gpu_models=st.integers(0, 4).map(lambda gpus: ("GPU",) * gpus),
    cpus=st.one_of(st.none(), st.integers(1, 4)),
    slots=st.one_of(st.none(), st.integers(0, 2)),
)
ASKS = st.one_of(
    st.fixed_dictionaries({"gpus": st.integers(0, 5)}),
    st.fixed_dictionaries({"cpus": st.integers(1, 5), "gpus": st.integers(0, 2)}),
    st.fixed_dictionaries({"memory_mib": st.integers(1, 2), "tmp_disk_mib": st.integers(1, 5), "gpus": st.just(1)}),
    st.sets(st.integers(0, 4), min_size=1).map(lambda ids: {"gpus": len(ids), "gpu_ids": sorted(ids)}),
)


ASKED: dict[str, dict[str, object]] = {
    "gpus": {"gpus": 1},
    "cpus": {"cpus": 1},
    "memory_mib": {"memory_mib": 1},
    "tmp_disk_mib": {"tmp_disk_mib": 1},
    "slots": {"gpus": 0},
}
"""What a task says that asks for one of each row."""


def task_of(number: int, asks: dict[str, object]) -> Task:
    return Task(id=number, command="true", **asks)  # type: ignore[arg-type]


def online(spec: NodeSpec) -> Node:
    node = Node(spec)
    node.state, node.facts = NodeState.ONLINE, FACTS
    return node


@pytest.fixture
def seats() -> Iterator[None]:
    """For a while there is one row more."""
    RESOURCES[SEATS.name] = SEATS
    yield
    del RESOURCES[SEATS.name]


def every_row_is_alike(has: int, asked: list[dict[str, object]], spec: NodeSpec) -> None:
    places: dict[Scope, Node | Cluster] = {Scope.NODE: online(spec), Scope.CLUSTER: Cluster({SEATS.name: has})}
    for scope, place in places.items():
        free = Free(place, rows_of(scope))
        for number, asks in enumerate(asked, 1):
            needs = needs_of(task_of(number, asks), scope)
            assert free.fits(needs) is (free.lack(needs) is None)
            for need in needs:
                assert free.fits([need]) is (free.lack([need]) is None)
            if not free.fits(needs):
                continue
            before = dict(free.counts)
            free.take(needs)
            assert all(free.counts[need.resource] == before[need.resource] - need.amount for need in needs)
        for row in rows_of(scope):
            assert free.counts[row.name] >= 0


@given(st.lists(ASKS, max_size=8), NODES)
def test_what_fits_lacks_nothing_and_what_was_taken_and_given_back_was_never_there(
    asked: list[dict[str, object]], spec: NodeSpec
) -> None:
    every_row_is_alike(0, asked, spec)


@pytest.mark.usefixtures("seats")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.integers(0, 9), st.lists(ASKS, max_size=8), NODES)
def test_the_same_holds_for_a_row_of_the_cluster_that_was_added(
    has: int, asked: list[dict[str, object]], spec: NodeSpec
) -> None:
    every_row_is_alike(has, asked, spec)


@given(st.lists(ASKS, max_size=8), NODES)
def test_the_books_are_as_before_when_everything_is_given_back(asked: list[dict[str, object]], spec: NodeSpec) -> None:
    inventory = Inventory((spec,))
    node = inventory.nodes["a"] = online(spec)
    before = [row.free(node) for row in rows_of(Scope.NODE)]
    held: list[Task] = []
    for number, asks in enumerate(asked, 1):
        task = task_of(number, asks)
        parts = Availability(inventory).place(demand_of(task))
        if parts is None:
            continue
        (part,) = parts
        free = FreeNode(node)
        free.take(needs_of(task, Scope.NODE))
        task.allocation = [Part(part.node, part.gpus)]
        inventory.take(task)
        held.append(task)
        assert free.counts == FreeNode(node).counts, "the planner and the books count alike"
    for task in held:
        inventory.give_back(task)
    assert [row.free(node) for row in rows_of(Scope.NODE)] == before
    assert not any((node.gpu_holders, any(node.held.values()), node.active))


@given(ASKS, NODES)
def test_what_could_never_be_does_not_fit_an_empty_node_and_what_could_does(
    asks: dict[str, object], spec: NodeSpec
) -> None:
    node = online(spec)
    for need in needs_of(task_of(1, asks), Scope.NODE):
        never = RESOURCES[need.resource].why_never(need, node)
        assert FreeNode(node).fits([need]) is (never is None)


def test_of_every_row_a_task_may_hold_what_a_node_has_and_the_next_one_waits() -> None:
    assert set(ASKED) == set(RESOURCES), "a row is asked for here and by ASKS"
    for name, asks in ASKED.items():
        node = online(NodeSpec(name="a", gpu_models=("GPU",), cpus=1, slots=1, tmp_disk_mib=1))
        (need,) = (need for need in needs_of(task_of(1, asks), Scope.NODE) if need.resource == name)
        free = FreeNode(node)
        assert free.fits([need]), name
        free.take([need])
        assert free.lack([need]) == need, name
        assert RESOURCES[name].why_never(need, node) is None, name
        assert RESOURCES[name].why_never(need._replace(amount=2), node) is not None, name


def test_what_nobody_knows_yet_is_no_obstacle_for_ever_and_is_not_given_out() -> None:
    node = Node(NodeSpec(name="a"))
    for need in (Need("cpus", 8), Need("slots", 1)):
        assert RESOURCES[need.resource].why_never(need, node) is None
        assert FreeNode(node).lack([need]) == need


def test_where_nobody_knows_how_much_there_is_the_reason_says_so_and_not_that_none_of_none_is_free() -> None:
    node = Node(NodeSpec(name="a"))
    said = {name: str(row.told_short(node)) for name, row in RESOURCES.items() if row.has(node) is None}
    assert said.keys() == RESOURCES.keys() - {"gpus"}, "GPUs are the registry's word"
    assert [name for name, told in said.items() if not told.startswith("nobody knows ")] == []
    node.facts = FACTS
    assert RESOURCES["memory_mib"].told_short(node) == Message("memory_free", free=1, has=1)


@pytest.mark.usefixtures("seats")
def test_what_the_cluster_has_is_counted_over_all_nodes() -> None:
    inventory = Inventory(tuple(NodeSpec(name=name, cpus=4) for name in "ab"), {"seats": 5})
    for node in inventory.nodes.values():
        node.state, node.facts = NodeState.ONLINE, FACTS
    first, second = (task_of(number, {"cpus": 3, **WORKED_OUT}) for number in (1, 2))
    assert Availability(inventory).place(demand_of(first)) == [Allocation("a", [])]
    first.allocation = [Part("a", [])]
    inventory.take(first)
    assert Availability(inventory).place(demand_of(second)) is None
    told = str(explain(demand_of(second), inventory))
    assert told == "needs 3 CPUs and 3 seats: the cluster: 2 of 5 seats free"
    never = inventory.why_never(request_of(task_of(3, {"cpus": 6, **WORKED_OUT})))
    assert str(never) == "it asks for 6 CPUs and 6 seats, but the cluster has 5 seats"
    inventory.give_back(first)
    assert Availability(inventory).place(demand_of(second)) == [Allocation("a", [])]
    available = Availability(inventory)
    assert available.place(demand_of(second)) is not None
    assert available.place(demand_of(first)) is None, "what this round has given out is gone"
