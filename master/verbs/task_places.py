"""Which places the tasks of the queue need: they run there, log there, or take their environment from there."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from master.core.tasks.task import ACTIVE, ENDED, Task
from master.files.needed import Needed
from master.verbs.base import Context
from wire.message import Message


def needed_by_tasks(context: Context) -> list[Needed]:
    """One entry a place, with the first task that needs it."""
    found: dict[str, Needed] = {}
    for task in context.core.tasks.values():
        if task.state not in ENDED:
            for path, why in _places(task, context.master.conda):
                if path not in found:
                    found[path] = Needed(path, why)
    return list(found.values())


def _places(task: Task, conda: str) -> Iterator[tuple[str, Message]]:
    yield task.cwd, Message("holds_task", id=task.id, state=task.state)
    if task.env:
        path = task.env if task.env.startswith("/") else f"{conda}/envs/{task.env}"
        yield path, Message("holds_task_env", id=task.id, state=task.state)
    if task.log_path and task.state in ACTIVE:
        yield posixpath.dirname(task.log_path), Message("holds_task_log", id=task.id, state=task.state)
