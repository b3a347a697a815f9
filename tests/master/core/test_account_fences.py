"""What one account's agent says of its own attempts closes a shared node to that account alone, and the GPUs that the
master itself gave such an attempt stay held."""

from __future__ import annotations

import msgspec
import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.nodes.inventory import NodeState
from master.core.tasks.task import Task, TaskState
from tests.master.core.nodes.test_accounts import AWAY, HIS, NODE, begun, lab_with
from tests.master.core.small_core import core_with, launch_of, submit


def asked(core: Core, owner: str, **wants: object) -> Task:
    """A task of theirs, after a round of planning."""
    task = submit(core, owner=owner, **{"gpus": 1, **wants})
    core.plan(0.0)
    return task


def removed(core: Core) -> int:
    """The id of a task that was removed: an attempt of it is nobody's, and the lab has forgotten nothing."""
    task = submit(core, owner="li")
    core.remove(task.id, 2.0)
    return task.id


def given_up(core: Core) -> Task:
    """A task of li's whose account was given up, and whose agent then says that it is alive."""
    task = begun(core, "li", "li2")
    core.account_state("a", "li2", NodeState.UNREACHABLE, AWAY)
    core.give_up_account("a", "li2", "ann", 5.0)
    core.account_state("a", "li2", NodeState.ONLINE)
    core.reconcile("a", [Seen(launch_of(task), 2.0)], 9.0, "li2")
    return task


def test_an_account_s_unproven_attempt_closes_the_node_to_that_account_alone() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    begun(core, "wang", "wang", HIS)
    core.unproven("a", launch_of(hers), (7, 8), "li2")
    assert not core.node("a").cordons
    waits, his, chiefs = asked(core, "li"), asked(core, "wang"), asked(core, "chief")
    assert (waits.allocation, bool(his.allocation), bool(chiefs.allocation)) == ([], True, True)
    why = str(core.why_it_waits(waits))
    assert "li2" in why
    assert "7, 8" in why
    assert hers.allocation[0].gpus[0] not in core.node("a").free_gpus
    core.unproven("a", launch_of(hers), (), "li2")
    core.exited("a", Exit(launch_of(hers), "unknown", 9.0), 9.0, "li2")
    core.plan(0.0)
    assert waits.allocation


def test_the_node_s_own_agent_closes_the_node_to_all_as_before() -> None:
    core = lab_with()
    own = begun(core, "deng", "")
    begun(core, "li", "li2")
    gone = f"{removed(core)}.1.x"
    core.unproven("a", launch_of(own), (7,))
    assert "7" in str(core.node("a").closed_because)
    assert asked(core, "li").allocation == []
    core.unproven("a", launch_of(own), ())
    core.reconcile("a", [Seen(launch_of(own), 2.0), Seen(gone, 1.0)], 3.0)
    assert "remnants" in core.node("a").cordons


def test_endless_remnants_of_an_account_close_no_node() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    begun(core, "wang", "wang", HIS)
    made_up = [Seen(f"{number}.1.x", 1.0, unproven=(number,)) for number in range(50, 90)]
    core.reconcile("a", [Seen(launch_of(hers), 2.0), *made_up], 3.0, "li2")
    waits, his = asked(core, "li"), asked(core, "wang")
    assert (waits.allocation, bool(his.allocation)) == ([], True)
    assert "40 attempts" in str(core.why_it_waits(waits))
    assert not core.node("a").cordons
    core.reconcile("a", [Seen(launch_of(hers), 2.0)], 4.0, "li2")
    core.plan(0.0)
    assert waits.allocation


def test_what_a_given_up_attempt_was_given_stays_held_while_its_agent_says_that_it_lives() -> None:
    core = lab_with()
    task = given_up(core)
    [gpu] = task.allocation[0].gpus
    assert gpu not in core.node("a").free_gpus
    assert asked(core, "wang", gpus=4).allocation == []
    assert asked(core, "chief", gpus=3).allocation[0].gpus == [one for one in range(4) if one != gpu]
    assert not core.node("a").cordons
    core.exited("a", Exit(launch_of(task), "killed", 12.0), 12.0, "li2")
    assert gpu in core.node("a").free_gpus


def test_no_share_of_a_gpu_that_such_an_attempt_has_is_given_out() -> None:
    core = lab_with(msgspec.structs.replace(NODE, gpu_models=("GPU",), gpu_memory_mib=(10_000,)))
    given_up(core)
    assert asked(core, "chief", share=True, gpu_memory_mib=1000).allocation == []


def test_an_agent_holds_no_gpus_by_attempts_whose_end_it_told_itself() -> None:
    core = lab_with()
    ended = begun(core, "li", "li2")
    core.exited("a", Exit(launch_of(ended), "exited", 3.0, 0), 3.0, "li2")
    omitted = begun(core, "li", "li2")
    core.reconcile("a", [], 4.0, "li2")
    assert omitted.state is TaskState.LOST
    core.reconcile("a", [Seen(launch_of(ended), 2.0), Seen(launch_of(omitted), 2.0)], 5.0, "li2")
    assert core.node("a").free_gpus == [0, 1, 2, 3]
    assert asked(core, "chief", gpus=4).allocation


def test_an_account_s_word_of_what_the_node_s_own_agent_has_takes_nothing_back() -> None:
    core = lab_with()
    begun(core, "li", "li2")
    gone = f"{removed(core)}.1.x"
    core.reconcile("a", [Seen(gone, 1.0)], 3.0)
    core.reconcile("a", [Seen(gone, 1.0)], 3.0, "li2")
    core.exited("a", Exit(gone, "killed", 4.0), 4.0, "li2")
    core.reconcile("a", [], 5.0, "li2")
    assert "remnants" in core.node("a").cordons
    core.exited("a", Exit(gone, "killed", 6.0), 6.0)
    assert not core.node("a").cordons


@pytest.mark.parametrize("liar", ["wang", "carol"])
def test_an_agent_holds_no_gpus_by_attempts_of_another_account(liar: str) -> None:
    core = lab_with()
    task = begun(core, "li", "li2")
    core.account_state("a", "li2", NodeState.UNREACHABLE, AWAY)
    core.give_up_account("a", "li2", "ann", 5.0)
    core.reconcile("a", [Seen(launch_of(task), 2.0)], 9.0, liar)
    assert core.node("a").free_gpus == [0, 1, 2, 3]


def test_what_an_earlier_attempt_of_a_task_has_is_held_too() -> None:
    core = lab_with()
    task = given_up(core)
    [gpu] = task.allocation[0].gpus
    core.exited("a", Exit(launch_of(task), "killed", 12.0), 12.0, "li2")
    launch_id = launch_of(task)
    core.retry(task.id)
    assert task.earlier
    core.reconcile("a", [Seen(launch_id, 2.0)], 14.0, "li2")
    assert gpu not in core.node("a").free_gpus


def test_a_closed_account_stays_closed_while_its_agent_is_away_and_says_both() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    core.unproven("a", launch_of(hers), (7,), "li2")
    core.account_state("a", "li2", NodeState.UNREACHABLE, AWAY)
    waits = asked(core, "li")
    assert "7" in str(core.why_it_waits(waits))
    assert asked(core, "chief").allocation


def test_a_task_that_is_given_up_takes_its_unproven_processes_out_of_the_account_s_way() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    core.unproven("a", launch_of(hers), (7,), "li2")
    core.account_state("a", "li2", NodeState.UNREACHABLE, AWAY)
    core.give_up_account("a", "li2", "ann", 5.0)
    core.account_state("a", "li2", NodeState.ONLINE)
    core.plan(0.0)
    assert asked(core, "li").allocation


def test_without_accounts_nothing_of_an_agent_is_any_account_s() -> None:
    core = core_with(msgspec.structs.replace(NODE, accounts=None))
    gone = f"{removed(core)}.1.x"
    core.reconcile("a", [Seen(gone, 1.0)], 3.0)
    assert "remnants" in core.node("a").cordons
