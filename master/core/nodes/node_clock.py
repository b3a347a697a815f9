"""How far a node's clock is ahead of the master's, by what its agent says of the time. Pure.

A message says what the node's clock showed when it was sent, and arrives later: the clock is ahead by at least what is
seen so. The answer to a message of the master's says by how much at most, since it was given after that was sent. The
truth lies between, and half of the round trip is in doubt.
"""

from __future__ import annotations

OFF_S = 2.0
"""Clocks that are kept right, by NTP say, are nearer to each other: times by such a clock stay as they were told."""
CLOCK_S = 2 * 86400.0
"""So far may a clock be from the master's of which nothing was measured yet, in seconds."""
ALIKE_S = 1.0
"""Two samples that agree so well were not held up: what waited in a line that was stuck differs by the time between
samples."""


class NodeClock:
    """The measured error of one node's clock: it is ahead by `_low` to `_high` seconds (less than 0: behind)."""

    __slots__ = ("_high", "_low", "_odd")

    def __init__(self) -> None:
        self._low: float | None = None
        self._high = 0.0
        self._odd: float | None = None

    @property
    def ahead(self) -> float | None:
        """By how many seconds it is ahead; None: nobody knows."""
        return None if self._low is None else (self._low + self._high) / 2

    @property
    def doubt(self) -> float:
        """So many seconds more or less may it be."""
        return 0.0 if self._low is None else (self._high - self._low) / 2

    @property
    def wrong_by(self) -> float:
        """Return the seconds to subtract from the times that the node tells: 0 for a clock that may be right."""
        ahead = self.ahead
        return ahead if ahead is not None and abs(ahead) - self.doubt > OFF_S else 0.0

    def answered(self, told: float, sent: float, heard: float) -> None:
        """In its answer to what was sent at `sent` the node's clock showed `told`."""
        self._low, self._high, self._odd = told - heard, told - min(sent, heard), None

    def said(self, told: float, heard: float) -> None:
        """In a message that nobody asked for the node's clock showed `told`. It is believed that a clock was set, the
        node's or the master's, where two of them say so: one alone may have been held up."""
        seen = told - heard
        if self._low is not None and self._low - OFF_S <= seen <= self._high + OFF_S:
            self._low, self._odd = min(max(self._low, seen), self._high), None
        elif self._odd is not None and abs(seen - self._odd) <= ALIKE_S:
            round_trip = 2 * self.doubt
            self._low, self._high, self._odd = seen, seen + round_trip, None
        else:
            self._odd = seen


UNKNOWN = NodeClock()
"""Of which nothing was measured."""


def sane(at: float | None, earliest: float, now: float, clock: NodeClock = UNKNOWN) -> float:
    """When a node says that something was, in seconds since the epoch, by the master's clock; `now` where that cannot
    be: before `earliest`, for which it was too soon, or yet to come. `clock`: the node's.

    As long as nothing was measured of the clock, much is told as it was said. But what was long before, or will be, was
    not, and everything that sorts by time, or looks for its month, would have to live with it for ever.
    """
    if at is None:
        return now
    if clock.ahead is None:
        return at if min(earliest, now) - CLOCK_S <= at <= now + CLOCK_S else now
    if earliest > now:  # the master's clock was ahead then: no more is known than that it is over
        earliest = now - CLOCK_S
    wrong_by, slack = clock.wrong_by, OFF_S + clock.doubt
    at -= wrong_by
    if not earliest - slack <= at <= now + slack:
        return now
    return min(max(at, earliest), now) if wrong_by else at
