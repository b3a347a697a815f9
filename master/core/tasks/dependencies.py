"""Dependencies: which predecessors a task may have, and what the end of one means to its successors.

Pure. It listens to the task table: an end frees the successors that it meets and ends those that it can never meet, and
so down the chain. Of a task `waits_for` is what is left of `after`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from master.core.tasks.arrays import Arrays
from master.core.tasks.nothing import NO_LIST
from master.core.tasks.task import ENDED, QUEUED, After, Task, TaskState
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from wire.errors import BadRequestError, ConflictError, NotFoundError
from wire.message import Message


class Dependencies:
    """The successors of each task that has some, and those of each array as a whole, of which it is counted how many
    tasks have not ended: thousands of them are one predecessor."""

    def __init__(self, task_table: TaskTable, arrays: Arrays) -> None:
        self._task_table = task_table
        self._arrays = arrays
        self._successors: dict[int, set[int]] = {}
        self._behind_arrays: dict[int, set[int]] = {}
        self._left: dict[int, int] = {}
        self._ended: deque[Task] = deque()
        self._is_settling = False

    def check(self, task: Task, past: Mapping[int, TaskState]) -> None:
        """May it wait for these? Raises NotFoundError, BadRequestError for a circle, ConflictError for what can never
        be met. `past`: how those ended that are in the monthly files."""
        for after in task.after:
            if after.array:
                self._check_array(task, after)
                continue
            before = self._task_table.tasks.get(after.id)
            state = past.get(after.id) if before is None else before.state
            if state is None:
                raise NotFoundError(Message("no_predecessor", id=after.id))
            if before is not None and (before.id == task.id or self._comes_after(before, task.id)):
                raise BadRequestError(Message("waits_in_circle", id=task.id, other=before.id))
            if state in ENDED and not _met_by(after.on, state):
                raise ConflictError(Message("never_met", id=after.id, state=state, on=after.on))

    def _check_array(self, task: Task, after: After) -> None:
        members = list(self._arrays.tasks(after.id))
        if not members:
            raise NotFoundError(Message("no_array", id=after.id))
        if task.id and self._is_behind(members, task.id):
            raise BadRequestError(Message("waits_in_circle", id=task.id, other=after.id))
        for one in members:
            if one.state in ENDED and not _met_by(after.on, one.state):
                raise ConflictError(Message("never_met", id=one.id, state=one.state, on=after.on))

    def unmet(self, task: Task) -> list[After]:
        """Return the conditions of its `after`, which was checked, that are not met yet."""
        return [after for after in task.after if any(True for _ in self.awaited(after))]

    def awaited(self, after: After) -> Iterator[Task]:
        """The tasks of a predecessor that have not ended."""
        before = self._task_table.tasks.get(after.id)
        members = self._arrays.tasks(after.id) if after.array else () if before is None else (before,)
        return (one for one in members if one.state not in ENDED)

    def begin(self, task: Task) -> None:
        """Let a queued task wait for what stands in its `after` now."""
        self.drop(task)
        task.waits_for = self.unmet(task) or NO_LIST
        self.link(task)

    def link(self, task: Task) -> None:
        """A task that is filed waits for what stands in its `waits_for`."""
        for after in task.waits_for:
            if not after.array:
                self._successors.setdefault(after.id, set()).add(task.id)
                continue
            self._behind_arrays.setdefault(after.id, set()).add(task.id)
            if after.id not in self._left:
                self._left[after.id] = sum(1 for _ in self.awaited(after))

    def drop(self, task: Task) -> None:
        """It waits for nobody any more."""
        for after in task.waits_for:
            self._unlink(after, task)
        task.waits_for = NO_LIST

    def chain(self, task_id: int) -> list[int]:
        """The task and all that wait for it, directly or not: each behind one that it waits for."""
        found = {task_id: None}
        ahead = deque(found)
        while ahead:
            fresh = [one for one in sorted(self._waiting_for(ahead.popleft())) if one not in found]
            found.update(dict.fromkeys(fresh))
            ahead += fresh
        return list(found)

    def _waiting_for(self, task_id: int) -> set[int]:
        """Those that wait for a task, or for all of its array."""
        task = self._task_table.tasks[task_id]
        behind = set() if task.array is None or task.state in ENDED else self._behind_arrays.get(task.array.id, set())
        return self._successors.get(task_id, set()) | behind

    # -- what happens to tasks --------------------------------------------------------------------------------

    def concerns(self, before: State, after: State) -> bool:
        """Tell whether a task leaves the queue without being started (then it waits for no other task), ends, or is
        tried again after its end."""
        return (before in QUEUED and after is None) or (before in ENDED) is not (after in ENDED)

    def moved(self, task: Task, before: State, after: State) -> None:
        """A task that left the queue waits for no other task; one that has ended frees or ends those that wait for
        it."""
        if after is None or after in ENDED:
            if task.waits_for:
                self.drop(task)
            is_awaited = task.id in self._successors
        else:
            is_awaited = False
        if task.array is not None and task.array.id in self._left:
            self._count(task.array.id, before, after)
            is_awaited = is_awaited or after in ENDED
        if after in ENDED and before not in ENDED and is_awaited:
            self._ended.append(task)
            if not self._is_settling:  # else it is one link of a chain that is being followed
                self._follow()

    def _count(self, array_id: int, before: State, after: State) -> None:
        has_ended, had_ended = after is None or after in ENDED, before is None or before in ENDED
        self._left[array_id] += int(had_ended) - int(has_ended)
        if after is None and not self._left[array_id]:  # the last one did not end: somebody removed it
            self._meet_all(array_id)

    def removed(self, task: Task, now: float) -> None:
        """It is about to be removed: who only waits for its end need not wait, and nobody else shall wait for ever."""
        for successor_id in sorted(self._successors.pop(task.id, ())):
            successor = self._task_table.tasks[successor_id]
            if all(after.on == "any" for after in successor.waits_for if after.id == task.id and not after.array):
                self._meet(successor, After(task.id))
            else:
                why = Message("predecessor_removed", id=task.id)
                self._task_table.end(successor, TaskState.CANCELLED, now, why)
        if task.array is None or task.state in ENDED:
            return
        for successor_id in sorted(self._behind_arrays.get(task.array.id, ())):
            successor = self._task_table.tasks[successor_id]
            if any(after.on != "any" for after in _of_array(successor, task.array.id)):
                self._task_table.end(successor, TaskState.CANCELLED, now, Message("predecessor_removed", id=task.id))

    def load(self) -> None:
        """Take over which task waits for which. No task waits for one that does not exist, whatever was loaded: the old
        system let a successor of a deleted task do so for ever."""
        waiting = [task for task in self._task_table.tasks.values() if task.waits_for and task.state in QUEUED]
        for task in waiting:
            self.link(task)
        for task in waiting:
            for after in list(task.waits_for):
                members = self._arrays.tasks(after.id) if after.array else (self._task_table.tasks.get(after.id),)
                ended = [one for one in members if one is not None and one.state in ENDED]
                failed = next((one for one in ended if not _met_by(after.on, one.state)), None)
                if failed is not None:
                    self._task_table.end(task, TaskState.CANCELLED, task.submitted_at, _pointless(failed, after))
                    break
                if not any(True for _ in self.awaited(after)):
                    self._meet(task, after)

    # -- the mechanics ----------------------------------------------------------------------------------------

    def _comes_after(self, task: Task, other_id: int) -> bool:
        return self._is_behind([task], other_id)

    def _is_behind(self, tasks: Iterable[Task], other_id: int) -> bool:
        """Is it one of these, or does one of them wait for it, be it through others?"""
        pending, visited = list(tasks), set[int]()
        while pending:
            current = pending.pop()
            if current.id == other_id:
                return True
            if current.id not in visited:
                visited.add(current.id)
                pending += (one for after in current.waits_for for one in self.awaited(after))
        return False

    def _unlink(self, after: After, task: Task) -> None:
        behind = self._behind_arrays if after.array else self._successors
        waiting = behind.get(after.id)
        if waiting is not None:
            waiting.discard(task.id)
            if not waiting:
                del behind[after.id]
                if after.array:
                    self._left.pop(after.id, None)

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
            successor = self._task_table.tasks[successor_id]
            awaited = [after for after in successor.waits_for if after.id == task.id and not after.array]
            failed = next((after for after in awaited if not _met_by(after.on, task.state)), None)
            if failed is None:
                self._meet(successor, After(task.id))
            else:
                self._task_table.end(successor, TaskState.CANCELLED, task.ended_at or 0.0, _pointless(task, failed))
        if task.array is not None:
            self._settle_array(task, task.array.id)

    def _settle_array(self, task: Task, array_id: int) -> None:
        for successor_id in sorted(self._behind_arrays.get(array_id, ())):
            successor = self._task_table.tasks[successor_id]
            awaited = _of_array(successor, array_id)
            failed = next((after for after in awaited if not _met_by(after.on, task.state)), None)
            if failed is not None:
                self._task_table.end(successor, TaskState.CANCELLED, task.ended_at or 0.0, _pointless(task, failed))
        if self._left.get(array_id) == 0:
            self._meet_all(array_id)

    def _meet_all(self, array_id: int) -> None:
        """The last task of an array has ended."""
        for successor_id in sorted(self._behind_arrays.get(array_id, ())):
            self._meet(self._task_table.tasks[successor_id], After(array_id, array=True))

    def _meet(self, successor: Task, met: After) -> None:
        self._unlink(met, successor)
        left = [after for after in successor.waits_for if (after.id, after.array) != (met.id, met.array)]
        successor.waits_for = left or NO_LIST
        self._task_table.changed(successor)

    def discrepancies(self) -> list[str]:
        """Where the successors that are known differ from what the tasks wait for."""
        wanted: dict[After, set[int]] = {}
        for task in self._task_table.tasks.values():
            for after in task.waits_for:
                wanted.setdefault(After(after.id, array=after.array), set()).add(task.id)
        known = {After(number): waiting for number, waiting in self._successors.items()}
        known |= {After(number, array=True): waiting for number, waiting in self._behind_arrays.items()}
        ids = sorted({one.id for one in wanted.keys() | known.keys() if wanted.get(one) != known.get(one)})
        found = [f"the successors of task {number} are not those that wait for it" for number in ids]
        for one, waiting in wanted.items():
            left = sum(1 for _ in self.awaited(one))
            if not left:
                found.append(f"tasks {sorted(waiting)} wait for task {one.id}, which ends no more")
            elif one.array and left != self._left.get(one.id):
                found.append(f"of array {one.id} {left} tasks have not ended, and {self._left.get(one.id)} are counted")
        return found


def _of_array(task: Task, array_id: int) -> list[After]:
    """Return the conditions by which a task waits for all of an array."""
    return [after for after in task.waits_for if after.array and after.id == array_id]


def _met_by(on: str, state: TaskState) -> bool:
    return on == "any" or (state is TaskState.SUCCEEDED) == (on == "ok")


def _pointless(before: Task, after: After) -> Message:
    if after.on == "ok":
        return Message("predecessor_did_not_succeed", id=before.id, state=before.state)
    return Message("predecessor_did_not_fail", id=before.id, state=before.state)
