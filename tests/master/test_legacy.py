"""The old system's entries, as its master wrote them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from master.legacy import NotLegacyError, drop_met, is_legacy, to_task
from master.task import After, TaskState

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
    "changes",
    [{"task_id": "../x"}, {"task_id": "7"}, {"need_gpus": "many"}, {"need_gpus": -1}, {"state": "odd"}, {"prev": "a"},
     {"exec": 5}],
)  # fmt: skip
def test_what_the_old_system_could_not_have_written_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(NotLegacyError):
        to_task(entry(**changes))


def test_our_own_entries_are_not_taken_for_old_ones() -> None:
    assert is_legacy(ENTRY)
    assert not is_legacy({"id": 1, "command": "x"})
    assert not is_legacy(["task_id"])
