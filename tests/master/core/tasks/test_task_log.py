"""Where the logs of parts with accounts of their own lie, and when there can be a log at all."""

from __future__ import annotations

import pytest

from master.core.attempts.exits import Exit
from master.core.attempts.launching import LaunchSettings, launch_message
from master.core.core import Core
from master.core.nodes.inventory import NodeState
from master.core.tasks.task import Task, TaskState
from master.core.tasks.task_log import may_have_log, part_log
from tests.master.core.nodes.test_accounts import HIS, NODE, OTHER, begun, lab_with, up
from tests.master.core.small_core import LOGS, REBOOTED, core_with, launch_of, submit
from wire.agent import Launch

SETTINGS = LaunchSettings(conda="/conda", task_env={}, grace_s=3.0, roots=(LOGS,), log_folder=LOGS)


def sent(task: Task, rank: int = 0) -> Launch:
    return launch_message(task, task.allocation[rank], SETTINGS)


def over(core: Core, task: Task, login: str = "", *, code: int = 1, node: str = "a") -> None:
    core.exited(node, Exit(launch_of(task), "exited", 3.0, code), 3.0, login)


def test_over_an_account_the_log_lies_in_its_folder_whatever_its_agent_says() -> None:
    core = lab_with()
    task = begun(core, "li", "li2", log_path=f"{LOGS}/1.log")
    assert task.log_path == f"{LOGS}/li2/1.log"
    message = sent(task)
    assert (message["log_path"], message["log_new"]) == (f"{LOGS}/li2/1.log", True)
    assert not {"placed_instead_of", "log_folder"} & message.keys()
    core.started("a", launch_of(task), 2.0, 2.0, pid=71, run_as="root", log_path="/etc/shadow", login="li2")
    assert task.log_path == f"{LOGS}/li2/1.log"
    told = Exit(launch_of(task), "exited", 3.0, 1, run_as="wang", log_path=f"{LOGS}/wang/1.log")
    core.exited("a", told, 3.0, "li2")
    assert task.log_path == f"{LOGS}/li2/1.log"
    core.retry(1)
    core.plan(4.0)
    assert (sent(task)["log_path"], sent(task)["log_new"]) == (f"{LOGS}/li2/1.log", False)


def test_the_next_attempt_over_none_has_its_log_beside_those_of_all() -> None:
    core = lab_with(NODE, OTHER)
    task = begun(core, "li", "li2", log_path=f"{LOGS}/1.log")
    over(core, task, "li2")
    core.node_state("a", NodeState.UNREACHABLE, None)
    core.retry(1)
    core.plan(4.0)
    assert (task.allocation[0].node, task.log_path) == ("b", f"{LOGS}/1.log")
    assert sent(task)["log_path"] == f"{LOGS}/1.log"
    core.started("b", launch_of(task), 5.0, 5.0, pid=72)
    assert task.log_path == f"{LOGS}/1.log"


@pytest.mark.parametrize("placed", ["/data/li2/1.log", f"{LOGS}/sub/1.log", f"{LOGS}/2.log", "/logsx/1.log"])
def test_a_log_that_somebody_placed_stays_there(placed: str) -> None:
    core = lab_with()
    task = begun(core, "li", "li2", log_path=placed)
    assert (task.log_path, sent(task)["log_path"]) == (placed, placed)
    over(core, task, "li2")
    core.retry(1)
    core.plan(4.0)
    assert (task.log_path, sent(task)["log_path"]) == (placed, placed)


def test_a_log_that_somebody_placed_in_a_folder_named_as_the_account_is_gone_on_with_there() -> None:
    core = core_with()
    task = submit(core, log_path="/data/alice/1.log")
    core.plan(0.0)
    core.started("a", launch_of(task), 2.0, 2.0, pid=5, run_as="alice", log_path="/data/alice/1.log")
    over(core, task)
    core.retry(1)
    core.plan(4.0)
    assert (sent(task)["log_path"], sent(task)["log_new"]) == ("/data/alice/1.log", False)


def test_each_part_of_a_task_has_its_log_in_the_folder_of_its_account() -> None:
    core = lab_with(NODE, OTHER)
    task = submit(core, owner="li", gpus=1, nodes=2, log_path=f"{LOGS}/1.log")
    core.plan(0.0)
    up(core, "li2")
    assert [(part.node, part.login) for part in task.allocation] == [("a", "li2"), ("b", "")]
    assert [sent(task, rank)["log_path"] for rank in (0, 1)] == [f"{LOGS}/li2/1.log", f"{LOGS}/1.1.log"]
    assert [part_log(task, rank, LOGS) for rank in (0, 1)] == [f"{LOGS}/li2/1.log", f"{LOGS}/1.1.log"]
    first, second = task.allocation
    core.started("a", first.launch_id, 2.0, 2.0, pid=70, login="li2")
    assert [may_have_log(task, LOGS, rank) for rank in (0, 1)] == [True, False]
    core.started("b", second.launch_id, 2.0, 2.0, pid=71)
    assert may_have_log(task, LOGS, 1)


def test_of_one_that_an_earlier_version_sent_over_an_account_the_log_is_where_that_put_it() -> None:
    core = lab_with()
    task = begun(core, "wang", "wang", HIS, log_path=f"{LOGS}/1.log", nodes=1)
    task.log_path = f"{LOGS}/1.log"
    assert [part_log(task, rank, LOGS) for rank in (0, 1)] == [f"{LOGS}/1.log", f"{LOGS}/1.1.log"]


def test_no_log_is_there_before_an_attempt_can_have_begun() -> None:
    core = core_with()
    task = submit(core, log_path=f"{LOGS}/1.log")
    assert not may_have_log(task, LOGS)
    core.plan(0.0)
    assert (task.state, may_have_log(task, LOGS)) == (TaskState.STARTING, False)
    core.started("a", launch_of(task), 2.0, 2.0)
    assert may_have_log(task, LOGS)
    over(core, task)
    core.retry(1)
    assert (task.state, may_have_log(task, LOGS)) == (TaskState.WAITING, True)


def test_what_somebody_named_as_the_log_is_there_before() -> None:
    assert may_have_log(submit(core_with(), log_path="/data/1.log"), LOGS)


def test_nor_of_one_that_could_not_be_started_or_was_cancelled_before() -> None:
    core = core_with()
    refused, cancelled = (submit(core, log_path=f"{LOGS}/{number}.log") for number in (1, 2))
    core.plan(0.0)
    core.exited("a", Exit(launch_of(refused), "not_started", 3.0, error="no such program", fault="task"), 3.0)
    core.cancel(cancelled.id, 3.0)
    core.exited("a", Exit(launch_of(cancelled), "killed", 3.0), 3.0)
    assert [task.state for task in (refused, cancelled)] == [TaskState.FAILED, TaskState.CANCELLED]
    assert [may_have_log(task, LOGS) for task in (refused, cancelled)] == [False, False]


def test_a_lost_attempt_may_have_written_a_log_though_nobody_heard_of_its_start() -> None:
    core = core_with()
    task = submit(core, log_path=f"{LOGS}/1.log")
    core.plan(0.0)
    core.node_state("a", NodeState.ONLINE, None, REBOOTED)
    core.reconcile("a", [], 5.0)
    assert (task.state, task.started_at, may_have_log(task, LOGS)) == (TaskState.LOST, None, True)


def test_an_old_system_may_have_written_the_log_of_a_task_that_waits() -> None:
    assert may_have_log(Task(id=24010112000000, command="x", log_path=f"{LOGS}/24010112000000.log"), LOGS)
