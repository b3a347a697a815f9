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
    """The keys of all queued tasks (`order_of`), the next one first. `known`: the key of a task, if somebody has it;
    until a task is noted, it stands here with that key. So the key of each need not be kept here as well."""

    def __init__(self, tasks: Mapping[int, Task], known: Callable[[int], Order | None]) -> None:
        self._tasks = tasks
        self._known = known
        self._keys: list[Order] = []
        self._unknown: dict[int, Order] = {}
        """The keys here that nobody else has: of tasks that are held, or wait for a time or others."""
        self._stood: dict[int, Order | None] | None = None
        """Of tasks that changed since somebody asked: the key with which each stands here, None if it does not. None
        until somebody asks for the first time."""
        self.version = 0
        """Grows with each change that `keys` took in."""

    def note(self, task_id: int) -> None:
        """This task changes, comes or goes. Said before whoever has its key has another one."""
        if self._stood is not None and task_id not in self._stood:
            known = self._known(task_id)
            self._stood[task_id] = self._unknown.get(task_id) if known is None else known

    def note_new(self, task_ids: Iterable[int]) -> None:
        """These come."""
        if self._stood is not None:
            self._stood.update(dict.fromkeys(task_ids))

    def __len__(self) -> int:
        return len(self.keys())

    def keys(self) -> list[Order]:
        """All keys. The list is ours and goes on changing: whoever keeps it copies it."""
        if self._stood is None:
            self._stood = {}
            self.version += 1
            self._sort_in(self._tasks)
        if self._stood:
            stood, self._stood = self._stood, {}
            self.version += 1
            if len(stood) <= FEW:
                self._place(stood)
            else:
                if any(stood.values()):
                    self._keys = [key for key in self._keys if key.id not in stood]
                self._sort_in(stood)
        return self._keys

    def before(self, task: Task) -> int:
        """How many stand before a task."""
        return bisect_left(self.keys(), order_of(task))

    def _place(self, stood: Mapping[int, Order | None]) -> None:
        for task_id, old in stood.items():
            if old is not None:
                del self._keys[bisect_left(self._keys, old)]
            new = self._key(task_id)
            if new is not None:
                insort(self._keys, new)

    def _sort_in(self, task_ids: Iterable[int]) -> None:
        self._keys.extend(key for key in map(self._key, task_ids) if key is not None)
        self._keys.sort()

    def _key(self, task_id: int) -> Order | None:
        self._unknown.pop(task_id, None)
        known = self._known(task_id)
        if known is not None:
            return known
        task = self._tasks.get(task_id)
        if task is None or task.state not in QUEUED:
            return None
        key = self._unknown[task_id] = order_of(task)
        return key
