"""What is told of a node when something of it changes: people see it, and the planner is asked where it may matter."""

from __future__ import annotations

from collections.abc import Callable

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.accounts import AccountAgent
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.nodes.node import Restriction
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from wire.message import Message

A = NodeSpec(name="a", address="lab@10.0.0.1:22", gpu_models=("GPU",))
B = NodeSpec(name="b", address="lab@10.0.0.1:22", gpu_models=("GPU",))
WHY = Message("link_said", said="no")
RESTRICTION = Restriction(frozenset({"li"}), WHY)


def seen(core: Core) -> set[str]:
    """The nodes of which something was to be told since the last look."""
    outcome = core.take_outcome()
    return set() if outcome is None else outcome.nodes


def quiet(*specs: NodeSpec) -> Core:
    core = core_with(*(specs or (A,)))
    core.plan(0.0)
    core.take_outcome()
    assert not core.plan_needed
    return core


def test_what_may_matter_to_the_plan_is_told_and_planned_for() -> None:
    changes: list[Callable[[Core], object]] = [
        lambda core: core.cordon("a", "twin", WHY),
        lambda core: core.restrict("a", RESTRICTION),
        lambda core: core.tokens_told("a", WHY),
        lambda core: core.keep_apart(lambda owner: owner),
        lambda core: core.want_account("a", "li"),
        lambda core: core.node_state("a", NodeState.ONLINE, None, BOOT),
        lambda core: core.node_state("a", NodeState.ONLINE, WHY),
        lambda core: core.account_state("a", "li", NodeState.ONLINE, WHY),
        lambda core: core.gpus_unseen("a") if core.gpus_expected("a") is None else None,
        lambda core: core.keep_from_root("chief"),
    ]
    for change in changes:
        core = quiet()
        change(core)
        assert (seen(core), core.plan_needed) == ({"a"}, True)


def test_what_stays_as_it_is_is_told_to_nobody() -> None:
    changes: list[Callable[[Core], object]] = [
        lambda core: core.cordon("a", "twin", None),
        lambda core: core.restrict("a", None),
        lambda core: core.tokens_told("a", None),
        lambda core: core.forget_account("a", "li"),
        lambda core: core.node_state("a", NodeState.ONLINE),
        lambda core: core.keep_from_root(None),
        lambda core: core.gpus_unseen("a"),
    ]
    for nothing in changes:
        core = quiet()
        nothing(core)
        assert (seen(core), core.plan_needed) == (set(), False)


def test_of_a_node_that_has_left_nothing_is_kept() -> None:
    core, name = quiet(), "gone"
    core.node_state(name, NodeState.ONLINE, None, BOOT)
    core.account_state(name, "li", NodeState.ONLINE)
    core.cordon(name, "twin", WHY)
    core.restrict(name, RESTRICTION)
    core.tokens_told(name, WHY)
    core.forget_account(name, "li")
    core.node_load(name, [1.0, 2.0, 3.0], 0.5)
    core.clock_told(name, 5.0, None, 5.0)
    core.gpus_expected(name)
    core.gpus_unseen(name)
    core.gpus_seen(name, [], 1.0)
    core.rested(name)
    core.rested(name, "li")
    assert (seen(core), core.plan_needed, [*core.inventory.nodes]) == (set(), False, ["a"])


def test_the_load_of_a_node_is_known_and_told_to_nobody() -> None:
    core = quiet()
    core.node_load("a", [1.0, 2.0, 3.0], 0.5)
    assert (core.inventory.nodes["a"].load, core.inventory.nodes["a"].clock_offset) == ([1.0, 2.0, 3.0], 0.5)
    assert seen(core) == set()


def test_a_node_whose_machine_may_be_another_is_pending_and_nothing_of_it_is_known() -> None:
    core = quiet()
    core.node_state("a", NodeState.UNREACHABLE, WHY)
    core.account_state("a", "li", NodeState.ONLINE)
    core.take_outcome()
    core.forget_facts("a")
    node = core.inventory.nodes["a"]
    assert (node.state, node.facts, node.reason, node.link_says) == (NodeState.CONNECTING, None, None, None)
    assert node.accounts.agents == {}
    assert seen(core) == {"a"}


def test_an_agent_of_an_account_that_nobody_talks_to_any_more_is_forgotten() -> None:
    core = quiet()
    core.want_account("a", "li")
    assert isinstance(core.inventory.nodes["a"].accounts.agents["li"], AccountAgent)
    core.plan(0.0)
    core.take_outcome()
    core.forget_account("a", "li")
    assert core.inventory.nodes["a"].accounts.agents == {}
    assert (seen(core), core.plan_needed) == ({"a"}, True)


def test_a_node_that_is_renamed_while_busy_takes_nothing_under_its_new_name_before_the_last_task_ended() -> None:
    core = quiet()
    task = submit(core, gpus=1)
    core.plan(0.0)
    elsewhere = NodeSpec(name="c", address="lab@10.0.0.3:22", gpu_models=("GPU",))
    nowhere = NodeSpec(name="d", gpu_models=("GPU",))
    core.set_nodes((B, elsewhere, nowhere))
    nodes = core.inventory.nodes
    assert [*nodes] == ["b", "c", "d", "a"], "what is leaving comes last"
    assert "a" in str(nodes["b"].cordons["twin"])
    assert (nodes["c"].cordons, nodes["d"].cordons, [*nodes["a"].cordons]) == ({}, {}, ["leaving"])
    core.take_outcome()
    core.exited("a", Exit(launch_of(task), "exited", 3.0, 0), 3.0)
    nodes = core.inventory.nodes
    assert [*nodes] == ["b", "c", "d"]
    assert nodes["b"].cordons == {}
    assert {"a", "b"} <= seen(core)


def test_another_registry_is_planned_for() -> None:
    core = quiet()
    core.set_nodes((A,))
    assert core.plan_needed
