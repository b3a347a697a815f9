"""What becomes of tasks when something becomes of their owners. Pure."""

from __future__ import annotations

from master.core.book import Book
from master.core.people import People, User
from master.core.task import Task, TaskState, give_reason
from wire.errors import ConflictError
from wire.message import Message


class Owners:
    """Users and their tasks, of those that are not in the monthly files yet."""

    def __init__(self, book: Book, people: People) -> None:
        self._book = book
        self._people = people

    def names(self) -> set[str]:
        """Who owns tasks."""
        return {task.owner for task in self._book.tasks.values()}

    def disable(self, name: str, by: str) -> list[Task]:
        """He may not come in, and nothing of his begins; what runs runs on. Gives his tasks that are not over."""
        self._people.edit(name, disabled=by, link="", link_until=0.0)
        self._people.end_tokens(self._people.find(name))
        for task in self._of(name, TaskState.WAITING):
            self._book.move(task, TaskState.HELD)
            give_reason(task, Message("owner_disabled", name=name, by=by))
        return self._of(name, TaskState.HELD, TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSED)

    def enable(self, name: str) -> User:
        """He may come in again, and what was held for that waits again."""
        user = self._people.edit(name, disabled=None)
        for task in self._of(name, TaskState.HELD):
            if task.reason_key == "owner_disabled":
                self._book.move(task, TaskState.WAITING)
        return user

    def claim(self, old: str, new: str) -> list[int]:
        """The tasks of one who only owned some are another's from now on; which. Raises NotFoundError,
        ConflictError."""
        before, after = self._people.find(old), self._people.find(new)
        if not before.is_owner_only:
            raise ConflictError(Message("claim_of_somebody", name=old))
        claimed = [task for task in self._book.tasks.values() if task.owner == before.name]
        for task in claimed:
            task.owner = after.name
            self._book.changed(task)
        return [task.id for task in claimed]

    def give(self, task_id: int, name: str) -> Task:
        """A task is this user's from now on. Raises NotFoundError."""
        task = self._book.find(task_id)
        task.owner = self._people.find(name).name
        self._book.changed(task)
        return task

    def remove(self, name: str) -> User:
        """He is no more. Raises NotFoundError, ConflictError while tasks of his are not over."""
        live = self._of(
            name, TaskState.WAITING, TaskState.HELD, TaskState.STARTING, TaskState.RUNNING, TaskState.PAUSED
        )
        if live:
            raise ConflictError(Message("user_has_tasks", name=name, count=len(live), id=live[0].id))
        return self._people.remove(name)

    def _of(self, name: str, *states: TaskState) -> list[Task]:
        return [task for task in self._book.tasks.values() if task.owner == name and task.state in states]
