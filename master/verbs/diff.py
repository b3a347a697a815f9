"""task.diff: in what two tasks differ, or one of an array and another of it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from master.core.tasks.task import Task, TaskState
from master.verbs.archived import find
from master.verbs.base import Context
from master.verbs.tasks import TaskId
from master.views.differences import Difference, differences
from wire.errors import BadRequestError, ForbiddenError
from wire.message import Message


class Diff(msgspec.Struct, forbid_unknown_fields=True):
    """task.diff: `id` and `other`; without `other` the task of the same array that stands nearest to it, among those
    that succeeded if there are some."""

    id: TaskId
    other: Annotated[int, Meta(ge=1, examples=[14])] | None = None


class Differing(msgspec.Struct, frozen=True):
    """In which `fields` the task `id` (`here`) and the task `other` (`there`) differ. `hidden`: what was not compared,
    for the caller may not see it of both (`variables`, `last_line`)."""

    id: int
    other: int
    fields: list[Difference]
    hidden: list[str]


async def diff(context: Context, params: Diff) -> Differing:
    """In what two tasks differ: what was asked for, and what became of it."""
    here = await find(context, params.id)
    _check_known(context, here)  # first: who may not look is not told either whether it has siblings
    there = _sibling(context, here) if params.other is None else await find(context, params.other)
    _check_known(context, there)
    fields, hidden = differences(context.view(here), context.view(there), context.sight)
    return Differing(here.id, there.id, fields, hidden)


def _check_known(context: Context, task: Task) -> None:
    """Raises ForbiddenError."""
    if not context.sight.knows(task.owner):
        raise ForbiddenError(Message("diff_of_others", id=task.id))


def _sibling(context: Context, task: Task) -> Task:
    """Raises BadRequestError where it has none."""
    siblings = [] if task.array is None else context.core.arrays.tasks(task.array.id)
    others = [one for one in siblings if one.id != task.id]
    if not others:
        raise BadRequestError(Message("diff_with_what", id=task.id))
    return min(others, key=lambda one: (one.state is not TaskState.SUCCEEDED, abs(one.id - task.id), one.id))
