"""Planning: whatever waits and whatever is there, nothing is booked twice and nothing that fits is left waiting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from master.core.backlog import Backlog, order_of
from master.core.inventory import Facts, Inventory, NodeSpec, NodeState, Request, request_of
from master.core.scheduler import Room, details, explain, plan
from master.core.task import Allocation, Task

NAMES = ("a", "b", "c")
SPECS = st.tuples(
    *(
        st.builds(
            NodeSpec,
            name=st.just(name),
            gpu_models=st.integers(0, 4).map(lambda gpus: ("GPU",) * gpus),
            cpus=st.integers(1, 4),
            slots=st.integers(0, 2),
            schedulable=st.sampled_from([True, True, True, False]),
        )
        for name in NAMES
    )
)
WANTS = st.one_of(
    st.fixed_dictionaries({"gpus": st.integers(0, 4), "node": st.sampled_from([None, None, "a"])}),
    st.fixed_dictionaries({"cpus": st.integers(1, 4), "gpus": st.integers(0, 2)}),
    st.sets(st.integers(0, 3), min_size=1).map(lambda ids: {"gpus": len(ids), "gpu_ids": sorted(ids)}),
)
QUEUES = st.lists(st.tuples(WANTS, st.integers(-1, 1)), max_size=25)


def inventory_of(specs: tuple[NodeSpec, ...]) -> Inventory:
    inventory = Inventory(specs)
    for node in inventory.nodes.values():
        node.state = NodeState.ONLINE
        node.facts = Facts(boot_id="b", state_id="s", cpus=4, memory_mib=1)
    return inventory


def request(**wants: object) -> Request:
    return request_of(Task(id=1, command="true", **wants))  # type: ignore[arg-type]


@given(SPECS, QUEUES)
def test_nothing_is_booked_twice_and_nothing_that_fits_is_left_waiting(
    specs: tuple[NodeSpec, ...], queue: list[tuple[dict[str, object], int]]
) -> None:
    inventory, backlog = inventory_of(specs), Backlog()
    tasks = {
        number: Task(id=number, command="true", priority=priority, **wants)  # type: ignore[arg-type]
        for number, (wants, priority) in enumerate(queue, 1)
    }
    for task in tasks.values():
        backlog.add(task)
    placements = plan(backlog, inventory)
    for placement in placements:
        task = tasks.pop(placement.task_id)
        node = inventory.nodes[placement.node]
        assert node.takes_tasks
        assert task.node in (None, placement.node)
        assert len(placement.gpus) == task.gpus
        assert task.gpu_ids in (None, placement.gpus)
        task.allocation = [Allocation(placement.node, placement.gpus)]
        inventory.take(task)  # raises if a GPU is held
    for node in inventory.nodes.values():
        assert set(node.gpu_holder) <= set(range(len(node.spec.gpu_models)))
        assert node.slots_held <= node.slots
        assert node.cpus_held <= node.cpus
    for task in tasks.values():
        assert task.id in backlog
        assert Room(inventory).place(request_of(task)) is None
        assert explain(request_of(task), inventory) != "next: the planner is about to start it"
    # Among equals the order of the queue holds.
    for shape in {request_of(tasks[number]) for number in tasks}:
        waiting = min(order_of(task) for task in tasks.values() if request_of(task) == shape)
        started = [number for number in range(1, len(queue) + 1) if number not in tasks]
        assert all(
            order_of(Task(id=number, command="true", priority=queue[number - 1][1])) < waiting
            for number in started
            if request(**queue[number - 1][0]) == shape
        )


def test_planning_without_a_node_that_is_ready_starts_nothing() -> None:
    inventory, backlog = Inventory((NodeSpec(name="a", gpu_models=("GPU",)),)), Backlog()
    backlog.add(Task(id=1, command="true", gpus=1))
    assert plan(backlog, inventory) == []
    inventory.nodes["a"].state = NodeState.UNREACHABLE
    inventory.nodes["a"].reason = "its cable is out"
    assert explain(request(gpus=1), inventory) == "no node is ready: a: unreachable (its cable is out)"


def test_what_stands_in_the_way_is_told_by_name() -> None:
    inventory = inventory_of((NodeSpec(name="a", gpu_models=("GPU",) * 2, cpus=2, slots=1),))
    holder = Task(id=7, command="true", gpus=1, cpus=1, allocation=[Allocation("a", [0])])
    inventory.take(holder)
    inventory.take(Task(id=8, command="true", allocation=[Allocation("a")]))
    assert details(request(gpus=2), inventory) == ["a: 1 of 2 GPUs free (tasks 7)"]
    assert details(request(gpus=1, gpu_ids=[0]), inventory) == ["a: GPU 0 held by task 7"]
    assert details(request(cpus=2), inventory) == ["a: 1 of 2 CPUs free"]
    assert details(request(), inventory) == ["a: 1 of 1 slots taken"]
    assert explain(request(gpus=3), inventory).startswith("can never start: ")
