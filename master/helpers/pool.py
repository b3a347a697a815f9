"""The helpers that run: one for an account, so many at most; made when somebody needs one, let go when others need the
place, and ending by themselves when nobody has needed them for a while. Called in threads, by many at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from master.files.drafts import Noting
from master.files.tree import Tick
from master.helpers.frames import Call
from master.helpers.helper import GoneError, Helper
from wire.errors import ForbiddenError, LimitError, StorageError
from wire.message import Message

MOST, MOST_BY_AGENT = 32, 12
"""Processes; where an agent starts them, they take as many of its 24 places for probes (16 in earlier
versions), of which users have eight."""
SETTLED_S = 1.0
"""So long at least one stays for its account: where many more people follow logs than there are places, they take turns
by the second and not by the call, each of which would cost a start."""
TURN_S = 10.0
"""So long a call waits for a place."""
REFUSED_S = 10.0
"""So long it is believed that somebody has no account here."""


class Starter(Protocol):
    """Makes a helper, in a thread."""

    def start(self, account: str) -> Helper:
        """One that has become this account. Raises ForbiddenError where it may not, StorageError."""


class _Slot:
    """One account's place. `users`: calls under way; `since`: when the last one began or ended (monotonic seconds)."""

    def __init__(self) -> None:
        self.helper: Helper | None = None
        self.starting = threading.Lock()
        self.users = 0
        self.since = 0.0


class Pool:
    """`most` of them at a time; `settled_s`, `turn_s`: see the constants. `now` gives monotonic seconds."""

    def __init__(
        self,
        starter: Starter,
        *,
        most: int = MOST,
        settled_s: float = SETTLED_S,
        turn_s: float = TURN_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._starter = starter
        self._most = most
        self._settled_s = settled_s
        self._turn_s = turn_s
        self._now = now
        self._lock = threading.Condition()
        self._slots: dict[str, _Slot] = {}
        self._refused: dict[str, tuple[ForbiddenError, float]] = {}
        self._closed = False

    @property
    def accounts(self) -> list[str]:
        """Those that have a helper, or are about to."""
        return list(self._slots)

    def call(self, account: str, call: Call, drafts: Noting, tick: Tick) -> msgspec.Raw:
        """Have it done with the rights of this account. Raises MusterError."""
        for _ in range(2):
            with self._slot(account) as slot:
                helper = self._helper(account, slot)
                try:
                    return helper.call(call, drafts, tick)
                except GoneError:  # it ended by itself a moment ago
                    self._forget(slot, helper)
        raise StorageError(Message("helper_ended", account=account, said="it ends at once"))

    def close(self) -> None:
        """Let all go."""
        with self._lock:
            self._closed = True
            slots, self._slots = list(self._slots.values()), {}
            self._lock.notify_all()
        for slot in slots:
            if slot.helper is not None:
                slot.helper.close()

    @contextmanager
    def _slot(self, account: str) -> Iterator[_Slot]:
        let_go: Helper | None = None
        with self._lock:
            slot = self._slots.get(account)
            if slot is None:
                let_go = self._make_room(account)
                slot = self._slots.setdefault(account, _Slot())
            slot.users += 1
            slot.since = self._now()
        if let_go is not None:
            let_go.close()
        try:
            yield slot
        finally:
            with self._lock:
                slot.users -= 1
                slot.since = self._now()
                if not slot.users and slot.helper is None and self._slots.get(account) is slot:
                    del self._slots[account]
                self._lock.notify_all()

    def _make_room(self, account: str) -> Helper | None:
        """Wait until there is a place for the account, or somebody made one for it; who is to be let go for it. Raises
        LimitError where there is none in time."""
        end = self._now() + self._turn_s
        while not self._closed:
            if len(self._slots) < self._most or account in self._slots:
                return None
            idle = {slot.since: name for name, slot in self._slots.items() if not slot.users}
            settled = min(idle, default=end) + self._settled_s
            now = self._now()
            if idle and now >= settled:
                return self._slots.pop(idle[min(idle)]).helper
            if now >= end:
                break
            self._lock.wait(min(settled, end) - now)
        raise LimitError(Message("helpers_busy", most=self._most))

    def _helper(self, account: str, slot: _Slot) -> Helper:
        with slot.starting:
            if slot.helper is None:
                slot.helper = self._started(account)
            return slot.helper

    def _started(self, account: str) -> Helper:
        error, until = self._refused.get(account, (None, 0.0))
        if error is not None and self._now() < until:
            raise ForbiddenError(*error.args)
        try:
            helper = self._starter.start(account)
        except ForbiddenError as refused:
            self._refused[account] = refused, self._now() + REFUSED_S
            raise
        self._refused.pop(account, None)
        return helper

    @staticmethod
    def _forget(slot: _Slot, helper: Helper) -> None:
        with slot.starting:
            if slot.helper is helper:
                slot.helper = None
        helper.close()
