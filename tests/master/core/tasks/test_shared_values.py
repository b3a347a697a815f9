"""What tasks of one owner have in common is in memory once."""

from __future__ import annotations

import tracemalloc
from copy import copy
from typing import Any

import msgspec

from master.core.tasks.records import read_tasks
from master.core.tasks.task import Task
from tests.master.core.small_core import core_with, submit

TASKS = 2_000
MOST_BYTES = 1_100
"""For a task and what is its own alone; each is written as 330 bytes."""


def line(number: int, owner: str = "wang", **said: Any) -> dict[str, Any]:
    return {
        "id": number, "name": "train", "owner": owner, "command": ["python", "train.py", "--seed", f"seed {number}"],
        "cwd": "/home/wang/projects/vision", "env": "torch", "setup": "module load cuda", "gpus": 1,
        "variables": {"OMP_NUM_THREADS": "4"}, "submitted_at": 1795910222.3354254,
        "log_path": f"/srv/lab/train_logs/{number}.log", "seq": 7000, **said,
    }  # fmt: skip


def read(*lines: dict[str, Any]) -> list[Task]:
    return read_tasks(msgspec.json.encode(lines))


def same(one: Task, other: Task) -> list[str]:
    """The names of the fields in which two tasks have the same object."""
    names = ("name", "owner", "cwd", "env", "setup", "variables", "command", "submitted_at", "seq")
    return [name for name in names if getattr(one, name) is getattr(other, name)]


def test_tasks_that_are_read_share_what_is_equal_with_the_task_before_of_their_owner() -> None:
    first, other, second = read(line(1), line(2, "zhao", name="eval"), line(3, cwd="/home/wang/other"))
    assert same(first, second) == ["name", "owner", "env", "setup", "variables", "submitted_at", "seq"]
    assert [one is two for one, two in zip(first.command, second.command, strict=True)] == [True, True, True, False]
    assert same(first, other) == []


def test_what_is_read_is_as_it_was_written() -> None:
    lines = [line(1), line(2, command="bash run.sh"), line(3, command=["python"]), line(4, variables={"A": "1"})]
    lines += [line(5, command=["python", "train.py", "--seed", "5", "--long"]), line(6, "zhao", setup="")]
    told = [msgspec.to_builtins(task) for task in read(*lines)]
    assert told == [{key: value for key, value in one.items() if value != ""} for one in lines]


def test_a_task_that_is_submitted_shares_what_is_equal_with_the_task_before_of_its_owner() -> None:
    core = core_with()
    first, second = (submit(core, **{key: line(7)[key] for key in ("name", "owner", "cwd", "variables")}) for _ in "ab")
    assert {"name", "owner", "cwd", "variables"} <= {*same(first, second)}


def test_an_edit_of_a_task_changes_nothing_of_those_that_had_the_same_values() -> None:
    core = core_with()
    said = {key: line(7)[key] for key in ("owner", "cwd", "variables")}
    first, second = (submit(core, **said) for _ in "ab")
    edited = copy(first)
    edited.variables, edited.cwd = {"OMP_NUM_THREADS": "8"}, "/home/wang/other"
    core.edit(edited)
    assert (second.variables, second.cwd) == (said["variables"], said["cwd"])
    assert submit(core, **said).variables == said["variables"]


def test_a_task_keeps_its_owner_though_the_task_before_was_given_to_another() -> None:
    core = core_with()
    first = submit(core, owner="wang")
    core.people.add("zhao", {"wang"})
    core.claim("wang", "zhao")
    assert (first.owner, submit(core, owner="wang").owner) == ("zhao", "wang")


def test_many_tasks_take_little_memory_each() -> None:
    data = msgspec.json.encode([line(number) for number in range(TASKS)])
    read_tasks(data)
    tracemalloc.start()
    try:
        tasks = read_tasks(data)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(tasks) == TASKS
    assert taken / TASKS < MOST_BYTES
