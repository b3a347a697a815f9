"""Limit how often the core plans, so that planning takes at most a fifth of the time, however long the queue is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PLAN_SHARE = 4
"""After a plan that took d seconds, the next one begins at least PLAN_SHARE * d seconds later."""


class PlanPace:
    """`plan` makes a plan; `again` is called when a plan that came too soon is due."""

    def __init__(self, plan: Callable[[], None], again: Callable[[], None]) -> None:
        self._plan = plan
        self._again = again
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def plan_if_due(self) -> None:
        """Plan now, or set a timer for the time at which the next plan is due."""
        started = time.monotonic()
        if started < self._next:
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(self._next - started, self._due)
            return
        self._plan()
        self._next = time.monotonic() + PLAN_SHARE * (time.monotonic() - started)

    def _due(self) -> None:
        self._timer = None
        self._again()
