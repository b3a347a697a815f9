"""How often an address may ask for what is dear: questions to environments, attempts to log in.

Owns the counting, for both dialects alike. Each address has a minute's worth of requests at hand, which comes back
evenly. Knows no clock but the one it is given, and no more addresses than it can remember cheaply.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from master.config import Limits
from wire.errors import LimitError

_ADDRESSES_KEPT = 10_000
_MINUTE_S = 60.0


class Rates:
    """The rates of `limits`. `clock`: seconds, from anywhere on."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._per_minute = {"auth": limits.auth_requests_per_minute, "env": limits.env_requests_per_minute}
        self._spent: dict[tuple[str, str], tuple[float, float]] = {}

    def check(self, verb: str, address: str) -> None:
        """Count a call of a verb. Raises LimitError when there have been too many of its kind from this address."""
        kind, dot, _ = verb.partition(".")
        most = self._per_minute.get(kind) if dot else None
        if most is None:
            return
        now = self._clock()
        spent, at = self._spent.pop((kind, address), (0.0, now))
        spent = max(0.0, spent - (now - at) * most / _MINUTE_S)
        if spent + 1 > most:
            self._spent[kind, address] = (spent, now)
            wait_s = (spent + 1 - most) * _MINUTE_S / most
            raise LimitError(
                f"more than {most} {kind}.* requests a minute from {address} (conf.json: "
                f"limits.{kind}_requests_per_minute): try again in {max(1, round(wait_s))} s"
            )
        self._spent[kind, address] = (spent + 1, now)
        if len(self._spent) > _ADDRESSES_KEPT:
            del self._spent[next(iter(self._spent))]
