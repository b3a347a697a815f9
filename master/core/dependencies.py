"""Who waits for whom: which predecessors a task may have, and what the end of one means to those that wait for it.

Pure. It listens to the book: an end frees the successors that it meets and ends those that it can never meet, and so
down the chain. Of a task `waits_for` is what is left of `after`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from master.core.book import Book
from master.core.law import State
from master.core.task import ENDED, QUEUED, After, Task, TaskState
from wire.errors import BadRequestError, ConflictError, NotFoundError
from wire.message import Message


class Dependencies:
    """The successors of each task that has some."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._successors: dict[int, set[int]] = {}
        self._ended: deque[Task] = deque()
        self._is_settling = False

    def check(self, task: Task, past: Mapping[int, TaskState]) -> None:
        """May it wait for these? Raises NotFoundError, BadRequestError for a circle, ConflictError for what can never
        be met. `past`: how those ended that are in the monthly files."""
        for after in task.after:
            before = self._book.tasks.get(after.id)
            state = past.get(after.id) if before is None else before.state
            if state is None:
                raise NotFoundError(Message("no_predecessor", id=after.id))
            if before is not None and (before.id == task.id or self._comes_after(before, task.id)):
                raise BadRequestError(Message("waits_in_circle", id=task.id, other=before.id))
            if state in ENDED and not _met_by(after.on, state):
                raise ConflictError(Message("never_met", id=after.id, state=state, on=after.on))

    def unmet(self, task: Task) -> list[After]:
        """What of its `after`, which was checked, is still to come."""
        before = ((after, self._book.tasks.get(after.id)) for after in task.after)
        return [after for after, other in before if other is not None and other.state not in ENDED]

    def begin(self, task: Task) -> None:
        """Let a queued task wait for what stands in its `after` now."""
        self.drop(task)
        task.waits_for = self.unmet(task)
        self.link(task)

    def link(self, task: Task) -> None:
        """A task that is filed waits for what stands in its `waits_for`."""
        for after in task.waits_for:
            self._successors.setdefault(after.id, set()).add(task.id)

    def drop(self, task: Task) -> None:
        """It waits for nobody any more."""
        for after in task.waits_for:
            self._unlink(after.id, task)
        task.waits_for = []

    def chain(self, task_id: int) -> list[int]:
        """The task and all that wait for it, directly or not: each behind one that it waits for."""
        found = [task_id]
        for one in found:
            found += sorted(self._successors.get(one, set()) - set(found))
        return found

    # -- what happens to tasks --------------------------------------------------------------------------------

    def concerns(self, before: State, after: State) -> bool:
        """Whoever leaves the queue without being started (who is waits for nobody), and whoever ends."""
        return (before in QUEUED and after is None) or (after in ENDED and before not in ENDED)

    def moved(self, task: Task, _before: State, after: State) -> None:
        """Who left the queue waits for nobody; who has ended frees or ends those that wait for it."""
        if task.waits_for:
            self.drop(task)
        if after in ENDED and task.id in self._successors:
            self._ended.append(task)
            if not self._is_settling:  # else it is one link of a chain that is being followed
                self._follow()

    def removed(self, task: Task, now: float) -> None:
        """It is about to be removed: who only waits for its end need not wait, and nobody else shall wait for ever."""
        for successor_id in sorted(self._successors.pop(task.id, ())):
            successor = self._book.tasks[successor_id]
            if all(after.on == "any" for after in successor.waits_for if after.id == task.id):
                self._meet(successor, task.id)
            else:
                why = Message("predecessor_removed", id=task.id)
                self._book.end(successor, TaskState.CANCELLED, now, why)

    def load(self) -> None:
        """Take over who waits for whom. Whatever was loaded, nobody waits for nothing: the old system let a successor
        of a deleted task do so for ever."""
        waiting = [task for task in self._book.tasks.values() if task.state in QUEUED and task.waits_for]
        for task in waiting:
            self.link(task)
        for task in waiting:
            for after in list(task.waits_for):
                before = self._book.tasks.get(after.id)
                if before is None or (before.state in ENDED and _met_by(after.on, before.state)):
                    self._meet(task, after.id)
                elif before.state in ENDED:
                    self._book.end(task, TaskState.CANCELLED, task.submitted_at, _pointless(before, after))
                    break

    # -- the mechanics ----------------------------------------------------------------------------------------

    def _comes_after(self, task: Task, other_id: int) -> bool:
        tasks = self._book.tasks
        pending, visited = [task], set()
        while pending:
            current = pending.pop()
            for after in current.waits_for:
                if after.id == other_id:
                    return True
                if after.id not in visited and after.id in tasks:
                    visited.add(after.id)
                    pending.append(tasks[after.id])
        return False

    def _unlink(self, predecessor_id: int, task: Task) -> None:
        waiting = self._successors.get(predecessor_id)
        if waiting is not None:
            waiting.discard(task.id)
            if not waiting:
                del self._successors[predecessor_id]

    def _follow(self) -> None:
        # One end may end a chain of thousands: no call within a call for each.
        self._is_settling = True
        try:
            while self._ended:
                self._settle(self._ended.popleft())
        finally:
            self._is_settling = False

    def _settle(self, task: Task) -> None:
        for successor_id in sorted(self._successors.pop(task.id, ())):
            successor = self._book.tasks[successor_id]
            awaited = [after for after in successor.waits_for if after.id == task.id]
            failed = next((after for after in awaited if not _met_by(after.on, task.state)), None)
            if failed is None:
                self._meet(successor, task.id)
            else:
                self._book.end(successor, TaskState.CANCELLED, task.ended_at or 0.0, _pointless(task, failed))

    def _meet(self, successor: Task, predecessor_id: int) -> None:
        self._unlink(predecessor_id, successor)
        successor.waits_for = [after for after in successor.waits_for if after.id != predecessor_id]
        self._book.changed(successor)

    def discrepancies(self) -> list[str]:
        """Where the successors that are known differ from what the tasks wait for."""
        wanted: dict[int, set[int]] = {}
        for task in self._book.tasks.values():
            for after in task.waits_for:
                wanted.setdefault(after.id, set()).add(task.id)
        ids = sorted(
            number
            for number in wanted.keys() | self._successors.keys()
            if wanted.get(number) != self._successors.get(number)
        )
        found = [f"the successors of task {number} are not those that wait for it" for number in ids]
        for number, waiting in wanted.items():
            before = self._book.tasks.get(number)
            if before is None or before.state in ENDED:
                found.append(f"tasks {sorted(waiting)} wait for task {number}, which ends no more")
        return found


def _met_by(on: str, state: TaskState) -> bool:
    return on == "any" or (state is TaskState.SUCCEEDED) == (on == "ok")


def _pointless(before: Task, after: After) -> Message:
    if after.on == "ok":
        return Message("predecessor_did_not_succeed", id=before.id, state=before.state)
    return Message("predecessor_did_not_fail", id=before.id, state=before.state)
