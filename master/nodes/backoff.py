"""How long a link waits before it tries again: longer from failure to failure, and longest where a person must act."""

from __future__ import annotations

import random
from collections import Counter

from master.nodes.driver import Patience

BACKOFF_S: dict[Patience, tuple[float, float]] = {"short": (0.1, 15.0), "long": (15.0, 600.0)}
"""The first pause after a failure and the longest, by the patience of the error; each pause is twice the one before,
with up to half of it at random. Long: what only a person can mend, and where trying often does harm (a wrong password
locks accounts)."""


def pause_s(patience: Patience, failures: int, chance: float) -> float:
    """Seconds from the last of so many failures in a row to the next try. `chance`: from 0 to 1."""
    first, longest = BACKOFF_S[patience]
    # Without the inner limit the power would be too large for a float, some hours after a node went away.
    return min(first * 2.0 ** min(failures - 1, 32), longest) * (1 + chance / 2)


class Backoff:
    """The failures in a row. Each patience counts for itself: a machine that was off for a night and refuses log-ins
    while it boots is not left alone for ten minutes then."""

    def __init__(self) -> None:
        self._failures: Counter[Patience] = Counter()

    def talked(self, seconds: float) -> None:
        """The agent was heard in a session of this length: after a long one the failures count anew."""
        if seconds > BACKOFF_S["short"][1]:
            self._failures.clear()

    def failed(self, patience: Patience) -> float:
        """Count one more; the seconds until the next try."""
        self._failures[patience] += 1
        return pause_s(patience, self._failures[patience], random.random())  # noqa: S311  (jitter)
