"""Limits how often a user may ask for something expensive: questions to environments, attempts to log in.

Owns the counting, for both dialects alike. Each user has a minute's worth of requests at hand, which is refilled
evenly; desktop clients, which are all one user, have it by address. A caller who has not logged in must be refused
before the request is counted, so that it is not taken from another user's. Knows no clock but the one it is given, and
no more users than it can remember cheaply.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from master.config.settings import Caps
from wire.errors import LimitError
from wire.message import Message

RateClass = Literal["auth", "env"]
"""The kinds of requests, each with a limit of its own: attempts to log in, and questions to environments."""

_PEOPLE_KEPT = 10_000
_MINUTE_S = 60.0


class Rates:
    """The rates of `limits`, which gives those that hold now. `clock`: seconds, from anywhere on."""

    def __init__(self, limits: Callable[[], Caps], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limits = limits
        self._spent: dict[tuple[RateClass, str], tuple[float, float]] = {}

    def check(self, kind: RateClass, who: str) -> None:
        """Count a call of this kind. Raises LimitError when there have been too many of this person's."""
        limits = self._limits()
        most = limits.auth_requests_per_minute if kind == "auth" else limits.env_requests_per_minute
        now = self._clock()
        spent, at = self._spent.pop((kind, who), (0.0, now))
        spent = max(0.0, spent - (now - at) * most / _MINUTE_S)
        if spent + 1 > most:
            self._spent[kind, who] = (spent, now)
            wait_s = (spent + 1 - most) * _MINUTE_S / most
            raise LimitError(Message("too_many_requests", most=most, kind=kind, who=who, seconds=max(1, round(wait_s))))
        self._spent[kind, who] = (spent + 1, now)
        if len(self._spent) > _PEOPLE_KEPT:
            del self._spent[next(iter(self._spent))]
