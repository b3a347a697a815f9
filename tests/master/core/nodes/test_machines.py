"""Machines that were copied from one image have one id: which of them an agent is, and of which attempts it knows."""

from __future__ import annotations

import msgspec
import pytest

from master.core.attempts.exits import Seen
from master.core.core import Core
from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from master.core.tasks.task import Task
from tests.master.core.small_core import core_with, submit

MACHINE = Facts(boot_id="boot-1", state_id="state-1", cpus=4, memory_mib=1000, machine="m1", protocol=2)
COPY = msgspec.structs.replace(MACHINE, boot_id="boot-2", state_id="state-2")
ANEW = msgspec.structs.replace(MACHINE, state_id="state-2")


def by_ssh(name: str, address: str) -> NodeSpec:
    return NodeSpec(name=name, address=address, gpu_models=("GPU",))


A = by_ssh("a", "lab@10.0.0.1:22")


def busy_and_away(*others: NodeSpec, facts: Facts = MACHINE) -> Core:
    """A task was sent to node a, which is away now: only the attempt tells what machine that was."""
    core = core_with(A, *others, online=False)
    core.node_state("a", NodeState.ONLINE, None, facts)
    task = submit(core, gpus=1, node="a")
    core.plan(0.0)
    assert task.allocation
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    return core


def test_a_copy_of_a_busy_machine_is_another_one_where_boot_and_address_are_others() -> None:
    core = busy_and_away(by_ssh("b", "lab@10.0.0.2:22"))
    assert core.same_machine("b", COPY) is None


def test_a_busy_machine_that_restarted_is_the_same_at_its_address() -> None:
    core = busy_and_away(by_ssh("b", "lab@10.0.0.1:22"))
    found = core.same_machine("b", COPY)
    assert found is not None
    assert found[0] == "a"


def test_a_busy_machine_that_did_not_restart_is_the_same_at_any_address() -> None:
    core = busy_and_away(by_ssh("b", "lab@10.0.0.2:22"))
    found = core.same_machine("b", ANEW)
    assert found is not None
    assert found[0] == "a"


@pytest.mark.parametrize("machine", ["m2", ""])
def test_another_machine_id_is_another_machine_whatever_its_boot_and_address_are(machine: str) -> None:
    core = busy_and_away(by_ssh("b", "lab@10.0.0.1:22"))
    other = msgspec.structs.replace(MACHINE, machine=machine, hostname="here")
    assert core.same_machine("b", other) is None


def test_an_idle_entry_that_is_away_is_nobodys_twin() -> None:
    core = core_with(A, by_ssh("b", "lab@10.0.0.1:22"), online=False)
    core.node_state("a", NodeState.ONLINE, None, MACHINE)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    assert core.same_machine("b", MACHINE) is None


def test_an_entry_that_was_a_twin_takes_tasks_once_the_other_is_another_machine() -> None:
    core = core_with(A, by_ssh("b", "lab@10.0.0.2:22"), online=False)
    for name in "ab":
        core.node_state(name, NodeState.ONLINE, None, msgspec.structs.replace(MACHINE, machine="", boot_id=name))
        submit(core, gpus=1, node=name)
    core.plan(0.0)
    core.node_state("a", NodeState.ONLINE, None, MACHINE)
    assert core.same_machine("b", MACHINE) is None
    assert core.inventory.nodes["b"].cordons
    core.node_state("a", NodeState.ONLINE, None, COPY)
    assert core.same_machine("b", MACHINE) is None
    assert core.inventory.nodes["b"].cordons == {}


def test_entries_that_are_refused_keep_no_cordon() -> None:
    core = core_with(A, by_ssh("b", "lab@10.0.0.2:22"), online=False)
    core.node_state("a", NodeState.ONLINE, None, MACHINE)
    assert core.same_machine("b", MACHINE) is not None
    assert core.inventory.nodes["b"].cordons == {}


def test_what_answers_for_a_node_that_left_meanwhile_is_nobody() -> None:
    core = busy_and_away()
    assert core.same_machine("gone", MACHINE) is None
    assert core.stranger("gone", COPY) is None
    assert core.account_elsewhere("gone", COPY) is None
    assert core.adoptable("gone", ANEW) == []
    core.adopted("gone", ANEW, [Seen("1.1.1")])


def told(core: Core, facts: Facts) -> list[str]:
    return [one.launch_id for one in core.adoptable("a", facts)]


def test_only_an_agent_in_another_folder_of_the_same_run_of_the_machine_is_told_of_attempts() -> None:
    core = busy_and_away()
    [launch_id] = [part.launch_id for part in core.tasks[1].allocation]
    assert told(core, ANEW) == [launch_id]
    assert told(core, MACHINE) == [], "its folder is that in which the claim lies"
    assert told(core, COPY) == [], "it restarted: nothing of it lives"
    assert told(core, msgspec.structs.replace(ANEW, protocol=1)) == [], "it does not know the word"
    assert told(core, msgspec.structs.replace(ANEW, machine="m2")) == [], "a copy that runs under the same boot id"
    assert told(core, msgspec.structs.replace(ANEW, machine="", hostname="here")) == [launch_id], "it may be the same"
    core.set_nodes((by_ssh("a", "lab@10.0.0.2:22"),))
    assert told(core, ANEW) == [], "at another address it may be another machine"


def test_an_attempt_of_a_machine_without_an_id_is_told_to_one_that_has_got_an_id() -> None:
    core = busy_and_away(facts=msgspec.structs.replace(MACHINE, machine="", hostname="here"))
    assert len(told(core, ANEW)) == 1


def test_an_attempt_of_this_machine_is_told_once_its_node_is_reached_by_an_address() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",)), online=False)
    core.node_state("a", NodeState.ONLINE, None, MACHINE)
    submit(core, gpus=1)
    core.plan(0.0)
    core.set_nodes((A,))
    assert len(told(core, ANEW)) == 1


def test_when_an_attempt_began_is_told_by_the_clock_of_its_node() -> None:
    core = core_with(A, online=False)
    core.node_state("a", NodeState.ONLINE, None, MACHINE)
    core.clock_told("a", 90_000.0, 0.0, 0.0)
    submit(core, gpus=1)
    core.plan(0.0)
    [launch_id] = [part.launch_id for part in core.tasks[1].allocation]
    core.started("a", launch_id, 90_005.0, 5.0)
    assert core.tasks[1].started_at == 5.0
    assert [one.started_at for one in core.adoptable("a", ANEW)] == [90_005.0]


def test_an_entry_whose_agent_is_just_coming_is_the_machine_that_it_says() -> None:
    core = core_with(A, by_ssh("b", "lab@10.0.0.2:22"), online=False)
    core.node_state("a", NodeState.CONNECTING, None, MACHINE)
    assert core.same_machine("b", MACHINE) is not None


@pytest.mark.parametrize(("third", "is_renamed"), [("m3", True), ("m1", False), ("", False), (None, False)], ids=str)
def test_a_local_node_was_renamed_if_no_other_entry_may_be_the_new_one(third: str | None, *, is_renamed: bool) -> None:
    old, new, other = (NodeSpec(name=name, gpu_models=("GPU",)) for name in ("old", "new", "other"))
    core = core_with(old, other, online=False)
    core.node_state("old", NodeState.ONLINE, None, MACHINE)
    if third is not None:
        core.node_state("other", NodeState.ONLINE, None, msgspec.structs.replace(MACHINE, machine=third, boot_id="x"))
    submit(core, gpus=1, node="old")
    core.plan(0.0)
    core.set_nodes((new, other))
    assert (core.same_machine("new", MACHINE) is not None) is is_renamed


def test_what_ran_on_a_local_machine_is_over_once_it_has_restarted() -> None:
    old, new = (NodeSpec(name=name, gpu_models=("GPU",)) for name in ("old", "new"))
    core = core_with(old, online=False)
    core.node_state("old", NodeState.ONLINE, None, MACHINE)
    submit(core, gpus=1)
    core.plan(0.0)
    core.set_nodes((new,))
    assert core.same_machine("new", COPY) is None
    assert core.same_machine("new", MACHINE) is not None


def test_that_an_agent_has_adopted_an_attempt_is_written_down() -> None:
    core = busy_and_away()
    task: Task = core.tasks[1]
    core.take_outcome()
    core.adopted("a", ANEW, [Seen("another")])
    assert core.take_outcome() is None
    core.adopted("a", ANEW, [Seen(task.allocation[0].launch_id)])
    outcome = core.take_outcome()
    assert outcome is not None
    assert [one.id for one in outcome.change.tasks] == [task.id]
    assert task.allocation[0].state_id == "state-2"
    assert core.stranger("a", ANEW) is None
