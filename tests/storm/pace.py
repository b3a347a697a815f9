"""The run's clock: it goes by the lives of the master, not by seconds, so that a slow machine has the same run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.storm.clients import Feed

Say = Callable[[str], None]


class Pace:
    """Which phase it is. `end` lets everybody go on, also after a failure."""

    def __init__(self, phases: int) -> None:
        self.phases = phases
        self.phase = -1
        self._changed = threading.Condition()

    def reach(self, phase: int) -> None:
        """It is this phase now."""
        with self._changed:
            self.phase = max(self.phase, phase)
            self._changed.notify_all()

    def end(self) -> None:
        """It is the last one."""
        self.reach(self.phases)

    @property
    def is_over(self) -> bool:
        """Has it ended?"""
        return self.phase >= self.phases

    def wait(self, phase: int) -> None:
        """Wait for a phase."""
        with self._changed:
            self._changed.wait_for(lambda: self.phase >= phase)


class LastFault:
    """When the last fault was over: from then on everything has to come to rest."""

    def __init__(self) -> None:
        self.at = time.monotonic()
        self._lock = threading.Lock()

    def over(self) -> None:
        """One was over now."""
        with self._lock:
            self.at = max(self.at, time.monotonic())


class Going(NamedTuple):
    """What all lanes of a run have in common."""

    feed: Feed
    pace: Pace
    last: LastFault
    seed: int
    say: Say
