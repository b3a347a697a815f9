"""Which places the tasks of the queue need: they run there, log there, or take their environment from there."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from master.core.task import ACTIVE, ENDED, Task
from master.files.needed import Needed
from master.verbs.base import Context


def needed_by_tasks(context: Context) -> list[Needed]:
    """One entry a place, with the first task that needs it."""
    found: dict[str, Needed] = {}
    for task in context.core.tasks.values():
        if task.state not in ENDED:
            for path, what in _places(task, context.master.conda):
                if path not in found:
                    found[path] = Needed(path, f"{what} of task {task.id}, which is {task.state}")
    return list(found.values())


def _places(task: Task, conda: str) -> Iterator[tuple[str, str]]:
    yield task.cwd, "it is, or holds, the folder"
    if task.env:
        path = task.env if task.env.startswith("/") else f"{conda}/envs/{task.env}"
        yield path, "it is, or holds, the environment"
    if task.log_path and task.state in ACTIVE:
        yield posixpath.dirname(task.log_path), "it is, or holds, the folder of the log"
