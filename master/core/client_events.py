"""What clients ask for their tasks. Pure.

Each event asks the law first, then whatever else has to hold, and only then changes anything: an error leaves nothing
half done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from master.core.attempt import AskedEnd
from master.core.book import Book
from master.core.dependencies import Dependencies
from master.core.dispatch import Dispatch
from master.core.inventory import request_of
from master.core.law import Event
from master.core.nodes import Nodes
from master.core.task import ENDED, QUEUED, Task, TaskState, Wish
from master.core.waiting import Waiting
from wire.errors import LimitError
from wire.message import Message

NO_PAST: Mapping[int, TaskState] = MappingProxyType({})


class ClientEvents:
    """`waiting_limit`: how many tasks may wait."""

    def __init__(
        self,
        book: Book,
        dependencies: Dependencies,
        waiting: Waiting,
        nodes: Nodes,
        dispatch: Dispatch,
        *,
        waiting_limit: int,
    ) -> None:
        self._book = book
        self._dependencies = dependencies
        self._waiting = waiting
        self._nodes = nodes
        self._dispatch = dispatch
        self._waiting_limit = waiting_limit

    def submit(self, drafts: list[Task], now: float, past: Mapping[int, TaskState] = NO_PAST) -> list[Task]:
        """File new tasks: all of them or, with an error, none. Ids are given here. `past`: how predecessors ended that
        were moved to the monthly files."""
        self._check_limit(len(drafts))
        checked = None
        for draft in drafts:
            wish = (request_of(draft), draft.after)
            if wish != checked:
                self._nodes.check_possible(wish[0])
                if draft.after:
                    self._dependencies.check(draft, past)
                checked = wish
        self._file(drafts, now)
        return drafts

    def submit_many(
        self,
        draft: Task,
        commands: list[str],
        log_path: Callable[[int], str],
        now: float,
        past: Mapping[int, TaskState] = NO_PAST,
    ) -> list[Task]:
        """File one task per command, all else as in `draft`."""
        self._check_limit(len(commands))
        self._nodes.check_possible(request_of(draft))
        self._dependencies.check(draft, past)
        drafts = []
        for number, command in enumerate(commands, self._book.next_id):
            drafts.append(replace(draft, command=command, log_path=log_path(number)))
        self._file(drafts, now)
        return drafts

    def edit(self, edited: Task, past: Mapping[int, TaskState] = NO_PAST) -> Task:
        """Replace a queued task by its edited copy; an ended one queues again with it. `past`: as for `submit`."""
        task = self._book.admit(Event.EDIT, edited.id)
        again, request = task.state in ENDED, request_of(edited)
        if again or request != request_of(task):
            self._nodes.check_possible(request)
        after_changed = edited.after != task.after
        if after_changed:
            self._dependencies.check(edited, past)
        for name in Wish.__struct_fields__:
            setattr(task, name, getattr(edited, name))
        if after_changed:
            self._dependencies.begin(task)
        if again:
            self._book.queue_again(task)
        else:
            self._book.changed(task)
        return task

    def cancel(self, task_id: int, now: float, reason: Message | None = None, *, by: str = "") -> bool:
        """Cancel, because `by` wants that. True: it was still waiting and is ended; False: its node was told and will
        report the end."""
        task = self._book.admit(Event.CANCEL, task_id)
        if task.state in QUEUED:
            self._book.end(task, TaskState.CANCELLED, now, reason)
            return True
        self._dispatch.kill(task, AskedEnd("cancel", by))
        return False

    def retry(self, task_id: int) -> Task:
        """Queue an ended task again: a new attempt of the same task."""
        task = self._book.admit(Event.RETRY, task_id)
        self._nodes.check_possible(request_of(task))
        self._book.queue_again(task)
        return task

    def remove(self, task_id: int, now: float, *, successors: bool = False) -> list[int]:
        """Forget a task that waits or has ended; with `successors` also all that wait for it, directly or not."""
        self._book.admit(Event.REMOVE, task_id)
        doomed = self._dependencies.chain(task_id) if successors else [task_id]
        for doomed_id in reversed(doomed):
            task = self._book.tasks[doomed_id]
            self._dependencies.removed(task, now)
            self._book.remove(task)
        return doomed

    def hold(self, task_id: int) -> Task:
        """Keep a waiting task from starting until it is released."""
        task = self._book.admit(Event.HOLD, task_id)
        if task.state is TaskState.WAITING:
            self._book.move(task, TaskState.HELD)
        return task

    def release(self, task_id: int) -> Task:
        """Let a held task wait again."""
        task = self._book.admit(Event.RELEASE, task_id)
        self._book.move(task, TaskState.WAITING)
        return task

    def force(self, task_id: int) -> Task:
        """Start a queued task as soon as it fits: before all others, whatever holds it or comes before it."""
        task = self._book.admit(Event.FORCE, task_id)
        self._dependencies.drop(task)
        task.forced = True
        if task.state is TaskState.HELD:
            self._book.move(task, TaskState.WAITING)
        else:
            self._book.changed(task)
        return task

    def move(self, task_id: int, position: int, passes: Callable[[Task], None] | None = None) -> Task:
        """Give a queued task the place `position` (1: next) in the queue. Priority is not changed by it: a place that
        belongs to another priority is refused. `passes` is asked of each task that it would overtake, and raises where
        it must not."""
        task = self._book.admit(Event.REORDER, task_id)
        self._waiting.place(task, position, passes)
        return task

    def recall(self, task: Task) -> None:
        """Take an ended task back that had been moved to the monthly files."""
        self._book.take_back(task)

    def drop_archived(self, task_ids: Iterable[int]) -> None:
        """Forget ended tasks that were moved to the monthly files."""
        for task_id in task_ids:
            self._book.remove(self._book.admit(Event.ARCHIVE, task_id))

    def _check_limit(self, more: int) -> None:
        waiting = self._book.counts[TaskState.WAITING] + self._book.counts[TaskState.HELD]
        if waiting + more > self._waiting_limit:
            raise LimitError(Message("queue_full", waiting=waiting, most=self._waiting_limit))

    def _file(self, drafts: list[Task], now: float) -> None:
        for draft in drafts:
            if draft.after:
                draft.waits_for = self._dependencies.unmet(draft)
        self._book.file(drafts, now)
        for draft in drafts:
            if draft.waits_for:
                self._dependencies.link(draft)
