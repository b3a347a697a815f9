"""Nodes that come, change, leave, are drained, given up, or turn out to be another machine."""

from __future__ import annotations

import msgspec
import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Kill
from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from master.core.tasks.task import TaskState
from tests.master.core.small_core import BOOT, EIGHT, core_with, launch_of, submit
from wire.errors import ConflictError, NotFoundError
from wire.message import Message

FOUR = NodeSpec(name="a", gpu_models=("GPU",) * 4)
OTHER = NodeSpec(name="b", gpu_models=("GPU",) * 8)


def taken(core: Core) -> list[object]:
    outcome = core.take_outcome()
    return list(outcome.effects) if outcome else []


def reloaded(core: Core, *specs: NodeSpec) -> Core:
    """What a new master makes of the state that this one wrote."""
    outcome = core.take_outcome()
    fresh = core_with(*specs, online=False)
    fresh.load(dict(core.tasks), {}, core.next_id, outcome.change.state if outcome else {})
    return fresh


def test_a_node_that_is_added_gets_the_tasks_that_wait() -> None:
    core = core_with(FOUR)
    task = submit(core, gpus=4)
    other = submit(core, gpus=4)
    core.plan(0.0)
    assert (task.state, other.state) == (TaskState.STARTING, TaskState.WAITING)
    core.set_nodes((FOUR, OTHER))
    core.node_state("b", NodeState.ONLINE, None, BOOT)
    assert core.plan_needed
    core.plan(0.0)
    assert other.allocation[0].node == "b"


def test_an_idle_node_leaves_at_once_and_a_busy_one_after_its_last_task() -> None:
    core = core_with(EIGHT, OTHER)
    task = submit(core, gpus=2, node="a")
    core.plan(0.0)
    core.set_nodes(())
    assert list(core.inventory.nodes) == ["a"]
    assert "left the registry" in (core.inventory.nodes["a"].closed_because or "")
    late = Exit(launch_of(task), "exited", 3.0, 0)
    core.exited("a", late, 3.0)
    assert task.state is TaskState.SUCCEEDED
    assert core.inventory.nodes == {}
    core.exited("a", late, 4.0)
    core.node_state("a", NodeState.UNREACHABLE, "what a link says after it was given up")
    assert core.inventory.nodes == {}


def test_a_node_that_was_leaving_and_is_added_again_stays() -> None:
    core = core_with()
    task = submit(core, gpus=2)
    core.plan(0.0)
    core.set_nodes(())
    core.set_nodes((EIGHT,))
    assert core.inventory.nodes["a"].takes_tasks
    core.exited("a", Exit(launch_of(task), "exited", 3.0, 0), 3.0)
    assert core.inventory.nodes["a"].free_gpus == list(range(8))


def test_gpus_that_the_registry_takes_away_are_held_to_the_end_and_never_given_out_again() -> None:
    core = core_with()
    task = submit(core, gpus=8)
    core.plan(0.0)
    core.set_nodes((FOUR,))
    node = core.inventory.nodes["a"]
    assert node.free_gpus == []
    core.exited("a", Exit(launch_of(task), "exited", 3.0, 0), 3.0)
    assert node.free_gpus == [0, 1, 2, 3]
    core.set_nodes((EIGHT,))
    assert node.free_gpus == list(range(8))


def test_lists_follow_the_order_of_the_registry() -> None:
    core = core_with(EIGHT, OTHER)
    core.set_nodes((OTHER, EIGHT))
    assert list(core.inventory.nodes) == ["b", "a"]


def test_a_drained_node_finishes_what_it_has_takes_nothing_new_and_is_so_after_a_restart() -> None:
    core = core_with()
    first = submit(core, gpus=1)
    core.plan(0.0)
    core.drain("a", "the fan rattles", "root", 5.0)
    second = submit(core, gpus=1)
    core.plan(0.0)
    assert second.state is TaskState.WAITING
    assert "the fan rattles" in str(core.reason(second))
    run_end = Exit(launch_of(first), "exited", 3.0, 0)
    core.exited("a", run_end, 3.0)
    again = reloaded(core, EIGHT)
    assert "drained by root" in (again.inventory.nodes["a"].closed_because or "")
    again.resume("a")
    again.node_state("a", NodeState.ONLINE, None, BOOT)
    again.plan(0.0)
    assert second.state is TaskState.STARTING
    with pytest.raises(ConflictError, match="not drained"):
        again.resume("a")


def test_what_was_decided_about_a_node_outlives_an_edit_that_went_wrong_and_ends_when_it_is_removed() -> None:
    core = core_with()
    core.drain("a", "the fan rattles", "root", 5.0)
    core.set_aside("a", 3, "Xid 79")
    core.set_nodes(())
    core.set_nodes((EIGHT,))
    assert "the fan rattles" in (core.inventory.nodes["a"].closed_because or "")
    assert core.inventory.nodes["a"].aside == {3: "Xid 79"}
    core.set_nodes(())
    core.forget_note("a")
    core.set_nodes((EIGHT,))
    assert core.inventory.nodes["a"].closed_because is None
    assert core.notes == {}


def test_a_gpu_that_the_registry_no_longer_counts_can_still_be_returned() -> None:
    core = core_with()
    core.set_aside("a", 6, "Xid 79")
    core.set_nodes((FOUR,))
    core.return_gpu("a", 6)
    assert core.notes == {}


def test_a_node_that_does_not_exist_can_neither_be_drained_nor_given_up() -> None:
    core = core_with()
    for act in (lambda: core.drain("z", "", "root", 1.0), lambda: core.give_up("z", "root", 1.0)):
        with pytest.raises(NotFoundError, match="'z'"):
            act()


def test_giving_a_node_up_loses_its_tasks_and_what_is_left_of_them_dies_before_it_takes_another() -> None:
    core = core_with()
    task = submit(core, gpus=8)
    core.plan(0.0)
    launch_id = launch_of(task)
    core.started("a", launch_id, 2.0, 2.0)
    with pytest.raises(ConflictError, match="online"):
        core.give_up("a", "root", 3.0)
    core.node_state("a", NodeState.UNREACHABLE, "no route")
    assert core.give_up("a", "root", 3.0) == [task.id]
    assert task.state is TaskState.LOST
    assert "given up by root" in str(task.reason)
    following = submit(core, gpus=1)
    taken(core)
    core.reconcile("a", [Seen(launch_id, 2.0)], 4.0)
    core.node_state("a", NodeState.ONLINE, None, BOOT)
    core.plan(0.0)
    assert taken(core) == [Kill("a", launch_id)]
    assert "must end first" in str(core.reason(following))
    core.exited("a", Exit(launch_id, "killed", 5.0), 5.0)
    core.plan(0.0)
    assert following.state is TaskState.STARTING


def test_another_machine_at_a_changed_address_is_not_taken_for_the_old_one() -> None:
    old, new = (NodeSpec(name="a", gpu_models=("GPU",) * 8, address=ip) for ip in ("10.0.0.1:22", "10.0.0.2:22"))
    core = core_with(old)
    task = submit(core, gpus=1)
    core.plan(0.0)
    core.set_nodes((new,))
    another = Facts(boot_id="boot-x", state_id="state-x", cpus=4, memory_mib=1)
    replaced = Facts(boot_id="boot-1", state_id="state-x", cpus=4, memory_mib=1)
    core.set_nodes((old,))
    assert "has not restarted" in str(core.stranger("a", replaced)), "nobody who knows them answers, and they may live"
    assert core.stranger("a", another) is None, "the machine restarted with another folder: they are over"
    core.set_nodes((new,))
    told = core.stranger("a", another)
    assert told is not None
    assert all(word in str(told) for word in ("10.0.0.1", "10.0.0.2", str(task.id), "muster node lost"))
    assert core.stranger("a", BOOT) is None, "the same machine under a new address is welcome"
    core.node_state("a", NodeState.UNREACHABLE, told)
    core.give_up("a", "root", 3.0)
    assert core.stranger("a", another) is None


def test_a_node_that_left_while_busy_is_kept_by_the_books_of_the_next_master() -> None:
    core = core_with()
    task = submit(core, gpus=2)
    core.plan(0.0)
    again = reloaded(core, OTHER)
    ghost = again.inventory.nodes["a"]
    assert not ghost.takes_tasks
    assert "node lost" in (ghost.reason or "")
    again.set_nodes((OTHER,))
    assert again.give_up("a", "root", 9.0) == [task.id]
    assert list(again.inventory.nodes) == ["b"]


def by_ssh(name: str) -> NodeSpec:
    return NodeSpec(name=name, address=f"user@{name}:22", gpu_models=("GPU",) * 8)


MACHINE = Facts(boot_id="boot-1", state_id="state-1", cpus=4, memory_mib=1000, machine="m1")


def declared(spec: NodeSpec) -> NodeSpec:
    return msgspec.structs.replace(spec, is_declared=True)


def test_of_two_entries_over_other_users_of_one_machine_one_is_not_served_and_says_why() -> None:
    lab, root = (NodeSpec(name=name, address=f"{user}@gpu1:22") for name, user in (("a", "lab"), ("b", "root")))
    core = core_with(lab, root, online=False)
    assert core.same_machine("a", MACHINE) is None
    found = core.same_machine("b", msgspec.structs.replace(MACHINE, state_id="state-2"))
    assert found is not None
    assert found[1] == Message("machine_is_over", node="a", name="b", user="root", other="lab")
    assert core.same_machine("a", MACHINE) is None


def test_of_two_entries_over_one_user_the_one_that_is_not_served_says_why() -> None:
    core = core_with(by_ssh("a"), by_ssh("b"), online=False)
    assert core.same_machine("a", MACHINE) is None
    found = core.same_machine("b", MACHINE)
    assert found == ("a", Message("machine_is", node="a", name="b"))


def test_entries_that_declare_their_gpus_are_as_many_as_somebody_wants() -> None:
    for first, second in (
        (declared(by_ssh("a")), by_ssh("b")),
        (by_ssh("a"), declared(by_ssh("b"))),
        (declared(by_ssh("a")), declared(by_ssh("b"))),
        (NodeSpec(name="a"), declared(by_ssh("b"))),
    ):
        core = core_with(first, second, online=False)
        assert core.same_machine("a", MACHINE) is None
        core.node_state("a", NodeState.ONLINE, None, MACHINE)
        assert core.same_machine("b", MACHINE) is None
        assert core.same_machine("a", MACHINE) is None


def test_a_declared_node_that_is_renamed_while_busy_gives_nothing_out_twice() -> None:
    old, new, third = (declared(by_ssh(name)) for name in "abc")
    core = core_with(old, online=False)
    core.node_state("a", NodeState.ONLINE, None, MACHINE)
    submit(core, gpus=1)
    core.plan(0.0)
    core.set_nodes((new,))
    assert core.same_machine("b", MACHINE) is not None
    core.set_nodes((new, third))
    assert core.same_machine("b", MACHINE) is None, "who has several wants several"
    core.set_nodes((new, by_ssh("third")))
    assert core.same_machine("b", MACHINE) is not None, "one that is probed is another machine"
    renamed = msgspec.structs.replace(old, name="d")
    core.set_nodes((renamed, third))
    assert core.same_machine("d", MACHINE) is not None, "its address says that it is the new one"


def test_a_node_is_probed_again_once_its_entry_declares_nothing_any_more() -> None:
    core = core_with(by_ssh("a"), declared(by_ssh("b")), online=False)
    for name in "ab":
        assert core.same_machine(name, MACHINE) is None
        core.node_state(name, NodeState.ONLINE, None, MACHINE)
    core.set_nodes((by_ssh("a"), by_ssh("b")))
    assert core.same_machine("a", MACHINE) is None
    assert core.same_machine("b", MACHINE) is not None


def test_a_machine_with_two_entries_is_served_as_the_one_that_came_first() -> None:
    core = core_with(by_ssh("a"), by_ssh("b"), online=False)
    assert core.same_machine("a", MACHINE) is None
    core.node_state("a", NodeState.CONNECTING, None, MACHINE)
    found = core.same_machine("b", MACHINE)
    assert found is not None
    assert (found[0], "b gets no tasks" in str(found[1])) == ("a", True)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    assert core.same_machine("b", MACHINE) is not None
    core.set_nodes((by_ssh("b"),))
    assert core.same_machine("b", MACHINE) is None


def test_entries_of_the_masters_own_machine_and_machines_without_an_id_are_as_many_as_somebody_wants() -> None:
    core = core_with(NodeSpec(name="a"), NodeSpec(name="b"), by_ssh("c"), by_ssh("d"), online=False)
    core.node_state("a", NodeState.ONLINE, None, MACHINE)
    assert core.same_machine("b", MACHINE) is None
    core.node_state("c", NodeState.ONLINE, None, BOOT)
    assert core.same_machine("d", BOOT) is None


def test_the_masters_own_machine_that_is_renamed_while_busy_gives_no_gpu_out_twice() -> None:
    old, new, third = (NodeSpec(name=name, gpu_models=("GPU",)) for name in "abc")
    core = core_with(old, online=False)
    core.node_state("a", NodeState.ONLINE, None, MACHINE)
    submit(core, gpus=1)
    core.plan(0.0)
    core.set_nodes((new,))
    found = core.same_machine("b", MACHINE)
    assert found == ("a", Message("machine_was", node="a"))
    core.node_state("a", NodeState.UNREACHABLE, "nobody knows the way there")
    assert core.same_machine("b", MACHINE) is not None, "the next master has it from the attempt"
    core.set_nodes((new, third))
    assert core.same_machine("b", MACHINE) is None, "who has several wants several"
    core.give_up("a", "root", 3.0)
    core.set_nodes((new,))
    assert core.same_machine("b", MACHINE) is None


def test_a_machine_without_an_id_that_has_two_entries_is_known_by_its_boot_and_its_name() -> None:
    core = core_with(NodeSpec(name="a", address="lab@10.0.0.1:22"), NodeSpec(name="b", address="root@gpu1:22"))
    nameless = msgspec.structs.replace(MACHINE, machine="", hostname="gpu1")
    core.node_state("a", NodeState.ONLINE, None, nameless)
    found = core.same_machine("b", nameless)
    assert found is not None
    assert (found[1].key, found[1].args["node"]) == ("machine_is_over", "a")
    for another in ({"hostname": "gpu2"}, {"boot_id": "boot-2"}, {"hostname": ""}):
        assert core.same_machine("b", msgspec.structs.replace(nameless, **another)) is None


def test_two_machines_of_one_image_are_two() -> None:
    core = core_with(by_ssh("c"), by_ssh("d"), online=False)
    core.node_state("c", NodeState.ONLINE, None, msgspec.structs.replace(MACHINE, boot_id="boot-2"))
    assert core.same_machine("d", MACHINE) is None


def test_where_tasks_of_both_entries_run_both_are_served_and_one_takes_no_new_ones() -> None:
    core = core_with(by_ssh("a"), by_ssh("b"), online=False)
    for name in "ab":
        core.node_state(name, NodeState.ONLINE, None, msgspec.structs.replace(MACHINE, machine="", boot_id=name))
    mine, other = submit(core, gpus=1, node="a"), submit(core, gpus=1, node="b")
    core.plan(0.0)
    core.node_state("a", NodeState.ONLINE, None, MACHINE)
    assert core.same_machine("b", MACHINE) is None
    assert [why.key for why in core.inventory.nodes["b"].why_not_open] == ["machine_is"]
    assert {mine.state, other.state} == {TaskState.STARTING}
