"""Changes of owners, and their effect on tasks. Pure."""

from __future__ import annotations

from typing import Any

from master.core.people.barred import DISABLED, EXPIRED, REASONS, BarredOwners
from master.core.people.clock import RightsTime
from master.core.people.owned import OwnTasks
from master.core.people.people import People, User
from master.core.people.shares import Shares
from master.core.tasks.task import ACTIVE, ENDED, Task, TaskState, give_reason
from master.core.tasks.task_table import TaskTable
from wire.errors import ConflictError
from wire.message import Message


class Owners:
    """Users and their tasks, of those that are not in the monthly files yet."""

    def __init__(
        self, task_table: TaskTable, people: People, own_tasks: OwnTasks, barred: BarredOwners, shares: Shares
    ) -> None:
        self._task_table = task_table
        self._barred = barred
        self._own_tasks = own_tasks
        self._people = people
        self._shares = shares

    def names(self) -> set[str]:
        """Return the owners of tasks."""
        return {task.owner for task in self._task_table.tasks.values()}

    def disable(self, name: str, by: str) -> list[Task]:
        """Bar a user: they cannot come in, none of their tasks begins, and running ones go on. Gives their tasks that
        are not over."""
        self._people.edit(name, disabled=by, link="", link_until=0.0)
        self._people.end_tokens(self._people.find(name))
        for task in self._of(name, TaskState.WAITING):
            self._task_table.move(task, TaskState.HELD)
            give_reason(task, Message("owner_disabled", name=name, by=by))
        return self._of(name, TaskState.HELD, TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSED)

    def enable(self, name: str) -> User:
        """Let a user come in again; the tasks that were held for that wait again."""
        user = self._people.edit(name, disabled=None)
        self._let_wait(name, DISABLED)
        return user

    def edit(self, /, name: str, now: float, **fields: Any) -> User:
        """Change these fields of a user. If the end was lifted, the tasks that were held for it wait again. Raises
        NotFoundError."""
        user, clock = self._people.edit(name, **fields), self._people.clock
        if user.expires_at is None or clock.rights(now) < user.expires_at:
            self._let_wait(name, EXPIRED)
        clock.note_end(user.expires_at, now)
        return user

    def unexpired(self, now: RightsTime) -> list[int]:
        """A clock was accepted: what was held for the end of users whose time is not over waits again; which tasks."""
        users = [one for one in self._people.users.values() if one.expires_at is not None and now < one.expires_at]
        return [number for user in users for number in self._let_wait(user.name, EXPIRED)]

    def _let_wait(self, name: str, why: str) -> list[int]:
        """Which tasks wait again. Those that must not begin for another reason are held before the next round of
        planning."""
        held = [task for task in self._of(name, TaskState.HELD) if task.reason_key == why]
        for task in held:
            self._task_table.move(task, TaskState.WAITING)
        return [task.id for task in held]

    def claim(self, old: str, new: str) -> list[int]:
        """Give the tasks of a user who only owned some to another user; their ids. They submit nothing in the name of
        that user, and none begins with that user's rights, before the user says so. A launch may be sent again, and is
        sent with the rights of who owns the task then: what has not begun yet stays. Raises NotFoundError,
        ConflictError."""
        before, after = self._people.find(old), self._people.find(new)
        if not before.is_owner_only:
            raise ConflictError(Message("claim_of_somebody", name=old))
        owned = [task for task in self._task_table.tasks.values() if task.owner == before.name]
        claimed = [task for task in owned if not _is_starting(task)]
        for task in claimed:
            self._give(task, after.name)
        return [task.id for task in claimed]

    def give(self, task_id: int, name: str, *, by_admin: bool = False) -> Task:
        """Give a task to this user; it submits nothing in their name before they say so. `by_admin`: an admin with the
        scope `admin` wants that. Raises NotFoundError, and ConflictError for one that belongs to an
        allocation, as that does to its owner."""
        task = self._task_table.find(task_id)
        if task.state not in ENDED and (task.is_allocation or task.within is not None):
            raise ConflictError(Message("allocation_keeps_owner", id=task_id))
        owner = self._people.find(name).name
        task.by_admin = task.by_admin and by_admin
        self._give(task, owner)
        return task

    def _give(self, task: Task, owner: str) -> None:
        said_by = task.said_by or task.owner
        task.token, task.said_by = "", "" if said_by == owner else said_by
        before, task.owner = task.owner, owner
        self._shares.given(task, before)
        if task.state not in ENDED:
            self._own_tasks.moved(task)
            self._barred.moved(task)
        if task.state is TaskState.HELD and task.reason_key in REASONS:
            self._task_table.move(task, TaskState.WAITING)  # the reason was the previous owner
        self._task_table.changed(task)

    def remove(self, name: str) -> User:
        """Remove a user. Raises NotFoundError, ConflictError while some of their tasks are not over."""
        live = self._of(
            name, TaskState.WAITING, TaskState.HELD, TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSED
        )
        if live:
            raise ConflictError(Message("user_has_tasks", name=name, count=len(live), id=live[0].id))
        return self._people.remove(name)

    def _of(self, name: str, *states: TaskState) -> list[Task]:
        return [task for task in self._task_table.tasks.values() if task.owner == name and task.state in states]


def _is_starting(task: Task) -> bool:
    """Is it, or a part of it, being started?"""
    return task.state in ACTIVE and not all(part.pid for part in task.allocation) and not task.is_allocation
