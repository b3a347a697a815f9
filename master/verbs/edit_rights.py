"""Check who may change what of another user's task: a mentor its place in the queue, an admin all that would not act
with the owner's rights. `priority_rights` decides about the order of the queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from master.core.tasks.task import ACTIVE, QUEUED, Task
from master.core.tasks.transitions import Event, check
from master.verbs.access import check_token_given
from master.verbs.base import Context
from wire.errors import BadRequestError, ConflictError, ForbiddenError
from wire.message import Message

OF_MENTORS = ("priority", "project", "urgent")
"""Fields that a mentor may change of a member's task."""
ACTS = ("command", "cwd", "env", "log", "setup", "token", "variables")
"""Fields that say what a task does on a node. Where that happens with its owner's rights, another user who changes it
would act as the owner."""
OWNER = "owner"
TOKEN = "token"  # noqa: S105  (the name of a field)


def leaves_what_it_runs(task: Task, changes: Mapping[str, Any]) -> bool:
    """Does such an edit only say where a task stands in the queue, and does not queue it again?"""
    return task.state in QUEUED and changes.keys() <= set(OF_MENTORS)


def runs_as_owner(context: Context, owner: str) -> bool:
    """Tell whether tasks of this owner run on the nodes as an account of the owner."""
    return context.master.run_as(owner) is not None


def check_edit(context: Context, task: Task, changes: Mapping[str, Any]) -> None:
    """Raise ForbiddenError unless the caller may change these fields of the task."""
    caller = context.caller
    if not changes.keys().isdisjoint(ACTS):
        check_token_given(caller, str(changes.get(TOKEN, task.token)))
    if task.owner == caller.user and OWNER not in changes:
        return
    if changes.keys() - {OWNER}:
        check_said(context, task)
    if not caller.owns_all:
        if OWNER in changes:
            raise ForbiddenError(Message("owner_for_admins"))
        if others := sorted(changes.keys() - set(OF_MENTORS)):
            raise ForbiddenError(
                Message("edit_of_another", owner=task.owner, allowed=OF_MENTORS, keys=tuple(map(_key, others)))
            )
        if task.state not in QUEUED:  # it would be done again, which is for its owner to say
            raise ForbiddenError(Message("queued_by_owner", id=task.id, owner=task.owner))
    elif (acts := sorted(changes.keys() & set(ACTS))) and task.owner != caller.user:
        _check_acts(context, task, changes, tuple(acts))


def _check_acts(context: Context, task: Task, changes: Mapping[str, Any], acts: tuple[str, ...]) -> None:
    """Of another's task, by an admin."""
    is_less = acts == (TOKEN,) and not changes[TOKEN]
    if is_less:
        return
    if runs_as_owner(context, task.owner):
        raise ForbiddenError(Message("edit_would_run_as", id=task.id, owner=task.owner, keys=acts))
    if (task.token or TOKEN in acts) and context.core.people.is_shared:
        raise ForbiddenError(Message("edit_would_submit_as", id=task.id, owner=task.owner, keys=acts))


def check_said(context: Context, task: Task) -> None:
    """Raise ForbiddenError if the caller would queue a task again that would run another user's command with its
    owner's rights. Where no node runs tasks as their owners, it may wait: `barred` holds it once such a node comes."""
    run_as = context.core.inventory.run_as_somewhere()
    if task.said_by and task.owner != context.caller.user and run_as(task.owner) is not None:
        raise ForbiddenError(Message("said_by_another", id=task.id, owner=task.owner, by=task.said_by))


def check_new_owner(context: Context, task: Task, changes: Mapping[str, Any]) -> str:
    """The user whose the task shall be from now on. Raises NotFoundError, BadRequestError, and ConflictError for a task
    that is alive, or that would do with its new owner's rights what another has said."""
    name = changes[OWNER]
    if not isinstance(name, str):
        raise BadRequestError(
            Message("wrong_value", where=OWNER, found=repr(name)[:40], expected=Message("name_of_user"))
        )
    if task.state in ACTIVE:
        check(Event.EDIT, task.id, task.state)
    owner = context.core.people.find(name).name
    waits = task.state in QUEUED or len(changes) > 1
    if waits and owner != task.owner and runs_as_owner(context, owner):
        raise ConflictError(Message("would_run_as", id=task.id, owner=owner))
    return owner


def _key(name: str) -> str:
    return name[:40]
