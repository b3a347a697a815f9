"""The latest time that the master knows of. Rights end by it, so a clock that is set back revives nothing.

Pure. The piece `clock` of the state, which the witness of the folder keeps, too (`core/people/marks`): it is written
when a right has ended that is not removed with its end, and every few minutes besides, never with a submit. A clock
that was far ahead makes this time wrong, and then all rights end early: `accept` is the way back. How often that was
done is kept, so that of two copies the one of the later acceptance holds, and else the later time.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NewType

import msgspec

from master.core.outcome import Pending
from wire.message import Message

PIECE = "clock"
NOTED_S = 600.0
"""So far the noted time may be behind the latest one, while no right ends."""
BEHIND_S = 3600.0
"""A clock that is further behind was set wrong, or set right after it was wrong: somebody has to say which."""
LEAP_S, LEAP_AT_START_S = 3600.0, 30 * 86400.0
"""A clock goes on by so much at once only when it was set, or the machine slept; or while no master ran."""

RightsTime = NewType("RightsTime", float)
"""The time by which rights end, in seconds since the epoch: never earlier than one that was seen before."""


class Leap(msgspec.Struct, frozen=True):
    """The clock went on from `since` to `until` at once (seconds since the epoch), and with that so many log-ins,
    tokens and links (`tokens`) and `users` ended."""

    since: float
    until: float
    tokens: int
    users: int

    def told(self) -> Message:
        """The same for people, with what to do."""
        return Message("clock_leapt", since=self.since, until=self.until, tokens=self.tokens, users=self.users)


class Noted(msgspec.Struct, frozen=True, omit_defaults=True):
    """`latest`: seconds since the epoch. `accepted`: how often somebody accepted a clock. `leap`: the one that nobody
    has accepted yet."""

    latest: float = 0.0
    accepted: int = 0
    leap: Leap | None = None


def later(one: Noted, other: Noted) -> Noted:
    """Of two copies the one that holds."""
    return max(one, other, key=lambda noted: (noted.accepted, noted.latest))


class Clock:
    """`noted`: what is written down. `next_end`: no right ends before (seconds since the epoch); a lower bound."""

    def __init__(self, pending: Pending) -> None:
        self.noted = Noted()
        self.next_end = 0.0
        self._latest = 0.0
        self._looked = 0.0
        self._is_started = False
        self._pending = pending

    def load(self, pieces: Mapping[str, msgspec.Raw]) -> None:
        """Take over what was written down."""
        if raw := pieces.get(PIECE):
            self.noted = msgspec.json.decode(raw, type=Noted)
        self._latest = self._looked = self.noted.latest

    def rights(self, now: float) -> RightsTime:
        """The time by which rights end when the clock shows `now`."""
        return RightsTime(max(self._latest, now))

    def saw(self, now: float) -> RightsTime:
        """Likewise; and from now on it is no earlier."""
        self._latest = max(self._latest, now)
        return RightsTime(self._latest)

    def troubles(self, now: float) -> list[Message]:
        """Return the troubles that people have to look at, while the clock shows `now`."""
        behind = self._latest - now > BEHIND_S
        found = [Message("clock_behind", now=now, latest=self._latest)] if behind else []
        return found if self.noted.leap is None else [*found, self.noted.leap.told()]

    def ends(self, at: float | None) -> None:
        """A right ends at this time. None: it does not end."""
        if at is not None and at < self.next_end:
            self.next_end = at

    def ended(self, next_end: float = inf) -> None:
        """Everything that ended by now has been found, and the next right ends at `next_end`."""
        self.next_end = next_end

    def look(self, now: float) -> float | None:
        """How far the clock has leapt since the last look, and from where: that time. None: it has not."""
        before, self._looked = self._looked, self.saw(now)
        most = LEAP_S if self._is_started else LEAP_AT_START_S
        self._is_started = True
        return before if before and self._looked - before > most else None

    def leapt(self, leap: Leap) -> None:
        """Rights ended with a leap: people have to look at it. Rights that ended with an earlier leap count, too."""
        known = self.noted.leap
        if known is not None:
            leap = Leap(known.since, leap.until, known.tokens + leap.tokens, known.users + leap.users)
        self._note(Noted(self._latest, self.noted.accepted, leap))

    def note_if_due(self) -> None:
        """Write the latest time down if that was long ago."""
        if self._latest - self.noted.latest >= NOTED_S:
            self.note()

    def note(self) -> None:
        """Write the latest time down."""
        self._note(msgspec.structs.replace(self.noted, latest=self._latest))

    def note_end(self, at: float | None, now: float) -> None:
        """Write the latest time down if a right ended at this time, and what is written down does not tell that."""
        if at is not None and self.noted.latest < at <= self.saw(now):
            self.note()

    def accept(self, now: float) -> None:
        """The clock is right: what it shows is the latest time from now on."""
        self._latest = self._looked = now
        self.next_end = 0.0
        self._note(Noted(now, self.noted.accepted + 1))

    def _note(self, noted: Noted) -> None:
        if noted != self.noted:
            self.noted = noted
            self._pending.piece(PIECE, msgspec.Raw(msgspec.json.encode(noted)))
