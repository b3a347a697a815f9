"""Threads for calls that would block the loop: hashing a password, asking a directory that may not answer.

So many work at a time, so many more may wait, and further callers are refused at once: a queue without a limit would
let anybody take memory, and minutes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from master.loop.kept_threads import KeptThreads
from wire.errors import LimitError
from wire.message import Message

T = TypeVar("T")


class Workers:
    """`threads` calls at a time, `waiting` more that wait, in one asyncio loop. `each_s`: how long a call takes, which
    determines the time after which a refused caller may try again."""

    def __init__(self, name: str, *, threads: int, waiting: int, each_s: float) -> None:
        self._threads = KeptThreads(name, threads)
        self._most = threads + waiting
        self._free = asyncio.Semaphore(threads)
        self._again_s = math.ceil(self._most * each_s / threads)
        self._closed = False
        self.under_way = 0
        """Calls that run or wait."""

    async def run(self, work: Callable[[], T]) -> T:
        """Call `work` in a thread and return its result. Raises LimitError at once if too many calls wait already, or
        after `close`, and whatever `work` raises. A cancelled caller is no longer waited for."""
        self._check(self._most - 1)
        self.under_way += 1
        try:
            await self._free.acquire()
        except BaseException:
            self.under_way -= 1
            raise
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        try:
            self._check(self._most)
            self._threads.begin(partial(self._call, loop, future, work))
        except BaseException:  # it was closed meanwhile, or no thread is to be had
            self._end()
            raise
        return await future

    def _check(self, most: int) -> None:
        if self._closed or self.under_way > most:
            raise LimitError(Message("log_ins_busy", seconds=self._again_s))

    def close(self) -> None:
        """Begin nothing new. Running calls go on to their end, which nobody needs to wait for."""
        self._closed = True

    def _call(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], work: Callable[[], T]) -> None:
        """In the thread."""
        try:
            settle = partial(self._settle, future, work(), None)
        except Exception as error:  # noqa: BLE001  (it is told to who waits, in the loop)
            settle = partial(self._settle, future, None, error)
        with suppress(RuntimeError):  # the loop is closed: the master has ended meanwhile
            loop.call_soon_threadsafe(settle)

    def _settle(self, future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        self._end()
        if future.done():
            return  # who asked does not wait any more
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _end(self) -> None:
        self.under_way -= 1
        self._free.release()
