"""An index of the tasks that are not over, by owner, so that the tasks of one owner are found without a search through
all.

Pure. It listens to what happens to tasks; eight bytes a task, for a queue may hold a hundred thousand. A task that has
ended since, or has another owner, is left out when somebody looks, and forgotten then, or once more than twice as many
are kept as there are tasks.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

from master.core.tasks.task import ENDED, Task
from master.core.tasks.transitions import State

FEW = 1000
"""So many more may be kept."""


class OwnTasks:
    """`tasks`: all there are, by id; `kept`: how many ids are, of tasks that are over, too."""

    def __init__(self, tasks: Mapping[int, Task]) -> None:
        self._tasks = tasks
        self._ids: dict[str, array[int]] = {}
        self.kept = 0

    def concerns(self, before: State, after: State) -> bool:
        """Those that come, or are tried again after their end."""
        return _is_over(before) and not _is_over(after)

    def moved(self, task: Task, _before: State = None, _after: State = None) -> None:
        """It is its owner's from now on."""
        ids = self._ids.get(task.owner)
        if ids is None:
            ids = self._ids[task.owner] = array("q")
        ids.append(task.id)
        self.kept += 1
        if self.kept > 2 * len(self._tasks) + FEW:
            self._forget()

    def filed(self, tasks: Sequence[Task]) -> None:
        """They are their owner's, who is one for all."""
        self._ids.setdefault(tasks[0].owner, array("q")).extend(task.id for task in tasks)
        self.kept += len(tasks)
        if self.kept > 2 * len(self._tasks) + FEW:
            self._forget()

    def of(self, owner: str) -> list[Task]:
        """Return the tasks of this owner that are not over, in no order."""
        ids = self._ids.get(owner, ())
        found = self._his(owner, ids)
        if len(found) < len(ids):
            self.kept -= len(ids) - len(found)
            self._ids[owner] = array("q", found)
        return list(found.values())

    def _his(self, owner: str, ids: Iterable[int]) -> dict[int, Task]:
        his = ((task_id, self._tasks.get(task_id)) for task_id in ids)
        return {
            task_id: task
            for task_id, task in his
            if task is not None and task.owner == owner and not _is_over(task.state)
        }

    def _forget(self) -> None:
        for owner in list(self._ids):
            if not self.of(owner):
                del self._ids[owner]

    def discrepancies(self) -> list[str]:
        """Of whom a task is missing."""
        known = {task.id for owner in list(self._ids) for task in self.of(owner)}
        alive = {number for number, task in self._tasks.items() if not _is_over(task.state)}
        return [f"tasks {sorted(known ^ alive)} are not known as their owners'"] if known != alive else []


def _is_over(state: State) -> bool:
    return state is None or state in ENDED
