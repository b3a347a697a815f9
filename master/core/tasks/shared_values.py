"""Equal values of tasks, kept once.

Pure. A queue may hold a hundred thousand tasks of a few people, and each comes with its own copy of its owner's name,
its folder, its environment and the words of its command. Together they take more memory than all else of a task. Mostly
they are those of the owner's task before.
"""

from __future__ import annotations

from collections.abc import Iterable

from master.core.tasks.task import Task


class SharedValues:
    """Compares each task with the last one of its owner, and knows that one only."""

    def __init__(self) -> None:
        self._last: dict[str, Task] = {}

    def share(self, tasks: Iterable[Task]) -> None:
        """Let these tasks have the objects of earlier ones where they are equal. Nobody changes such a value in its
        place: an edit gives a task another one."""
        last = self._last
        for task in tasks:
            before = last.get(task.owner)
            if before is not None:
                _take_over(task, before)
            last[task.owner] = task


def _take_over(task: Task, before: Task) -> None:
    # One by one: a loop over names takes four times as long, and a start waits for it.
    task.owner = before.owner
    if task.name == before.name:
        task.name = before.name
    if task.project == before.project:
        task.project = before.project
    if task.cwd == before.cwd:
        task.cwd = before.cwd
    if task.env == before.env:
        task.env = before.env
    if task.setup == before.setup:
        task.setup = before.setup
    if task.variables == before.variables:
        task.variables = before.variables
    if task.submitted_at == before.submitted_at:
        task.submitted_at = before.submitted_at
    if task.seq == before.seq:
        task.seq = before.seq
    said, words = before.command, task.command
    if words == said:
        task.command = said
    elif isinstance(words, list) and isinstance(said, list):
        task.command = [old if old == new else new for old, new in zip(said, words, strict=False)] + words[len(said) :]
