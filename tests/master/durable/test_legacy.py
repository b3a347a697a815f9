"""The old system's entries, as its master wrote them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from master.core.tasks.attempt import Part
from master.core.tasks.backlog import order_of
from master.core.tasks.task import After, Task, TaskState
from master.durable.legacy import (
    EXEC,
    HIST,
    WAIT,
    NotLegacyError,
    OldFolders,
    drop_met,
    is_legacy,
    may_still_run,
    refuse_twin,
    settle,
    to_task,
)
from wire.message import Message

ENTRY = {
    "task_id": "26112106053964", "envs": "base", "path": "/data/p/", "exec": "python a.py", "need_gpus": "1",
    "slaver": "<默认>", "prev": "(无)", "is_urgent": 0, "is_reuse_gpu": 0, "state": "wait",
}  # fmt: skip


def entry(**changes: Any) -> dict[str, Any]:
    return ENTRY | changes


def test_a_waiting_entry_keeps_what_its_owner_asked_for() -> None:
    task = to_task(entry(slaver="node3", need_gpus=2, is_urgent=1, is_reuse_gpu=1, gpu_num=[0, 1]))
    assert (task.id, task.state, task.owner) == (26112106053964, TaskState.WAITING, "desktop")
    assert (task.command, task.cwd, task.env, task.gpus, task.node) == ("python a.py", "/data/p/", "base", 2, "node3")
    assert task.urgent
    assert task.share
    assert time.localtime(task.submitted_at)[:5] == (2026, 11, 21, 6, 5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("wait", "waiting"), ("pexec", "lost"), ("exec", "lost"), ("accp", "succeeded"), ("err", "failed"),
        ("term", "cancelled"), ("offline_error", "lost"),
    ],
)  # fmt: skip
def test_states_are_translated(old: str, new: str) -> None:
    task = to_task(entry(state=old))
    assert task.state == new
    assert (task.state is not TaskState.LOST) or task.reason


@pytest.mark.parametrize("nothing", ["", "<默认>"])
def test_marks_for_any_node(nothing: str) -> None:
    assert to_task(entry(slaver=nothing)).node is None


@pytest.mark.parametrize("nothing", ["", "(无)", None])
def test_marks_for_no_predecessor(nothing: str | None) -> None:
    assert to_task(entry(prev=nothing)).after == []


def test_a_predecessor_counts_whatever_its_end() -> None:
    first = to_task(entry())
    second = to_task(entry(task_id="26112106053965", prev="26112106053964"))
    third = to_task(entry(task_id="26112106053966", prev="26112106053900"))
    drop_met([first, second, third])
    assert second.after == second.waits_for == [After(26112106053964, on="any")]
    assert third.waits_for == []


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (WAIT, "", "waiting"), (WAIT, "accp", "waiting"), (WAIT, "offline_error", "waiting"), (WAIT, "pexec", "lost"),
        (WAIT, "exec", "lost"), (EXEC, "", "lost"), (EXEC, "wait", "lost"), (EXEC, "exec", "lost"),
        (EXEC, "term", "cancelled"), (HIST, "", "lost"), (HIST, "wait", "lost"), (HIST, "exec", "lost"),
        (HIST, "accp", "succeeded"), (HIST, "offline_error", "lost"),
    ],
)  # fmt: skip
def test_the_list_that_an_entry_lies_in_counts_more_than_its_state(file: str, old: str, new: str) -> None:
    task = to_task(entry(state=old), file)
    assert task.state == new
    assert (task.reason is not None) == (new == "lost")
    assert may_still_run(task.reason) == (new == "lost" and file != HIST)


def test_where_it_ran_is_known_of_what_was_started() -> None:
    assert to_task(entry(slaver="a", state="err", gpu_num=[2, "3"])).allocation == [Part("a", [2, 3])]
    (attempt,) = to_task(entry(slaver="a", state="err", gpu_num=[2, "3"])).attempts
    assert (attempt.no, attempt.parts) == (1, [Part("a", [2, 3])])
    assert to_task(entry(slaver="a", state="err", gpu_num="odd")).allocation == [Part("a", [])]
    assert to_task(entry(slaver="a", state="wait", gpu_num=[0])).allocation == []


@pytest.mark.parametrize(("given", "gpus"), [("2", 2), (2, 2), (" 1 ", 1), ("", 0), ("0", 0)])
def test_gpus_are_counted_whether_a_text_or_a_number(given: str | int, gpus: int) -> None:
    assert to_task(entry(need_gpus=given)).gpus == gpus


def test_a_task_waits_neither_for_what_is_over_nor_for_what_is_gone_nor_for_itself() -> None:
    over = to_task(entry(task_id="26112106053900", state="accp"), HIST)
    waits = [
        to_task(entry(task_id=f"2611210605396{digit}", prev=prev), WAIT)
        for digit, prev in enumerate(("26112106053900", "26010100000000", "26112106053962", "26112106053960"))
    ]
    settle([*waits, over])
    assert [[after.id for after in task.waits_for] for task in waits] == [[], [], [], [26112106053960]]


def test_old_tasks_come_in_their_order_and_before_every_new_one() -> None:
    known = [to_task(entry(task_id=number), WAIT) for number in ("26112106053968", "26112106053964", "26112106053966")]
    ended = to_task(entry(task_id="26112106053900", state="accp"), HIST)
    settle([*known, ended])
    new = Task(id=1, command="x")
    assert [task.id for task in sorted([new, *reversed(known)], key=order_of)] == [*(task.id for task in known), 1]
    assert ended.position is None


@pytest.mark.parametrize(
    ("path", "cwd"),
    [("/data/p/", "/home/lab/data/p"), ("/data//p", "/home/lab/data/p"), ("data/p", "/home/lab/data/p"),
     ("/", "/home/lab"), ("", "/home/lab"), ("/data/项目 1/", "/home/lab/data/项目 1")],
)  # fmt: skip
def test_folder_and_log_get_their_whole_paths(path: str, cwd: str) -> None:
    task = to_task(entry(path=path))
    settle([task], OldFolders("/home/lab", "/home/lab/data/logs"))
    assert (task.cwd, task.log_path) == (cwd, "/home/lab/data/logs/26112106053964.log")


def test_two_tasks_of_one_id_are_refused_and_one_written_twice_is_not() -> None:
    seen: dict[int, Task] = {}
    refuse_twin(to_task(entry()), seen)
    refuse_twin(to_task(entry()), seen)
    refuse_twin(to_task(entry(task_id="26112106053965")), seen)
    with pytest.raises(NotLegacyError) as refused:
        refuse_twin(to_task(entry(exec="another")), seen)
    assert refused.value.what == Message("old_id_twice", id="26112106053964", free="26112106053966")


@pytest.mark.parametrize(
    "changes",
    [{"task_id": "../x"}, {"task_id": "7"}, {"need_gpus": "many"}, {"need_gpus": -1}, {"state": "odd"}, {"prev": "a"},
     {"exec": 5}, {"exec": "a\0b"}, {"path": "\0"}, {"task_id": "2" * 15}, {"task_id": "9" * 5000},
     {"need_gpus": "9" * 5000}, {"prev": 7}, {"is_urgent": "1"}],
)  # fmt: skip
def test_what_the_old_system_could_not_have_written_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(NotLegacyError):
        to_task(entry(**changes))


def test_our_own_entries_are_not_taken_for_old_ones() -> None:
    assert is_legacy(ENTRY)
    assert not is_legacy({"id": 1, "command": "x"})
    assert not is_legacy(["task_id"])
