"""The turns of searches of logs: one search of each user goes on at a time, and few of all users together, because each
takes a core of the master's machine and reads as fast as it may. Owns the waiting, in one asyncio loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from wire.errors import LimitError
from wire.message import Message

T = TypeVar("T")

TOGETHER = 3
"""Searches that go on at once, of all users."""
ASKED = 8
"""Searches of one user that go on or wait before further ones are refused at once."""
PATIENCE_S = 30.0


class SearchTurns:
    """The turns of one master. `patience_s`: how long a search waits for its turn before it is refused."""

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._together = asyncio.Semaphore(TOGETHER)
        self._own: dict[str, asyncio.Lock] = {}
        self._steps: set[asyncio.Future[Any]] = set()
        self.asked: Counter[str] = Counter()
        """How many searches of each user go on or wait."""

    async def run(self, user: str, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do a step of a search when it is the user's turn, and return its result. A step that has begun keeps the turn
        until it ends, also if the caller does not wait for it any more. Raises LimitError, and what `step` raises."""
        if self.asked[user] >= ASKED:
            raise LimitError(Message("log_searches_own", most=ASKED))
        self.asked[user] += 1
        try:
            await self._turn_of(user)
        except BaseException:
            self._left(user)
            raise
        going = asyncio.ensure_future(step())
        self._steps.add(going)
        going.add_done_callback(partial(self._ended, user))
        return await asyncio.shield(going)

    async def _turn_of(self, user: str) -> None:
        own = self._own.setdefault(user, asyncio.Lock())
        try:
            async with asyncio.timeout(self._patience_s):
                await own.acquire()
                try:
                    await self._together.acquire()
                except BaseException:
                    own.release()
                    raise
        except TimeoutError:
            raise LimitError(Message("log_searches_busy", seconds=self._patience_s)) from None

    def _ended(self, user: str, step: asyncio.Future[Any]) -> None:
        self._steps.discard(step)
        if not step.cancelled():
            step.exception()  # else asyncio logs it as never looked at where the caller has left
        self._together.release()
        self._own[user].release()
        self._left(user)

    def _left(self, user: str) -> None:
        """A search of the user's is over. Of a user who has none nothing is kept."""
        self.asked[user] -= 1
        if not self.asked[user]:
            del self.asked[user]
            self._own.pop(user, None)
