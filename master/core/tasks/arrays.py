"""Arrays: tasks that were submitted as one, and what holds for them together: how many of them may run at once (the
cap), and after how many failures those that still wait are held.

Pure. The tasks of an array are tasks like others, with ids without a gap from the array's own on; which there are is
therefore nowhere written down. Everything else that is known of an array is a piece of the state (`array/ID`), as long
as one of its tasks is here. The cap holds in the planner, as quotas do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from master.core.outcome import Pending
from master.core.planning.learned import masked
from master.core.tasks.task import ENDED, Task, TaskState
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from master.core.tasks.waiting import Waiting
from wire.errors import NotFoundError
from wire.message import Message, ids

PIECE = "array/"
"""How the pieces are named, before the array's id."""
FAILURES = frozenset({TaskState.FAILED, TaskState.TIMED_OUT})
"""The states that count as failures: not a cancelled task, nor one that a node lost."""
LINE = 160
"""So many characters are told of the line with which logs end: it is written down with each task that is held."""
TOLD = 4
"""So many of the tasks that failed are named."""


WITH_LINE = "array_failed_with"
"""The key of what quotes a log."""


class Array(msgspec.Struct, frozen=True, omit_defaults=True):
    """`id`: that of its first task; `count`: how many it has had; `cap`: so many run at once; `max_fails`: after so
    many failures the rest is held; `failed`: those that failed since somebody last let it go on; `least` and
    `greatest`: of the indices that it was submitted with, None where an earlier version filed it."""

    id: int
    count: int
    cap: int | None = None
    max_fails: int | None = None
    failed: tuple[int, ...] = ()
    least: int | None = None
    greatest: int | None = None

    @property
    def is_stopped(self) -> bool:
        """Have so many failed that no more of it starts?"""
        return self.max_fails is not None and len(self.failed) >= self.max_fails


class Arrays:
    """`known`: those of which there is something to say; `capped`: those with a cap, and how many of each may run."""

    def __init__(self, task_table: TaskTable, waiting: Waiting, pending: Pending) -> None:
        self.known: dict[int, Array] = {}
        self.capped: dict[int, int] = {}
        self._task_table = task_table
        self._backlog = waiting.backlog
        self._pending = pending
        self._here: Counter[int] = Counter()
        waiting.backlog.arrays = self.capped

    def load(self, pieces: Mapping[str, msgspec.Raw]) -> None:
        """Take over what was written down; before the tasks are."""
        for name, raw in pieces.items():
            if name.startswith(PIECE) and bytes(raw) != b"null":
                self._keep(msgspec.json.decode(raw, type=Array))

    def count(self, tasks: Iterable[Task]) -> None:
        """These were loaded."""
        self._here.update(task.array.id for task in tasks if task.array is not None)

    # -- what people ask --------------------------------------------------------------------------------------

    def begin(self, array: Array) -> None:
        """Its tasks are about to be filed."""
        self._here[array.id] += array.count
        self._write(array)

    def find(self, array_id: int) -> Array:
        """Return all that is known of an array, even if that is nothing. Raises NotFoundError."""
        known = self.known.get(array_id)
        if known is None:
            last = max((task.id for task in self.tasks(array_id)), default=None)
            if last is None:
                raise NotFoundError(Message("no_array", id=array_id))
            known = Array(array_id, last - array_id + 1)
        return known

    def tasks(self, array_id: int) -> Iterator[Task]:
        """Those of its tasks that are here, in order."""
        left, number, tasks = self._here[array_id], array_id, self._task_table.tasks
        while left > 0 and number < self._task_table.next_id:
            task = tasks.get(number)
            if task is not None and task.array is not None and task.array.id == array_id:
                left -= 1
                yield task
            number += 1

    def edit(self, /, array_id: int, **fields: Any) -> Array:
        """Give it another `cap`, or other `max_fails`; None: no such bound. Raises NotFoundError."""
        before = self.find(array_id)
        array = msgspec.structs.replace(before, **fields)
        if array.max_fails is None:
            array = msgspec.structs.replace(array, failed=())
        self._write(array)
        if (before.cap is None) is not (array.cap is None):  # its tasks are looked at apart from others, or no more
            for task in self.tasks(array_id):
                if task.id in self._backlog:
                    self._backlog.add(task)
        if array.is_stopped and not before.is_stopped:
            self._hold_rest(array)
        self._pending.plan_needed = True
        return array

    # -- what happens to tasks --------------------------------------------------------------------------------

    def concerns(self, before: State, after: State) -> bool:
        """Tell whether a task comes back, goes, fails, or is released."""
        if after is None or (before is None and after in ENDED):
            return True
        if before in FAILURES and after is TaskState.WAITING:
            return True
        return after in FAILURES or (before is TaskState.HELD and after is TaskState.WAITING)

    def moved(self, task: Task, before: State, after: State) -> None:
        """Count it, and hold the others where it is one too many that failed."""
        if task.array is None:
            return
        array_id = task.array.id
        array = self.known.get(array_id)
        if before is None or after is None:
            self._here[array_id] += 1 if before is None else -1
            if self._here[array_id] <= 0:
                del self._here[array_id]
                if array is not None:
                    self._forget(array)
        elif array is None or array.max_fails is None:
            return
        elif after in FAILURES:
            if task.id not in array.failed:
                array = msgspec.structs.replace(array, failed=(*array.failed, task.id))
                self._write(array)
                if array.is_stopped:
                    self._hold_rest(array)
        elif before is TaskState.HELD:
            if array.is_stopped:
                self._write(msgspec.structs.replace(array, failed=()))
        elif task.id in array.failed:  # it is tried again
            self._write(msgspec.structs.replace(array, failed=tuple(one for one in array.failed if one != task.id)))

    def holds(self, task: Task) -> Message | None:
        """Why one that would wait again is held instead, if it is."""
        array = None if task.array is None else self.known.get(task.array.id)
        return self._why(array) if array is not None and array.is_stopped else None

    def _hold_rest(self, array: Array) -> None:
        why = self._why(array)
        text, args = str(why), why.plain_args()
        for task in self.tasks(array.id):
            if task.state is TaskState.WAITING:
                self._task_table.move(task, TaskState.HELD)
                task.reason, task.reason_key, task.reason_args = text, why.key, args

    def _why(self, array: Array) -> Message:
        failed = [task for task in map(self._task_table.tasks.get, array.failed) if task is not None]
        said = Counter(task.reason for task in failed if task.reason)
        most = said.most_common(1)
        told = str(ids(array.failed, TOLD))
        if not most:
            return Message("array_failed", id=array.id, count=len(array.failed), tasks=told)
        (text, times) = most[0]
        alike = [task for task in failed if task.reason == text and task.last_line]
        endings = Counter(masked(task.last_line or "") for task in alike).most_common(1)
        if not endings or (endings[0][1] == 1 and times > 1):
            count = len(array.failed)
            return Message("array_failed_so", id=array.id, count=count, tasks=told, said=text, times=times)
        (ending, logs) = endings[0]
        one = next(task for task in alike if masked(task.last_line or "") == ending)
        return Message(
            "array_failed_with",
            id=array.id,
            count=len(array.failed),
            tasks=told,
            said=text,
            times=times,
            owner=one.owner,
            logs=logs,
            line=(one.last_line or "")[:LINE],
        )

    # -- writing ----------------------------------------------------------------------------------------------

    def _keep(self, array: Array) -> None:
        self.known[array.id] = array
        if array.cap is not None:
            self.capped[array.id] = array.cap
        else:
            self.capped.pop(array.id, None)

    def _write(self, array: Array) -> None:
        self._keep(array)
        self._pending.piece(f"{PIECE}{array.id}", msgspec.Raw(msgspec.json.encode(array)))

    def _forget(self, array: Array) -> None:
        del self.known[array.id]
        self.capped.pop(array.id, None)
        self._pending.piece(f"{PIECE}{array.id}", msgspec.Raw(b"null"))

    def discrepancies(self) -> list[str]:
        """Where what is kept of arrays differs from their tasks, or more of one run than may."""
        here = Counter(task.array.id for task in self._task_table.tasks.values() if task.array is not None)
        found = [] if here == self._here else ["the tasks that are counted for arrays are not those that there are"]
        caps = {array.id: array.cap for array in self.known.values() if array.cap is not None}
        found += [] if caps == self.capped else ["the caps of arrays are not those that are written down"]
        return found + [f"array {number} is kept, and has no tasks" for number in self.known if number not in here]


def said_of_rest(task: Task) -> Message | None:
    """Return the reason of a task that is held since too many others of its array failed."""
    said = task.reason_args or {}
    if task.reason_key == "array_failed":
        return Message("array_failed", id=said["id"], count=said["count"], tasks=said["tasks"])
    if task.reason_key == "array_failed_so":
        of, count, tasks = said["id"], said["count"], said["tasks"]
        return Message("array_failed_so", id=of, count=count, tasks=tasks, said=said["said"], times=said["times"])
    if task.reason_key == WITH_LINE:
        return Message(
            "array_failed_with",
            id=said["id"],
            count=said["count"],
            tasks=said["tasks"],
            said=said["said"],
            times=said["times"],
            owner=said["owner"],
            logs=said["logs"],
            line=said["line"],
        )
    return None


def without_line(message: Message) -> Message:
    """The same for who may not read the logs."""
    said = message.args
    of, count, tasks = said["id"], said["count"], said["tasks"]
    return Message("array_failed_so", id=of, count=count, tasks=tasks, said=said["said"], times=said["times"])
