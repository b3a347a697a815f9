"""No queue jumping: who may put a task before those of others.

Once the queue is shared (`People.is_shared`), users may give their own tasks a priority of up to the setting
`scheduler.user_priority_max`, and reorder them among themselves. Only a mentor of the owner's group and admins may
raise a task further, call it urgent, start it before all, or give it a place before others' tasks; everybody may, where
the setting `scheduler.urgent` says so.
"""

from __future__ import annotations

from collections.abc import Callable

from master.core.people.people import People
from master.core.tasks.task import ENDED, Task
from master.verbs.base import Context
from wire.errors import ForbiddenError
from wire.message import Message, names

_MOST_NAMES = 4


def may_put_ahead(context: Context, owner: str) -> bool:
    """May the caller put tasks of this owner before those of others?"""
    caller = context.caller
    if not context.core.people.is_shared or context.core.settings.scheduler.urgent == "all" or caller.owns_all:
        return True
    # A mentor decides about their own tasks, too.
    return owner in caller.mentored or (owner == caller.user and bool(caller.mentored))


def check_wish(context: Context, wish: Task, before: Task | None = None) -> None:
    """Raise ForbiddenError if a task, filed or changed so, would go before others though the caller may not have that.
    `before`: what it was, where it waits already; one that ended is filed anew."""
    waits = before is not None and before.state not in ENDED
    priority, urgent = (before.priority, before.urgent) if waits and before is not None else (0, False)
    if wish.priority > max(priority, context.core.settings.scheduler.user_priority_max):
        check_ahead(context, wish.owner, Message("priority_said", priority=wish.priority))
    if wish.urgent and not urgent:
        check_ahead(context, wish.owner, Message("urgent_said"))


def check_ahead(context: Context, owner: str, what: Message) -> None:
    """Raise ForbiddenError, which tells who can, unless the caller may put tasks of this owner before others'."""
    if not may_put_ahead(context, owner):
        raise ForbiddenError(_refusal(context, owner, what))


def who_may_be_passed(context: Context, task: Task, position: int) -> Callable[[Task], None] | None:
    """Return a function that checks each task that a move to a place in the queue would overtake: it raises
    ForbiddenError for another user's task. None: the move may overtake all."""
    if may_put_ahead(context, task.owner):
        return None

    def check(other: Task) -> None:
        if other.owner != task.owner:
            raise ForbiddenError(_refusal(context, task.owner, Message("place_said", position=position, id=other.id)))

    return check


def _refusal(context: Context, owner: str, what: Message) -> Message:
    mentors = _mentors(context.core.people, owner, context.now)
    if mentors:
        return Message("ahead_for_mentors", what=what, owner=owner, mentors=names(mentors, _MOST_NAMES))
    return Message("ahead_for_admins", what=what)


def _mentors(people: People, name: str, now: float) -> list[str]:
    """Return the mentors of this user's groups who have access."""
    user, at = people.named(name), people.clock.rights(now)
    groups = [] if user is None else [one for one in people.groups.values() if user.id in one.members]
    found = {people.users[number] for group in groups for number in group.mentors if number in people.users}
    return sorted(one.name for one in found if one.is_enabled(at) and one.name != name)
