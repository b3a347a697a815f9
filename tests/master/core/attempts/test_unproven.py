"""Attempts whose records are lost: what agents are told of them, and what holds while nothing proves their tree."""

from __future__ import annotations

import msgspec

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.nodes.inventory import Facts, NodeSpec, NodeState
from master.core.tasks.task import Task, TaskState
from tests.master.core.nodes.test_accounts import HIS, begun, lab_with
from tests.master.core.small_core import core_with, launch_of, submit
from wire.agent import TELLS_DOUBT

FACTS = Facts(boot_id="boot-1", state_id="state-1", cpus=4, memory_mib=1000, machine="m1", protocol=TELLS_DOUBT)


def running() -> tuple[Core, Task, str]:
    """A task that runs on node a, and its launch id."""
    core = core_with(NodeSpec(name="a", gpu_models=("GPU", "GPU")), online=False)
    core.node_state("a", NodeState.ONLINE, None, FACTS)
    task = submit(core, gpus=1, node="a")
    core.plan(0.0)
    launch_id = task.allocation[0].launch_id
    core.started("a", launch_id, 1.0, 1.0, pid=7, pid_start=8)
    return core, task, launch_id


def test_an_agent_is_told_of_what_ran_and_is_missing_and_of_what_it_is_in_doubt_of() -> None:
    core, task, launch_id = running()
    [told] = core.unaccounted("a", FACTS, [])
    assert (told.launch_id, told.pid, told.pid_start) == (launch_id, 7, 8)
    assert core.unaccounted("a", FACTS, [Seen(launch_id, doubt=True)]) == [told]
    assert core.unaccounted("a", FACTS, [Seen(launch_id, 1.0)]) == []
    assert core.unaccounted("gone", FACTS, []) == []
    assert task.state is TaskState.RUNNING


def test_an_agent_that_does_not_know_the_word_is_told_nothing() -> None:
    core, _, _ = running()
    assert core.unaccounted("a", msgspec.structs.replace(FACTS, protocol=1), []) == []


def test_what_was_sent_and_not_heard_of_is_sent_again_and_not_told() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",)), online=False)
    core.node_state("a", NodeState.ONLINE, None, FACTS)
    submit(core, gpus=1, node="a")
    core.plan(0.0)
    assert core.unaccounted("a", FACTS, []) == []


def test_while_nothing_is_proven_the_node_takes_nothing_and_a_cancel_says_why() -> None:
    core, task, launch_id = running()
    core.unproven("a", launch_id, (11, 12))
    assert core.warning(task) is not None
    assert core.some_may_be_warned()
    assert core.warned() == [task.id]
    assert "11, 12" in (core.node("a").closed_because or "")
    second = submit(core, gpus=1, node="a")
    core.plan(2.0)
    assert second.state is TaskState.WAITING
    assert not core.cancel(task.id, 2.0, by="root")
    assert "11, 12" in str(core.why_not_ended(task))
    core.exited("a", Exit(launch_id, "killed", 3.0), 3.0)
    core.plan(3.0)
    assert (task.state, second.state) == (TaskState.CANCELLED, TaskState.STARTING)
    assert not core.some_may_be_warned()


def test_a_command_that_lives_and_cannot_be_signalled_keeps_what_it_has_and_no_more() -> None:
    core, task, launch_id = running()
    core.reconcile("a", [Seen(launch_id, 1.0, pid=7, unproven=(7, 9))], 2.0)
    assert core.node("a").takes_tasks
    assert "7, 9" in str(core.why_not_ended(task))
    held = task.allocation[0].gpus
    second = submit(core, gpus=1, node="a")
    core.plan(2.0)
    assert second.allocation[0].gpus != held
    core.unproven("a", launch_id, (9,))
    assert "9" in str(core.node("a").closed_because)
    core.unproven("a", launch_id, (7, 9))
    assert core.node("a").takes_tasks
    assert not core.cancel(task.id, 3.0, by="root")
    core.exited("a", Exit(launch_id, "killed", 4.0), 4.0)
    assert task.state is TaskState.CANCELLED


def test_what_an_agent_says_of_it_no_more_is_over() -> None:
    core, task, launch_id = running()
    core.reconcile("a", [Seen(launch_id, 1.0, unproven=(11,))], 2.0)
    assert not core.node("a").takes_tasks
    core.reconcile("a", [Seen(launch_id, 1.0)], 3.0)
    assert core.node("a").takes_tasks
    core.unproven("a", launch_id, (11,))
    core.unproven("a", launch_id, ())
    assert core.node("a").takes_tasks
    assert core.why_not_ended(task) is None


def test_no_other_node_has_a_word_in_it() -> None:
    core, task, launch_id = running()
    core.unproven("b", launch_id, (11,))
    assert core.warning(task) is None
    core.unproven("a", launch_id, (11,))
    core.unproven("a", launch_id, (), "another account")
    assert core.warning(task) is not None


def test_of_what_nobody_owns_the_node_waits_too() -> None:
    core, _, launch_id = running()
    core.reconcile("a", [Seen(launch_id, 1.0), Seen("9.1.0", 1.0, unproven=(11,))], 2.0)
    assert "11" in (core.node("a").closed_because or "")


def test_an_agent_has_no_word_in_what_was_sent_to_another_account() -> None:
    core = lab_with()
    hers, his = begun(core, "li", "li2"), begun(core, "wang", "wang", HIS)
    core.unproven("a", launch_of(hers), (7,), "wang")
    core.reconcile("a", [Seen(launch_of(his), 2.0), Seen(launch_of(hers), None, unproven=(7,))], 3.0, "wang")
    assert core.why_not_ended(hers) is None
    assert core.warning(hers) is None
    core.unproven("a", launch_of(hers), (7,), "li2")
    assert "7" in str(core.why_not_ended(hers))


def test_what_was_never_sent_to_an_agent_closes_no_node() -> None:
    core = lab_with()
    begun(core, "wang", "wang", HIS)
    core.unproven("a", "77.1.abc", (7,), "wang")
    assert not core.inventory.nodes["a"].cordons
