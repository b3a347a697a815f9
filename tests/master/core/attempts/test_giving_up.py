"""What people give up of a node on which tasks run over SSH accounts: one account's part alone, or all that nobody can
tell of; never what an agent still answers for."""

from __future__ import annotations

import msgspec
import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Kill
from master.core.nodes.inventory import NodeState
from master.core.tasks.task import Task, TaskState
from tests.master.core.nodes.test_accounts import AWAY, HIS, NODE, begun, effects, lab_with, up
from tests.master.core.small_core import launch_of, submit
from wire.errors import ConflictError, NotFoundError


def shut_out(core: Core, login: str = "li2") -> None:
    core.account_state("a", login, NodeState.UNREACHABLE, AWAY)


def chiefs(core: Core) -> Task:
    """A task of the node's own account's that runs."""
    task = submit(core, owner="chief", gpus=1)
    core.plan(0.0)
    core.started("a", launch_of(task), 2.0, 2.0)
    return task


def test_what_ran_over_an_account_that_is_gone_is_lost_and_nothing_else_on_the_node() -> None:
    core = lab_with()
    hers, his, own = begun(core, "li", "li2"), begun(core, "wang", "wang", HIS), chiefs(core)
    shut_out(core)
    assert core.silent_accounts("a") == {"li2"}
    assert core.give_up_account("a", "li2", "ann", 5.0) == [hers.id]
    assert (hers.state, hers.ended_at) == (TaskState.LOST, 5.0)
    given_up = ("account_given_up", {"account": "li2", "node": "a", "by": "ann"})
    assert (hers.reason_key, hers.reason_args) == given_up
    assert (his.state, own.state) == (TaskState.RUNNING, TaskState.RUNNING)
    assert core.inventory.nodes["a"].free_gpus == [0, 3]
    assert core.silent_accounts("a") == set()
    assert core.give_up_account("a", "li2", "ann", 6.0) == []
    core.sanity_check()


def test_the_room_is_others_at_once_and_its_owner_waits_for_the_account() -> None:
    core = lab_with()
    begun(core, "li", "li2")
    goes = submit(core, owner="chief", gpus=4)
    core.plan(0.0)
    shut_out(core)
    core.give_up_account("a", "li2", "ann", 5.0)
    core.plan(0.0)
    assert len(goes.allocation[0].gpus) == 4
    waits = submit(core, owner="li")
    core.plan(0.0)
    assert "li2 there is away: the log-in failed" in str(core.why_it_waits(waits))


def test_what_is_left_of_it_is_ended_before_its_account_or_its_gpus_take_anything_should_its_agent_come_back() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    launch_id = launch_of(hers)
    shut_out(core)
    core.give_up_account("a", "li2", "ann", 5.0)
    effects(core)
    core.reconcile("a", [Seen(launch_id, 2.0)], 9.0, "li2")
    assert effects(core) == [Kill("a", launch_id, "li2")]
    assert "li2" in core.inventory.nodes["a"].accounts.cordons
    assert core.inventory.nodes["a"].free_gpus == [1, 2, 3]
    shut_out(core)
    assert core.silent_accounts("a") == {"li2"}
    assert core.give_up_account("a", "li2", "ann", 10.0) == []  # nor is anything kept for what nobody can tell of
    assert core.inventory.nodes["a"].free_gpus == [0, 1, 2, 3]
    core.reconcile("a", [Seen(launch_id, 2.0)], 11.0, "li2")
    core.exited("a", Exit(launch_id, "killed", 12.0), 12.0, "li2")
    assert not core.inventory.nodes["a"].accounts.cordons
    assert core.inventory.nodes["a"].free_gpus == [0, 1, 2, 3]
    assert hers.state is TaskState.LOST


@pytest.mark.parametrize("account", ["li", "carol", "root"])
def test_an_account_that_nothing_there_has_to_do_with_is_refused_with_those_that_do(account: str) -> None:
    core = lab_with()
    with pytest.raises(NotFoundError, match=r"lab, li2, wang.*muster node show a"):
        core.give_up_account("a", account, "ann", 5.0)


def test_what_its_agent_answers_for_is_not_given_up() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    with pytest.raises(ConflictError, match="li2 on node a answers"):
        core.give_up_account("a", "li2", "ann", 5.0)
    with pytest.raises(ConflictError, match="lab on node a answers"):
        core.give_up_account("a", "lab", "ann", 5.0)
    assert hers.state is TaskState.RUNNING


def test_an_account_that_nothing_names_any_more_can_be_given_up_while_something_of_it_runs() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    core.set_nodes((msgspec.structs.replace(NODE, accounts=(("wang", "wang"),)),))
    shut_out(core)
    core.forget_account("a", "li2")
    assert core.silent_accounts("a") == {"li2"}
    assert core.give_up_account("a", "li2", "ann", 5.0) == [hers.id]


def test_a_node_that_is_given_up_keeps_what_the_agent_of_an_account_answers_for() -> None:
    core = lab_with()
    hers, his, own = begun(core, "li", "li2"), begun(core, "wang", "wang", HIS), chiefs(core)
    shut_out(core)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    assert core.give_up("a", "ann", 5.0) == [hers.id, own.id]
    assert his.state is TaskState.RUNNING
    shut_out(core, "wang")
    assert core.give_up("a", "ann", 6.0) == [his.id]


def test_the_node_s_own_account_is_given_up_by_its_name_while_its_owners_tasks_run_on() -> None:
    core = lab_with()
    hers, own = begun(core, "li", "li2"), chiefs(core)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    shut_out(core)
    assert core.give_up_account("a", "lab", "ann", 5.0) == [own.id]
    assert hers.state is TaskState.RUNNING


def test_one_part_of_a_task_on_several_nodes_takes_the_others_with_it() -> None:
    core = lab_with(NODE, msgspec.structs.replace(NODE, name="b", address="lab@10.0.0.2:22"))
    task = submit(core, owner="li", gpus=4, nodes=2)
    core.plan(0.0)
    up(core, "li2")
    core.account_state("b", "li2", NodeState.CONNECTING, None, core.inventory.nodes["a"].accounts.agents["li2"].facts)
    core.account_state("b", "li2", NodeState.ONLINE)
    core.plan(0.0)
    for part in task.allocation:
        core.started(part.node, part.launch_id, 2.0, 2.0, login="li2")
    effects(core)
    shut_out(core)
    assert core.give_up_account("a", "li2", "ann", 5.0) == [task.id]
    left = task.allocation[1]
    assert Kill("b", left.launch_id, "li2") in effects(core)
    assert task.state is TaskState.RUNNING
    core.exited("b", Exit(left.launch_id, "killed", 6.0), 6.0, "li2")
    given_up = {"key": "account_given_up", "args": {"account": "li2", "node": "a", "by": "ann"}}
    assert task.state is TaskState.LOST
    assert (task.reason_key, task.reason_args) == ("of_part", {"rank": 0, "node": "a", "why": given_up})


def test_what_was_cancelled_before_stays_cancelled_by_whom_it_was() -> None:
    core = lab_with()
    hers = begun(core, "li", "li2")
    shut_out(core)
    core.cancel(hers.id, 3.0, by="li")
    core.give_up_account("a", "li2", "ann", 5.0)
    assert hers.attempts[-1].asked_end is not None
    assert (hers.attempts[-1].asked_end.why, hers.attempts[-1].asked_end.by) == ("cancel", "li")
