"""Long work of many connections, in turn: in each turn of the loop a little of one of them, so that together they keep
nobody waiting for more than a moment.

Owns the order of the work. The caller defines the work and uses its result.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import msgspec

SHARE_S = 0.005
"""How long one piece of work goes on before everybody else has a turn; what one slice of it takes comes on top."""
TURN_S = 0.01
"""A turn of the loop that is older begins nothing that can wait for the next, whosever it is."""

Work = Generator[None, None, Any]


class Job(msgspec.Struct, frozen=True):
    """`done` is called once, with the result and None, or None and the error; with None and None where it was left
    because it is not wanted any more."""

    work: Work
    done: Callable[[Any, Exception | None], None]
    is_wanted: Callable[[], bool] = lambda: True


class Turns:
    """All long work of one master. `begin` does the first share at once: what is short is done by then. `began`: when
    this turn of the loop did, by the loop's clock; where nobody knows, it does now."""

    def __init__(self) -> None:
        self.began: Callable[[], float] = time.monotonic
        self._jobs: deque[Job] = deque()
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
        self._jobs.append(job)
        self._go_on()
        return False

    def close(self) -> None:
        """Leave what is not done, without a word."""
        for job in self._jobs:
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
            job = self._jobs.popleft()
            if not self._finishes(job):
                self._jobs.append(job)
        self._go_on()

    @staticmethod
    def _finishes(job: Job) -> bool:
        """Work on it for a share; whether that was the last."""
        end = time.monotonic() + SHARE_S
        result: Any = None
        error: Exception | None = None
        try:
            while job.is_wanted():
                next(job.work)
                if time.monotonic() > end:
                    return False
            job.work.close()
        except StopIteration as finished:
            result = finished.value
        except Exception as failed:  # noqa: BLE001  (whose work it is judges it)
            error = failed
        job.done(result, error)
        return True
