"""Equal values of tasks, kept once.

Pure. A queue may hold a hundred thousand tasks of a few people, and each comes with its own copy of its owner's name,
its folder, its environment and the words of its command. Together they take more memory than all else of a task. Mostly
they are those of the owner's task before.
"""

from __future__ import annotations

from collections.abc import Iterable

from master.core.tasks.task import Task

KEPT = 256
"""So many words of commands are known, before they are collected anew: many come once only, others soon come again."""


class SharedValues:
    """Compares each task with the last one of its owner, and knows that one only; and the last words of commands."""

    def __init__(self) -> None:
        self._last: dict[str, Task] = {}
        self._words: dict[str, str] = {}

    def share(self, tasks: Iterable[Task]) -> None:
        """Let these tasks have the objects of earlier ones where they are equal. Nobody changes such a value in its
        place: an edit gives a task another one."""
        last, known = self._last, self._words
        for task in tasks:
            before = last.get(task.owner)
            if before is not None:
                _take_over(task, before)
            last[task.owner] = task
            words = task.command
            if isinstance(words, list):
                if len(known) > KEPT:
                    known.clear()
                task.command = [*map(known.setdefault, words, words)]


def _take_over(task: Task, before: Task) -> None:
    # One by one, and without what few tasks have: a loop over names takes four times as long, and a start waits for it.
    # To assign takes ten times as long as to compare, and of a submit the owner and the folder are the same objects.
    if task.owner is not before.owner and task.owner == before.owner:  # the one before may have got another owner
        task.owner = before.owner
    if task.name and task.name == before.name:
        task.name = before.name
    if task.project and task.project == before.project:
        task.project = before.project
    if task.cwd is not before.cwd and task.cwd == before.cwd:
        task.cwd = before.cwd
    if task.env and task.env == before.env:
        task.env = before.env
    if task.setup and task.setup == before.setup:
        task.setup = before.setup
    if task.variables and task.variables == before.variables:
        task.variables = before.variables
    if task.submitted_at == before.submitted_at:
        task.submitted_at = before.submitted_at
    if task.seq == before.seq:
        task.seq = before.seq
