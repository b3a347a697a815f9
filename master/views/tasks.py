"""What a task looks like to a client: all of it, with the reason worked out."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from master.core.core import Core
from master.core.task import Task, TaskPage, TaskView
from master.views.messages import shown

V = TypeVar("V", bound=TaskView)


def task_view(core: Core, task: Task) -> TaskView:
    """The task as clients see it."""
    return _seen(core, task, TaskView)


def task_page(core: Core, task: Task) -> TaskPage:
    """All about the task, for who asks for it alone."""
    return _seen(core, task, TaskPage)


def _seen(core: Core, task: Task, kind: type[V]) -> V:
    seen = msgspec.convert(task, kind, from_attributes=True)
    waits = core.why_it_waits(task)
    if waits is not None:
        seen.reason, seen.reason_key, seen.reason_args = shown(waits)
    seen.warning, seen.warning_key, seen.warning_args = shown(core.what_looks_wrong(task))
    seen.unsaved = task.id in core.unsaved
    return seen
