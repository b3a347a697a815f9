"""The account that a uid of this machine has, looked up in a thread: the directory service may hang.

A result is kept for a minute, so that a user's commands in a loop ask once. `peer.person` says which accounts are no
person's, and give no access.
"""

from __future__ import annotations

import asyncio
import logging

from master.callers.peer import Person, person
from master.files.threads import Threads
from wire.errors import MusterError

log = logging.getLogger("muster.ports")

KEPT_S = 60.0
PATIENCE_S = 4.0
"""A peer whose account is not known by then gets no access by it; they may connect again, or log in."""
MOST = 10_000


class LocalAccounts:
    """Found out and kept, in one asyncio loop. `kept_s`: for so long."""

    def __init__(self, *, kept_s: float = KEPT_S, patience_s: float = PATIENCE_S) -> None:
        self._kept_s = kept_s
        self._threads = Threads(patience_s=patience_s)
        self._known: dict[int, tuple[Person, float]] = {}

    @property
    def is_asking(self) -> bool:
        """Does somebody wait for the directory service, or hang in it?"""
        return bool(self._threads.running.total())

    async def person(self, uid: int) -> Person:
        """As `peer.person`; no name also where that cannot be found out in time."""
        loop = asyncio.get_running_loop()
        found, until = self._known.get(uid, (Person(), 0.0))
        if loop.time() < until:
            return found
        try:
            found = await self._threads.call("the accounts of this machine", lambda _tick: person(uid))
        except (MusterError, OSError) as error:
            log.warning("whose account uid %d is cannot be found out: %s", uid, error)
            return Person()
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[uid] = found, loop.time() + self._kept_s
        return found
