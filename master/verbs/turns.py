"""Long work of many users, in turn: in each turn of the loop a little of one of them, so that together they keep nobody
waiting for more than a moment. Of one user one piece is worked on until it is done, then the next: what is made of an
answer lies in the memory, and nobody fills it by asking for a hundred at once.

Owns the order of the work. The caller defines the work and uses its result.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable
from itertools import chain
from typing import Any

import msgspec

SHARE_S = 0.005
"""How long one piece of work goes on before everybody else has a turn; what one slice of it takes comes on top."""
TURN_S = 0.01
"""A turn of the loop that is older begins nothing that can wait for the next, whosever it is."""

Work = Generator[Any, None, Any]
"""It yields True where the rest belongs into a later turn, whatever is left of the share."""


class Job(msgspec.Struct, frozen=True):
    """`done` is called once, with the result and None, or None and the error; with None and None where it was left
    because it is not wanted any more. `whose`: with whose work it waits; None for work that nobody asked for."""

    work: Work
    done: Callable[[Any, Exception | None], None]
    is_wanted: Callable[[], bool] = lambda: True
    whose: Hashable | None = None


class Turns:
    """All long work of one master. `begin` does the first share at once: what is short is done by then. `began`: when
    this turn of the loop did, by the loop's clock; where nobody knows, it does now."""

    def __init__(self) -> None:
        self.began: Callable[[], float] = time.monotonic
        self._jobs: dict[Hashable, deque[Job]] = {}
        """The work of each user, in the order in which they have their turns."""
        self._next: asyncio.Handle | None = None

    @property
    def busy(self) -> bool:
        """Is anything being worked on?"""
        return bool(self._jobs)

    @property
    def ends(self) -> float:
        """When this turn of the loop has gone on for long enough."""
        return self.began() + TURN_S

    def begin(self, job: Job) -> bool:
        """Take on a piece of work; whether it is done. While others are worked on it waits for its turn."""
        if not self._jobs and time.monotonic() <= self.ends and self._finishes(job):
            return True
        self._jobs.setdefault(id(job) if job.whose is None else job.whose, deque()).append(job)
        self._go_on()
        return False

    def close(self) -> None:
        """Leave what is not done, without a word."""
        for job in chain(*self._jobs.values()):
            job.work.close()
        self._jobs.clear()
        if self._next is not None:
            self._next.cancel()

    def _go_on(self) -> None:
        if self._next is None and self._jobs:
            self._next = asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._next = None
        if self._jobs:
            whose, jobs = next(iter(self._jobs.items()))
            if self._finishes(jobs[0]):
                jobs.popleft()
            if self._jobs.pop(whose, None) is jobs and jobs:
                self._jobs[whose] = jobs
        self._go_on()

    @staticmethod
    def _finishes(job: Job) -> bool:
        """Work on it for a share; whether that was the last."""
        end = time.monotonic() + SHARE_S
        result: Any = None
        error: Exception | None = None
        try:
            while job.is_wanted():
                if next(job.work) or time.monotonic() > end:
                    return False
            job.work.close()
        except StopIteration as finished:
            result = finished.value
        except Exception as failed:  # noqa: BLE001  (whose work it is judges it)
            error = failed
        job.done(result, error)
        return True
