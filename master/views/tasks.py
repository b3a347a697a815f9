"""What a task looks like to a client: all of it, with the reason worked out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from msgspec.structs import astuple

from master.core.core import Core
from master.core.task import ENDED, Task, TaskPage, TaskView
from master.views.messages import shown
from master.views.sight import Sight

V = TypeVar("V", bound=TaskView)

_LAUNCH, _EARLIER = map(Task.__struct_fields__.index, ("former_launch", "earlier"))
"""Where a task, which has the fields of its view in the same order, has another in between, and the last ones begin. In
the place of `cancel_requested` stands `former_cancel`, which no task has that was read."""


def task_view(core: Core, task: Task, sight: Sight) -> TaskView:
    """The task as a client sees it."""
    return _told(core, task, as_filed(sight.veiled(task)), sight)


def task_page(core: Core, task: Task, sight: Sight) -> TaskPage:
    """All about the task, for who asks for it alone."""
    page = _filed(sight.veiled(task), TaskPage)
    if sight.knows(task.owner):
        page.attempts = sight.veiled(task).attempts
        page.expected_s = None if task.state in ENDED else core.learned.expected(task)
    return _told(core, task, page, sight)


def as_filed(task: Task) -> TaskView:
    """The task as clients see it, but for what is worked out: why it waits, what looks wrong, what is not written yet.
    What it holds is the task's own."""
    return _filed(task, TaskView)


def _filed(task: Task, kind: type[V]) -> V:
    make = cast("Callable[..., V]", kind)
    # By their places: a long list is made in a third of the time that it takes by their names.
    has = astuple(task)
    seen = make(*has[:_LAUNCH], *has[_LAUNCH + 1 : _EARLIER])
    if task.asked_end is not None:
        seen.cancel_requested = task.cancel_requested
    return seen


def _told(core: Core, task: Task, seen: V, sight: Sight) -> V:
    if not sight.knows(task.owner):
        return seen
    waits = core.why_it_waits(task)
    if waits is not None:
        seen.reason, seen.reason_key, seen.reason_args = shown(sight.said(waits))
    seen.warning, seen.warning_key, seen.warning_args = shown(core.what_looks_wrong(task))
    seen.unsaved = task.id in core.unsaved
    return seen
