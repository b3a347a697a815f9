"""Keeps the tasks of users who are disabled or have expired from beginning, and those that would do with their owner's
rights what somebody else has said.

Pure. A user expires without any event. So each round of planning first finds the users who are barred since the last
round, and the tasks that have come to wait since. Those tasks are held, with the reason. `owners` lets those of barred
users wait again; the others wait again once their owner releases them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from master.core.people.clock import RightsTime
from master.core.people.owned import OwnTasks
from master.core.people.people import People, User
from master.core.people.run_as import RunAs, as_the_agent
from master.core.tasks.task import Task, TaskState, give_reason
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from wire.message import Message

DISABLED, EXPIRED = "owner_disabled", "owner_expired"
REASONS = frozenset({DISABLED, EXPIRED})
"""The reasons with which a task is held because its owner is barred."""


def why_barred(user: User, now: RightsTime) -> Message | None:
    """Why no task of this user may begin, if so."""
    if user.disabled is not None:
        return Message("owner_disabled", name=user.name, by=user.disabled)
    if not user.is_enabled(now):
        return Message("owner_expired", name=user.name, at=user.expires_at or 0.0)
    return None


class BarredOwners:
    """`next_at`: when the next user expires, in seconds since the epoch; None: no user will."""

    def __init__(self, task_table: TaskTable, people: People, own_tasks: OwnTasks) -> None:
        self.next_at: float | None = None
        self._task_table = task_table
        self._people = people
        self._own_tasks = own_tasks
        self._version = -1
        self._barred: frozenset[int] = frozenset()
        self._may_end: list[User] = []
        self._came: set[int] = set()
        self._said_by_others: set[int] = set()
        """Tasks that wait while none runs with rights of its owner anywhere."""

    def concerns(self, _before: State, after: State) -> bool:
        """Tasks that come to wait."""
        return after is TaskState.WAITING

    def moved(self, task: Task, _before: State = None, _after: State = None) -> None:
        """The task waits, or it has another owner."""
        user = self._people.named(task.owner)
        if task.said_by or (user is not None and (user.disabled is not None or user.expires_at is not None)):
            self._came.add(task.id)

    def filed(self, tasks: Sequence[Task]) -> None:
        """They wait, and are of one owner."""
        user = self._people.named(tasks[0].owner)
        if user is not None and (user.disabled is not None or user.expires_at is not None):
            self._came.update(task.id for task in tasks)

    def bars(self, owner: str) -> bool:
        """Whether no task of this owner may begin, as of the last round of planning."""
        user = self._people.named(owner) if self._barred else None
        return user is not None and user.id in self._barred

    def begin(self, now: float, run_as_somewhere: Callable[[], RunAs]) -> None:
        """A round of planning begins: hold the tasks that must not take part. `run_as_somewhere`: which owners' tasks
        run with rights of their own, `as_the_agent` where no node does that; asked only where there are tasks that it
        may matter to."""
        if self._version != self._people.version:
            self._may_end = [
                user for user in self._people.users.values() if user.disabled is not None or user.expires_at is not None
            ]
        clock = self._people.clock
        at = clock.rights(now)
        barred = frozenset(user.id for user in self._may_end if not user.is_enabled(at))
        before, self._barred = self._barred, barred
        some_matter = self._came or self._said_by_others or not barred <= before
        run_as = run_as_somewhere() if some_matter else as_the_agent
        if run_as is not as_the_agent:
            self._came |= self._said_by_others
            self._said_by_others.clear()
        for number in barred - before:
            user = self._people.users[number]
            clock.note_end(user.expires_at, now)  # in the same record
            for task in self._own_tasks.of(user.name):
                self._hold(task, at, run_as)
        for number in sorted(self._came & self._task_table.tasks.keys()):
            self._hold(self._task_table.tasks[number], at, run_as)
        self._came.clear()
        if barred != before:
            self._people.look_again()  # others also ask who may come in
        self._version = self._people.version
        ends = [user.expires_at for user in self._may_end if user.expires_at is not None and user.id not in barred]
        self.next_at = min(ends, default=None)

    def _hold(self, task: Task, now: RightsTime, run_as: RunAs) -> None:
        user = self._people.named(task.owner)
        why = None if user is None else why_barred(user, now)
        if why is None and task.said_by and run_as is as_the_agent:
            self._said_by_others.add(task.id)
        elif why is None and task.said_by and not task.is_allocation and run_as(task.owner) is not None:
            why = Message("said_by_other", by=task.said_by, owner=task.owner)
        if why is not None and task.state is TaskState.WAITING:
            self._task_table.move(task, TaskState.HELD)
            give_reason(task, why)
