"""Clocks that a test sets forward: a time that is to pass passes at once, and none passes that is not to, however long
this machine stands still."""

from __future__ import annotations

import time

import pytest


class Leap:
    """`leap(seconds)`, called in a loop: its timers that are due by then are, and it is later by the wall clock too.

    What waits in other threads, or in the kernel, does not hear of it before it looks at a clock again. The deadline of
    `run_story` is a timer as well, so all leaps of a test together are shorter than that.
    """

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        monotonic, wall = time.monotonic, time.time
        patched.setattr(time, "monotonic", lambda: monotonic() + self._ahead)
        patched.setattr(time, "time", lambda: wall() + self._ahead)

    def __call__(self, seconds: float) -> None:
        self._ahead += seconds
