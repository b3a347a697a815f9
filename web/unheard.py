"""Connections that are to say something and have not yet: how many there may be, of one origin (an address, or an
account of this machine) and of all, and for how long each.

Owns the waiting alone. The callers decide what to do with a client that is given up, and how they know that it has
spoken."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple


class _One(NamedTuple):
    origin: str
    give_up: Callable[[], object]
    timer: asyncio.TimerHandle


class Unheard:
    """`most` of them, `most_of_one` of one origin, each for `seconds`. A new one without room displaces the oldest:
    connections that only block others are the oldest."""

    def __init__(self, most: int, most_of_one: int, seconds: float) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._seconds = seconds
        self._waiting: dict[object, _One] = {}
        self._of: Counter[str] = Counter()

    def enter(self, who: object, origin: str, give_up: Callable[[], object]) -> None:
        """Wait for a new client; `give_up` is called once, and not after the client has left."""
        if len(self._waiting) >= self._most or self._of[origin] >= self._most_of_one:
            self._make_room(origin)
        timer = asyncio.get_running_loop().call_later(self._seconds, self._give_up, who)
        self._waiting[who] = _One(origin, give_up, timer)
        self._of[origin] += 1

    def _make_room(self, origin: str) -> None:
        is_of_one = self._of[origin] >= self._most_of_one
        for who, one in self._waiting.items():
            if not is_of_one or one.origin == origin:
                self._give_up(who)
                return

    def _give_up(self, who: object) -> None:
        one = self.leave(who)
        if one is not None:
            one.give_up()

    def leave(self, who: object) -> _One | None:
        """The client has spoken, or is gone; None if nobody waited for it."""
        one = self._waiting.pop(who, None)
        if one is not None:
            one.timer.cancel()
            self._of[one.origin] -= 1
            if not self._of[one.origin]:
                del self._of[one.origin]
        return one

    def __contains__(self, who: object) -> bool:
        return who in self._waiting

    def clear(self) -> None:
        """Give up all of them."""
        for who in list(self._waiting):
            self._give_up(who)
