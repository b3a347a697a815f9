"""Ends rights with their time, so that no clock that is set back revives them; and accepts a clock that was set.

Pure. Tokens, log-ins and links are removed when their time is over. Users stay, and that their time is over stands in
the latest time that is written down (`clock`). Somebody looks every few seconds, and when the next right ends.
"""

from __future__ import annotations

from math import inf

import msgspec

from master.core.nodes.notes import Notes
from master.core.outcome import Pending
from master.core.people.clock import Leap
from master.core.people.owners import Owners
from master.core.people.people import People


class Accepted(msgspec.Struct, frozen=True):
    """The changes that an accepted clock made. `was`: the latest time before (seconds since the epoch). `ended`: how
    many tokens, log-ins and links had ended by then and are not revived. `users`: the names of those whose time is not
    over after all; `tasks`: of theirs those that wait again."""

    was: float
    ended: int
    users: list[str]
    tasks: list[int]


class RightsEnd:
    """`people`, whose rights end by their clock, and `notes`, which have the tokens of nodes."""

    def __init__(self, people: People, owners: Owners, notes: Notes, pending: Pending) -> None:
        self._people = people
        self._clock = people.clock
        self._owners = owners
        self._notes = notes
        self._pending = pending

    def look(self, now: float) -> Leap | None:
        """End what is over. A leap of the clock with which rights ended is given, and kept until a clock is
        accepted."""
        clock = self._clock
        since = clock.look(now)
        at = clock.saw(now)
        if at < clock.next_end:
            return None
        noted, expired = clock.noted.latest, self._expired_since(since, at)
        count = self._people.end_expired(at)
        nodes = self._notes.end_tokens(at)
        clock.ended(min(self._people.ends_after(at), nodes))
        if self._expired_since(noted, at):
            clock.note()
        if since is None or not (count or expired):
            return None
        leap = Leap(since, at, count, expired)
        clock.leapt(leap)
        return leap

    def accept(self, now: float) -> Accepted:
        """The clock is right, whatever was seen before. Rights that have ended stay ended: tokens, log-ins and links,
        also those of users who had expired, and the tokens of nodes that were replaced."""
        people, clock = self._people, self._clock
        was = clock.saw(now)
        clock.next_end = 0.0
        ended = people.end_expired(was) + people.end_of_expired_users(was)
        self._notes.end_tokens(inf)
        before = {user.name for user in people.users.values() if not user.is_enabled(was)}
        clock.accept(now)
        at = clock.rights(now)
        people.made_no_later(now)
        users = sorted(name for name in before if people.find(name).is_enabled(at))
        tasks = self._owners.unexpired(at)
        self._pending.plan_needed = True
        people.look_again()
        return Accepted(was, ended, users, tasks)

    def _expired_since(self, since: float | None, now: float) -> int:
        if since is None:
            return 0
        ends = (user.expires_at for user in self._people.users.values())
        return sum(end is not None and since < end <= now for end in ends)
