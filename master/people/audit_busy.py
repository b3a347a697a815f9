"""The lines of a user who makes very many: those beyond a share are joined, so that nobody makes the audit log forget
what others did, or what the same user did before.

Pure. Joined are changes that every user may make: of tasks, allocations, files, own tokens and log-ins. Changes that
are for admins (users, nodes, settings) have a line each.
"""

from __future__ import annotations

from typing import NamedTuple

JOINED = ("task.", "alloc.", "file.", "log.", "env.", "token.", "auth.", "user.password")
"""The beginnings of all audited verbs that others than admins may call, and of no verb for admins alone."""
OWN_LINES = 300
"""Of one user at once; the share grows again by PER_MINUTE. Other calls are joined, a line for each verb and minute."""
PER_MINUTE = 60
MINUTE_S = 60.0
MOST_TOLD = 20
"""Of so many calls a joined line says what they were about."""


class Who(NamedTuple):
    """Calls that can be one line: of one caller from one place, with one verb and one result."""

    user: str | None
    address: str
    via: str
    verb: str
    result: str
    task: int


class Joined:
    """The calls of one line. `told`: the objects of the first ones; `count`: the number of all."""

    def __init__(self) -> None:
        self.told: dict[int | str, None] = {}
        self.count = 0

    def add(self, target: int | str) -> None:
        """One more."""
        self.count += 1
        if len(self.told) < MOST_TOLD:
            self.told[target] = None

    @property
    def target(self) -> str:
        """The objects of the first calls."""
        more = ", …" if self.count > len(self.told) else ""
        return ", ".join(map(str, self.told)) + more


class BusyUsers:
    """`_lines`: of each user, so many of the share are used up, as of `_at` (seconds)."""

    def __init__(self) -> None:
        self._lines: dict[str, float] = {}
        self._at = 0.0
        self._joined: dict[Who, Joined] = {}

    def joins(self, who: Who, target: int | str) -> bool:
        """A change was made; whether it gets no line of its own."""
        if not who.verb.startswith(JOINED):
            return False
        user = who.user or who.address
        used = self._lines.get(user, 0.0)
        if who not in self._joined and used < OWN_LINES:
            self._lines[user] = used + 1
            return False
        self._joined.setdefault(who, Joined()).add(target)
        return True

    def end(self, now: float) -> dict[Who, Joined]:
        """A minute is over; return the joined lines. `now`: in seconds."""
        joined, self._joined = self._joined, {}
        back, self._at = max(0.0, now - self._at) * PER_MINUTE / MINUTE_S, now
        self._lines = {user: used - back for user, used in self._lines.items() if used > back}
        return joined
