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

NEAR = 2000


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
    """The nearest that succeeded, or else the nearest; only NEAR on each side are looked at. Raises BadRequestError
    where it has none."""
    nearest: Task | None = None
    for distance in range(1, NEAR + 1 if task.array is not None else 1):
        for number in (task.id - distance, task.id + distance):
            one = context.core.tasks.get(number)
            if one is None or one.array is None or task.array is None or one.array.id != task.array.id:
                continue
            if one.state is TaskState.SUCCEEDED:
                return one
            nearest = nearest or one
    if nearest is None:
        raise BadRequestError(Message("diff_with_what", id=task.id))
    return nearest
