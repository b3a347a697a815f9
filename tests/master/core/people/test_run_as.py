"""An attempt that runs as its task's owner: what its node tells of it, and where the next attempt's log is to lie."""

from __future__ import annotations

import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.attempts.launching import LaunchSettings, launch_message
from master.core.core import Core
from master.core.tasks.task import Task, TaskState
from master.core.tasks.task_log import placed_log
from tests.master.core.small_core import core_with, launch_of, submit
from wire.agent import Launch

SETTINGS = LaunchSettings(conda="/conda", task_env={}, grace_s=3.0, log_folder="/logs", run_as_allowed=("svc", 7))


def started(core: Core, task: Task, run_as: str, log_path: str) -> None:
    core.started("a", launch_of(task), 2.0, 2.0, pid=5, run_as=run_as, log_path=log_path)


def placed(core: Core, log_path: str = "/logs/1.log") -> Task:
    task = submit(core, log_path=log_path)
    core.plan(0.0)
    return task


def launched(task: Task, run_as: str | None = "alice") -> Launch:
    return launch_message(task, task.allocation[0], SETTINGS, run_as=run_as)


def test_where_the_log_lies_is_what_the_node_says() -> None:
    core = core_with()
    task = placed(core)
    for _ in range(2):  # told again after a reconnect
        started(core, task, "alice", "/logs/alice/1.log")
        assert (task.log_path, task.allocation[0].run_as) == ("/logs/alice/1.log", "alice")
    core.exited("a", Exit(launch_of(task), "exited", 3.0, 0), 3.0)
    assert task.attempts[0].parts[0].run_as == "alice"


def test_a_log_that_stayed_where_all_logs_lie_stays() -> None:
    core = core_with()
    task = placed(core)
    started(core, task, "alice", "/logs/1.log")
    assert (task.log_path, task.allocation[0].run_as) == ("/logs/1.log", "alice")


@pytest.mark.parametrize("seen", ["inventory", "exit", "ended"])
def test_it_is_heard_also_of_an_attempt_whose_start_nobody_heard(seen: str) -> None:
    core = core_with()
    task = placed(core)
    log = "/logs/alice/1.log"
    exit_ = Exit(launch_of(task), "exited", 3.0, 0, run_as="alice", log_path=log)
    if seen == "exit":
        core.exited("a", exit_, 3.0)
    elif seen == "ended":
        core.reconcile("a", [Seen(launch_of(task), exit=exit_)], 3.0)
    else:
        core.reconcile("a", [Seen(launch_of(task), 2.0, pid=5, run_as="alice", log_path=log)], 3.0)
    assert (task.log_path, task.attempts[-1].parts[0].run_as) == (log, "alice")


@pytest.mark.parametrize(
    ("account", "told"),
    [
        ("alice", "/etc/shadow"),
        ("alice", "/logs/bob/1.log"),
        ("alice", "/logs/alice/2.log"),
        ("../etc", "/logs/../etc/1.log"),
        ("..", "/logs/../1.log"),
        ("a/b", "/logs/a/b/1.log"),
        ("al\nice", "/logs/al\nice/1.log"),
    ],
)
def test_a_node_that_names_another_file_is_not_believed(account: str, told: str) -> None:
    core = core_with()
    task = placed(core)
    started(core, task, account, told)
    assert task.log_path == "/logs/1.log"
    assert task.allocation[0].run_as in ("", "alice")


def test_a_log_that_could_not_lie_with_its_owner_this_time_is_where_all_lie() -> None:
    core = core_with()
    task = placed(core)
    started(core, task, "alice", "/logs/alice/1.log")
    core.exited("a", Exit(launch_of(task), "exited", 3.0, 1), 3.0)
    core.retry(1)
    core.plan(0.0)
    started(core, task, "alice", "/logs/1.log")
    assert (task.log_path, task.allocation[0].run_as) == ("/logs/1.log", "alice")


def test_a_log_that_its_owner_placed_is_where_he_placed_it() -> None:
    core = core_with()
    task = placed(core, "/home/alice/own.log")
    started(core, task, "alice", "/home/alice/alice/own.log")
    assert task.log_path == "/home/alice/own.log"
    message = launched(task)
    assert (message["log_path"], message["log_folder"], message["log_new"]) == ("/home/alice/own.log", "", False)


def test_the_next_attempt_is_sent_where_the_log_was_to_lie_and_goes_on_in_it() -> None:
    core = core_with()
    task = placed(core)
    first = launched(task)
    assert (first["log_path"], first["log_folder"], first["log_new"]) == ("/logs/1.log", "/logs", True)
    assert (first["run_as"], first["run_as_allowed"]) == ("alice", ["svc", 7])
    started(core, task, "alice", "/logs/alice/1.log")
    core.exited("a", Exit(launch_of(task), "exited", 3.0, 1), 3.0)
    core.retry(1)
    assert task.state is TaskState.WAITING
    core.plan(0.0)
    again = launched(task)
    assert (again["log_path"], again["log_folder"], again["log_new"]) == ("/logs/1.log", "/logs", False)
    started(core, task, "alice", "/logs/alice/1.log")
    assert task.log_path == "/logs/alice/1.log"
    core.exited("a", Exit(launch_of(task), "exited", 3.0, 1), 3.0)
    core.retry(1)
    core.plan(0.0)
    core.started("a", launch_of(task), 2.0, 2.0, pid=6)
    assert (task.log_path, task.allocation[0].run_as) == ("/logs/1.log", "")
    shared = launched(task, None)
    assert shared["log_path"] == "/logs/1.log"
    assert not {"run_as", "run_as_allowed", "log_folder"} & set(shared)


def test_a_folder_that_no_attempt_has_made_is_nobodys_but_the_askers() -> None:
    task = placed(core_with(), "/logs/sub/1.log")
    assert placed_log(task, "/logs") == "/logs/sub/1.log"
