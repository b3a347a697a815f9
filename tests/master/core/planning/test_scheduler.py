"""Planning: whatever waits and whatever is there, nothing is booked twice and nothing that fits is left waiting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from master.core.nodes.gpu_watch import GpuReport
from master.core.nodes.inventory import Facts, Inventory, NodeSpec, NodeState, Request, request_of
from master.core.nodes.node import Restriction
from master.core.planning.availability import Availability
from master.core.planning.forecast import Hold
from master.core.planning.obstacles import obstacles
from master.core.planning.scheduler import PlanInput, explain, plan
from master.core.tasks.attempt import Part
from master.core.tasks.backlog import Backlog, order_of
from master.core.tasks.request import Demand, demand_of
from master.core.tasks.task import Task, TaskState
from tests.faults import says
from tests.master.core.plain_planner import PlainRoom
from tests.master.core.small_core import core_with, submit
from wire.message import Message, names

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
        node.facts = Facts(boot_id="b", state_id="s", cpus=4, memory_mib=1, runs_as="another")
    return inventory


def request(**wants: object) -> Request:
    return request_of(Task(id=1, command="true", **wants))  # type: ignore[arg-type]


@given(SPECS, QUEUES)
def test_nothing_is_booked_twice_and_nothing_that_fits_is_left_waiting(
    specs: tuple[NodeSpec, ...], queue: list[tuple[dict[str, object], int]]
) -> None:
    inventory, backlog = inventory_of(specs), Backlog()
    tasks = {
        number: Task(id=number, owner="abc"[number % 3], command="true", priority=priority, **wants)  # type: ignore[arg-type]
        for number, (wants, priority) in enumerate(queue, 1)
    }
    for task in tasks.values():
        backlog.add(task)
    done = plan(PlanInput(backlog, inventory), 1.0)
    assert (done.resizes, done.wake_at) == ([], None)
    assert len(backlog) == len(queue), "a plan changes nothing"
    for placement in done.starts:
        backlog.discard(placement.task_id)
        task = tasks.pop(placement.task_id)
        (part,) = placement.parts
        node = inventory.nodes[part.node]
        assert node.takes_tasks
        assert task.node in (None, part.node)
        assert len(part.gpus) == task.gpus
        assert task.gpu_ids in (None, part.gpus)
        task.allocation = [Part(part.node, part.gpus)]
        inventory.take(task)  # raises if a GPU is held
    for node in inventory.nodes.values():
        assert set(node.gpu_holders) <= set(range(len(node.spec.gpu_models)))
        assert node.held["slots"] <= node.slots
        assert node.held["cpus"] <= node.cpus
    for task in tasks.values():
        assert task.id in backlog
        assert Availability(inventory).place(demand_of(task)) is None
        why = done.reasons(demand_of(task), task.id)
        assert why == explain(Demand("", request_of(task)), inventory)
        assert why.brief.key != "next"
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
    assert plan(PlanInput(backlog, inventory), 1.0).starts == []
    inventory.nodes["a"].state = NodeState.UNREACHABLE
    inventory.nodes["a"].reason = "its cable is out"
    why = explain(Demand("", request(gpus=1)), inventory).message()
    assert why == none_ready(unreachable(["a"], "its cable is out"))


def none_ready(*obstacles: Message) -> Message:
    return Message("no_node_ready", obstacles=obstacles)


def unreachable(nodes: list[str], said: str) -> Message:
    what = Message("link_because", state=NodeState.UNREACHABLE, said=said)
    return Message("obstacle", nodes=names(nodes), what=what)


def told_of(asked: Request, inventory: Inventory) -> list[str]:
    return [str(one) for one in obstacles(Demand("", asked), inventory)]


def test_what_stands_in_the_way_is_told_by_name() -> None:
    inventory = inventory_of((NodeSpec(name="a", gpu_models=("GPU",) * 2, cpus=2, slots=1),))
    holder = Task(id=7, command="true", gpus=1, cpus=1, allocation=[Part("a", [0])])
    inventory.take(holder)
    inventory.take(Task(id=8, command="true", allocation=[Part("a", [])]))
    assert told_of(request(gpus=2), inventory) == ["a: 1 of 2 GPUs free (task 7)"]
    assert told_of(request(gpus=1, gpu_ids=[0]), inventory) == ["a: GPU 0 held (task 7)"]
    assert told_of(request(cpus=2), inventory) == ["a: 1 of 2 CPUs free"]
    assert told_of(request(), inventory) == ["a: 1 of 1 slots taken"]
    assert str(explain(Demand("", request(gpus=3)), inventory)).startswith("can never start: ")


def said(text: str) -> Message:
    return Message("gpu_fault", said=text)


def test_gpus_that_are_closed_for_one_reason_are_told_together() -> None:
    inventory = lab(1)
    (node,) = inventory.nodes.values()
    node.state = NodeState.ONLINE
    node.kept_back = {**dict.fromkeys(range(7), said("its driver is gone")), 7: said("used by ann")}
    node.count_free()
    told = f"{node.name}: 0 of 8 GPUs free (GPUs 0-6: its driver is gone; GPU 7: used by ann)"
    assert told_of(request(gpus=1), inventory) == [told]
    assert told_of(request(gpus=2, gpu_ids=[0, 1]), inventory) == [f"{node.name}: GPUs 0-1: its driver is gone"]


def lab(count: int, gpus: int = 8) -> Inventory:
    return Inventory(tuple(NodeSpec(name=f"gpu{n:03}", gpu_models=("GPU",) * gpus) for n in range(1, count + 1)))


def test_nodes_of_which_the_same_is_to_be_said_share_a_line() -> None:
    inventory = lab(201)
    for node in inventory.nodes.values():
        node.state, node.reason = NodeState.UNREACHABLE, "no route to host"
    wait = explain(Demand("", request(gpus=1)), inventory)
    assert wait.message() == none_ready(unreachable(list(inventory.nodes), "no route to host"))
    for number, node in enumerate(inventory.nodes.values(), 1):
        node.state = NodeState.ONLINE
        node.gpu_holders = {gpu: {number: None} for gpu in range(8)}
        node.count_free()
    wait = explain(Demand("", request(gpus=1)), inventory)
    assert str(wait) == "needs 1 GPU: gpu[001-201]: 0 of 8 GPUs free (tasks 1-201)"
    assert str(wait.brief) == "needs 1 GPU"


def test_an_address_in_what_is_said_keeps_nobody_apart() -> None:
    inventory = Inventory(tuple(NodeSpec(name=f"n{n}", address=f"lab@10.0.0.{n}:22") for n in range(1, 202)))
    for number, node in enumerate(inventory.nodes.values(), 1):
        node.state, node.reason = NodeState.UNREACHABLE, f"10.0.0.{number}:22 cannot be reached: is the machine on?"
    away = unreachable(list(inventory.nodes), "it cannot be reached: is the machine on?")
    assert explain(Demand("", request()), inventory).message() == none_ready(away)
    alone = inventory.nodes["n7"]
    alone.reason = "10.0.0.7:22 says nothing"
    alone_told = unreachable(["n7"], "10.0.0.7:22 says nothing")
    assert says(explain(Demand("", request()), inventory).message(), alone_told.key, **alone_told.args)


def test_however_different_the_nodes_are_no_more_than_so_many_are_told() -> None:
    inventory = lab(201)
    for number, node in enumerate(inventory.nodes.values()):
        node.state, node.reason = NodeState.UNREACHABLE, f"10.0.0.{number}: no route to host"
    wait = explain(Demand("", request(gpus=1)), inventory)
    assert len(wait.obstacles) == 11
    assert "191 more nodes" in str(wait.obstacles[-1])
    assert len(str(wait)) < 300


def test_what_no_node_has_is_told_of_all_of_them_at_once() -> None:
    inventory = lab(201)
    everywhere = names(inventory.nodes)
    never = explain(Demand("", request(gpus=99)), inventory).brief
    assert never.key == "never"
    assert says(never, "has", amount=Message("amount", count=8, unit="GPU"), nodes=everywhere)
    never = explain(Demand("", request(node="gpu1")), inventory).brief
    assert never.key == "never"
    assert says(never, "no_such_node_but", node="gpu1", nodes=everywhere)
    assert str(everywhere) == "gpu[001-201]"
    many = Inventory(tuple(NodeSpec(name=chr(97 + n) * 3) for n in range(20)))
    assert str(explain(Demand("", request(node="nope")), many)).endswith(
        "(nodes: aaa, bbb, ccc, ddd, eee, fff and 14 more)"
    )


def test_a_node_that_is_leaving_is_no_place_to_ask_for() -> None:
    inventory = lab(2)
    inventory.nodes["gpu001"].cordons["leaving"] = Message("leaving")
    assert "gpu001 is leaving" in str(inventory.why_never(request(node="gpu001")))
    assert inventory.why_never(request(gpus=8)) is None
    inventory.nodes["gpu002"].cordons["leaving"] = Message("leaving")
    assert "nodes gpu001, gpu002 are leaving" in str(inventory.why_never(request(gpus=8)))


def test_a_node_that_is_reserved_takes_the_tasks_of_those_only_and_others_wait_for_no_more_than_that() -> None:
    core = core_with()
    core.restrict("a", Restriction(frozenset({"ann"}), Message("own_account_node", account="lab"), as_admin=False))
    bobs, anns = submit(core, owner="bob", gpus=1), submit(core, owner="ann", gpus=1)
    core.plan(0.0)
    assert (anns.state, bobs.state) == (TaskState.STARTING, TaskState.WAITING)
    assert says(core.why_it_waits(bobs), "own_account_node", account="lab")
    assert core.wait(bobs).brief.key == "no_node_open", "it is no room that lacks"
    core.restrict("a", None)
    core.plan(0.0)
    assert bobs.state is TaskState.STARTING


def test_where_only_one_owner_may_go_anothers_wish_for_the_same_does_not_end_the_search() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",)), NodeSpec(name="b", gpu_models=("GPU",) * 2))
    core.restrict("b", Restriction(frozenset({"ann"}), Message("own_account_node", account="lab"), as_admin=False))
    bobs = [submit(core, owner="bob", gpus=2), submit(core, owner="bob", gpus=1, node="b")]
    anns = [submit(core, owner="ann", gpus=2), submit(core, owner="ann", gpus=1, node="b")]
    core.plan(0.0)
    assert [task.state for task in bobs] == [TaskState.WAITING] * 2
    assert anns[0].state is TaskState.STARTING


ALIKE_SPECS = tuple(
    NodeSpec(name=f"n{at}", gpu_models=(model,) * 2, gpu_memory_mib=(mib,) * 2, slots=1)
    for at, (model, mib) in enumerate(
        [("A100", 80), ("A100", 80), ("A100", 40), ("V100", 32), ("A100", 80), ("V100", 32)]
    )
)
ALIKE_WANTS = st.fixed_dictionaries(
    {"gpus": st.integers(0, 2)},
    optional={
        "cpus": st.integers(1, 3),
        "nodes": st.integers(1, 3),
        "gpu_models": st.sampled_from([["A100"], ["V100"]]),
        "gpu_memory_mib": st.sampled_from([10, 30, 50]),
        "share": st.booleans(),
        "min_free_util": st.sampled_from([0.0, 40.0]),
        "exclude": st.sampled_from([[], ["n0"], ["n1", "n3"]]),
        "gpus_max": st.integers(2, 4),
        "gpu_ids": st.sampled_from([None, [0], [1], [0, 1]]),
    },
)
SEEN = st.sampled_from([None, (0, 0.0), (20, 10.0), (20, 90.0)])


@given(
    st.lists(ALIKE_WANTS, max_size=12),
    st.lists(ALIKE_WANTS, max_size=12),
    st.lists(SEEN, min_size=6, max_size=6),
    st.sets(st.sampled_from(["n1", "n2"])),
)
def test_nodes_that_are_looked_at_together_are_chosen_as_if_each_had_been_looked_at(
    running: list[dict[str, object]],
    waiting: list[dict[str, object]],
    seen: list[tuple[int, float] | None],
    kept: set[str],
) -> None:
    inventory = inventory_of(ALIKE_SPECS)
    for number, wants in enumerate(running, 1):
        task = Task(id=number, command="true", **wants)  # type: ignore[arg-type]
        parts = Availability(inventory).place(demand_of(task))
        if parts is not None:
            task.allocation = [Part(part.node, part.gpus, gpu_mib=part.gpu_mib) for part in parts]
            inventory.take(task)
    for node, told in zip(inventory.nodes.values(), seen, strict=True):
        if told is not None:
            mib, busy = told
            reports = [
                GpuReport(index=gpu, memory_used_mib=mib, memory_total_mib=80, utilization=busy) for gpu in range(2)
            ]
            node.kept_back = node.watch.look(reports, 2, node.gpu_holders, 1.0).kept_back
            node.count_free()
    together, one_by_one = Availability(inventory), PlainRoom(inventory)
    together.holds = {name: Hold(999, frozenset({0}), {}, None, ()) for name in kept}
    one_by_one.holds = dict(together.holds)
    for wants in waiting:
        demand = demand_of(Task(id=0, command="true", **wants))  # type: ignore[arg-type]
        assert together.place(demand) == one_by_one.place(demand)
