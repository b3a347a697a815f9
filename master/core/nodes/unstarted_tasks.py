"""Which tasks some node could not start, so that whoever resumes a node need not look through all that there are.

Pure. The tasks' own record (`Task.unstarted`) counts, and is on disk; this is only an index of where to look for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from master.core.tasks.nothing import NO_LIST
from master.core.tasks.task import ENDED, QUEUED, Task, Unstarted
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State


class UnstartedTasks:
    """The ids of all tasks in which it may stand; of those that have ended nobody asks any more."""

    def __init__(self, task_table: TaskTable) -> None:
        self._task_table = task_table
        self._ids: set[int] = set()

    def load(self, tasks: Iterable[Task]) -> None:
        """Take over what was written down."""
        self._ids.update(task.id for task in tasks if task.unstarted and task.state not in ENDED)

    def concerns(self, _before: State, after: State) -> bool:
        """Tell whether a task ends, or goes."""
        return after is None or after in ENDED

    def moved(self, task: Task, _before: State, _after: State) -> None:
        """It is looked for no more: who is queued again begins without."""
        self._ids.discard(task.id)

    def put(self, task: Task, entries: list[Unstarted]) -> None:
        """These nodes could not start it, and no others. That the task changed is told by whoever calls."""
        task.unstarted = entries
        self._ids.add(task.id)

    def forget(self, node: str) -> None:
        """Somebody has mended the node: what it could not start says nothing of those tasks that wait, nor of it."""
        for task_id in sorted(self._ids):
            task = self._task_table.tasks[task_id]
            if task.state in QUEUED and any(entry.node == node for entry in task.unstarted):
                task.unstarted = [entry for entry in task.unstarted if entry.node != node] or NO_LIST
                self._task_table.changed(task)

    def discrepancies(self) -> list[str]:
        """Which tasks are not known here as they should be."""
        tasks = self._task_table.tasks
        due = {number for number, task in tasks.items() if task.unstarted and task.state not in ENDED}
        gone = {number for number in self._ids if number not in tasks or tasks[number].state in ENDED}
        found = [f"task {number} could not be started somewhere, and is not looked for" for number in due - self._ids]
        return found + [f"task {number} is over, and looked for still" for number in gone]
