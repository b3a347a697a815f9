"""Which places the tasks of the queue need: they run there, log there, or take their environment from there."""

from __future__ import annotations

import posixpath
from collections.abc import Generator, Iterator

from master.core.tasks.task import ACTIVE, ENDED, Task
from master.files.needed import Needed
from master.verbs.base import Context
from wire.message import Message

SLICE = 1000
"""Tasks that are looked at between two chances for others: about 2 ms of them."""


def needed_by_tasks(context: Context) -> Generator[None, None, list[Needed]]:
    """One entry a place, with the first task that needs it; made in slices, for a queue may hold a hundred thousand."""
    found, tasks = dict[str, Needed](), list(context.core.tasks.values())
    for begin in range(0, len(tasks), SLICE):
        for task in tasks[begin : begin + SLICE]:
            if task.state not in ENDED:
                for path, why in _places(task, context.master.conda):
                    if path not in found:
                        found[path] = Needed(path, why)
        yield
    return list(found.values())


def _places(task: Task, conda: str) -> Iterator[tuple[str, Message]]:
    yield task.cwd, Message("holds_task", id=task.id, state=task.state)
    if task.env:
        path = task.env if task.env.startswith("/") else f"{conda}/envs/{task.env}"
        yield path, Message("holds_task_env", id=task.id, state=task.state)
    if task.log_path and task.state in ACTIVE:
        yield posixpath.dirname(task.log_path), Message("holds_task_log", id=task.id, state=task.state)
