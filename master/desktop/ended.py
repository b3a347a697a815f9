"""The newest ended tasks, kept at hand: looking for them among all tasks would cost as much as there are tasks."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from master.core.core import Core
from master.core.outcome import Move
from master.core.tasks.task import ENDED, Task

SHOWN = 100


class NewestEnded:
    """The newest SHOWN finished tasks. It receives every change, and looks through all tasks only when it runs
    short."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: set[int] | None = None

    def note(self, moves: Sequence[Move]) -> None:
        """These moves happened."""
        if self._known is None:
            return
        count = len(self._known)
        for task, before, after in moves:
            if after in ENDED:
                self._known.add(task.id)
            elif before in ENDED:
                self._known.discard(task.id)
        if len(self._known) < count and len(self._known) < SHOWN:
            self._known = None
        elif len(self._known) > 2 * SHOWN:
            self._known = {task.id for task in self.list()}

    def list(self) -> list[Task]:
        """At most SHOWN tasks, the newest last."""
        tasks = self._core.tasks
        if self._known is None:
            candidates = [task for task in tasks.values() if task.state in ENDED]
        else:
            # A move that is not published yet may have taken one away.
            candidates = [tasks[i] for i in self._known if i in tasks and tasks[i].state in ENDED]
        newest = heapq.nlargest(SHOWN, candidates, key=_when)
        self._known = {task.id for task in newest}
        return newest[::-1]


def _when(task: Task) -> tuple[float, int]:
    return (task.ended_at or 0.0, task.id)
