"""Tasks that wait for a time: each with when, and which come next; and how long one waits that is to be tried again.

Pure; nothing here looks at a clock.
"""

from __future__ import annotations

import heapq

SPARE = 64
"""So many entries that mean nothing any more may lie in the heap, besides as many as mean something."""
LONGEST_RETRY_S = 600.0
"""The longest that a task waits before it is tried again, unless the first pause is set to more."""
LEAST_TURN_S = 10.0
"""A task that goes on behind all others begins no more often."""


def pause_s(retries: int, first_s: float) -> float:
    """How long a task waits before the next try, of which so many were made before: each time twice as long."""
    return min(first_s * 2.0 ** min(retries, 16), max(first_s, LONGEST_RETRY_S))


class Later:
    """The times by task, of those that are still to come and of those that were told (`due`) and are kept."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}
        self._ahead: set[int] = set()
        self._heap: list[tuple[float, int]] = []

    def __contains__(self, task_id: int) -> bool:
        """Is its time still to come?"""
        return task_id in self._ahead

    def __len__(self) -> int:
        return len(self._ahead)

    def ids(self) -> list[int]:
        """The tasks whose time is still to come."""
        return sorted(self._ahead)

    def time_of(self, task_id: int) -> float | None:
        """The time that was said of this task, be it over."""
        return self._at.get(task_id)

    def put(self, task_id: int, at: float | None) -> None:
        """This one waits until then; None, or what was said of it already: nothing changes for it, or it waits no
        longer."""
        if at == self._at.get(task_id):
            return
        self.discard(task_id)
        if at is not None:
            self._at[task_id] = at
            self._ahead.add(task_id)
            heapq.heappush(self._heap, (at, task_id))
            if len(self._heap) > 2 * len(self._ahead) + SPARE:  # what was put off again and again
                self._heap = sorted((self._at[one], one) for one in self._ahead)

    def discard(self, task_id: int) -> None:
        """Forget this one; harmless if it is not here."""
        self._at.pop(task_id, None)
        self._ahead.discard(task_id)

    def due(self, now: float) -> list[int]:
        """Those whose time has come, the earliest first; they are not told again."""
        found = []
        while (at := self.next_at) is not None and at <= now:
            _, task_id = heapq.heappop(self._heap)
            self._ahead.discard(task_id)
            found.append(task_id)
        return found

    @property
    def next_at(self) -> float | None:
        """When the next one's time comes."""
        heap = self._heap
        while heap and not (heap[0][1] in self._ahead and self._at.get(heap[0][1]) == heap[0][0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None
