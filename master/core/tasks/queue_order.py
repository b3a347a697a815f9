"""The queue's order, kept rather than made anew: sorting a hundred thousand tasks takes longer than others may wait.

Pure. Its caller says which tasks changed; it looks at them only when somebody asks: a few are put in their places, many
are sorted into what is in order already. Which tasks belong into the queue is what their states say.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping

from master.core.tasks.backlog import Order, order_of
from master.core.tasks.task import QUEUED, Task

FEW = 64
"""So many are put in their places one by one; each costs a move of what stands behind it."""


class QueueOrder:
    """The keys of all queued tasks (`order_of`), the next one first. `known`: the key of a task, if somebody has it."""

    def __init__(self, tasks: Mapping[int, Task], known: Callable[[int], Order | None]) -> None:
        self._tasks = tasks
        self._known = known
        self._keys: list[Order] = []
        self._filed: dict[int, Order] = {}
        self._changed: set[int] = set(tasks)
        self.version = 0
        """Grows with each change that `keys` took in."""

    def note(self, task_id: int) -> None:
        """This task changed, came or went."""
        self._changed.add(task_id)

    def note_all(self, task_ids: Iterable[int]) -> None:
        """Likewise these."""
        self._changed.update(task_ids)

    def __len__(self) -> int:
        return len(self.keys())

    def keys(self) -> list[Order]:
        """All keys. The list is ours and goes on changing: whoever keeps it copies it."""
        if self._changed:
            changed, self._changed = self._changed, set()
            self.version += 1
            if len(changed) <= FEW:
                self._place(changed)
            else:
                self._sort_in(changed)
        return self._keys

    def before(self, task: Task) -> int:
        """How many stand before a task."""
        return bisect_left(self.keys(), order_of(task))

    def _place(self, changed: Iterable[int]) -> None:
        for task_id in changed:
            old = self._filed.pop(task_id, None)
            if old is not None:
                del self._keys[bisect_left(self._keys, old)]
            new = self._key(task_id)
            if new is not None:
                insort(self._keys, new)
                self._filed[task_id] = new

    def _sort_in(self, changed: set[int]) -> None:
        if any(task_id in self._filed for task_id in changed):
            self._keys = [key for key in self._keys if key.id not in changed]
        for task_id in changed:
            self._filed.pop(task_id, None)
            new = self._key(task_id)
            if new is not None:
                self._keys.append(new)
                self._filed[task_id] = new
        self._keys.sort()

    def _key(self, task_id: int) -> Order | None:
        known = self._known(task_id)
        if known is not None:
            return known
        task = self._tasks.get(task_id)
        return order_of(task) if task is not None and task.state in QUEUED else None
