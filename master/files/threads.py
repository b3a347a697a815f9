"""Calls that may block for ever, in threads that the master can do without.

A hung NFS holds a thread until it answers, perhaps never. So there are few threads for each storage (`key`); who waits
is told after `patience_s` without a sign of life, had in stretches of time in which this process ran; and once STUCK of
them hang, further calls to it are refused at once. The threads are daemons: they keep no master from ending. Owns the
waiting; what is called is others' business.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from master.loop.kept_threads import KeptThreads
from wire.errors import LimitError, StorageError
from wire.message import Message

T = TypeVar("T")
Tick = Callable[[], None]

PATIENCE_S = 30.0
PER_KEY = 8
STUCK = 4
"""Calls to one storage that hang before further ones are refused; less than PER_KEY, so that it is told at once."""
TOTAL = 64
STRETCHES = 6
"""The patience is had in so many parts: what stops all of this machine for a while takes one of them only."""


class Threads:
    """Threads for blocking calls, in one asyncio loop. `patience_s`: how long a call may show no sign of life."""

    def __init__(self, *, patience_s: float = PATIENCE_S, per_key: int = PER_KEY) -> None:
        self.patience_s = patience_s
        self.kept = KeptThreads("files", TOTAL)
        self._per_key = per_key
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._callers: Counter[str] = Counter()
        """The calls that wait for a thread or have one; `_stuck` are the threads that hang."""
        self.running: Counter[str] = Counter()
        """The threads that work, or hang, by storage."""
        self._stuck: Counter[str] = Counter()

    async def call(self, key: str, work: Callable[[Tick], T]) -> T:
        """Run `work` in a thread and give its result; it calls its argument to show that it goes on.

        `key` is the storage, as people know it. Raises StorageError when it hangs, LimitError when too much waits.
        """
        self._check(key)
        slot = self._slots.setdefault(key, asyncio.Semaphore(self._per_key))
        self._callers[key] += 1
        try:
            await self._acquire(key, slot)
        except BaseException:
            self._left(key)
            raise
        try:
            self._check(key)
            call = _Call(self, key, work, slot)
        except BaseException:
            slot.release()
            self._left(key)
            raise
        self.running[key] += 1
        return await call.future

    async def _acquire(self, key: str, slot: asyncio.Semaphore) -> None:
        try:
            async with asyncio.timeout(self.patience_s):
                await slot.acquire()
        except TimeoutError:
            raise LimitError(Message("file_operations", where=key, most=self._per_key)) from None

    @property
    def storages(self) -> list[str]:
        """All of which something is kept: those that somebody uses now."""
        return list(self._slots)

    def got_stuck(self, key: str) -> StorageError:
        """A call shows no sign of life; what to tell who waits for it."""
        self._stuck[key] += 1
        return StorageError(Message("storage_slow", where=key, seconds=self.patience_s))

    def ended(self, key: str, *, was_stuck: bool) -> None:
        """A thread is done, perhaps long after anybody waited for it."""
        self.running[key] -= 1
        self._stuck[key] -= was_stuck
        self._left(key)

    def _left(self, key: str) -> None:
        """A caller is done. Of a storage that nobody uses nothing is kept: logs may lie anywhere."""
        self._callers[key] -= 1
        if not self._callers[key]:
            for book in (self.running, self._stuck, self._callers, self._slots):
                book.pop(key, None)

    def _check(self, key: str) -> None:
        if self._stuck[key] >= STUCK:
            raise StorageError(Message("storage_hangs", where=key, count=self._stuck[key]))
        if self.running.total() >= TOTAL:
            raise LimitError(Message("file_operations", where=key, most=TOTAL))


class _Call(Generic[T]):
    """One call in its thread. `future` gets what it gives."""

    def __init__(self, threads: Threads, key: str, work: Callable[[Tick], T], slot: asyncio.Semaphore) -> None:
        self._threads = threads
        self._key = key
        self._work = work
        self._slot = slot
        self._loop = asyncio.get_running_loop()
        self._beat = False
        """Was there a sign of life since the last look? `_silent`: the looks since one."""
        self._silent = 0
        self._stuck = False
        self.future: asyncio.Future[T] = self._loop.create_future()
        threads.kept.begin(self._run)
        self._look_later()

    def _tick(self) -> None:
        self._beat = True

    def _run(self) -> None:
        """In the thread."""
        try:
            settle = partial(self._settle, self._work(self._tick), None)
        except Exception as error:  # noqa: BLE001  (it is told to who waits, in the loop)
            settle = partial(self._settle, None, error)
        with suppress(RuntimeError):  # the loop is closed: the master has ended meanwhile
            self._loop.call_soon_threadsafe(settle)

    def _settle(self, result: Any, error: Exception | None) -> None:
        self._look_at.cancel()
        self._threads.ended(self._key, was_stuck=self._stuck)
        self._slot.release()
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    def _look_later(self) -> None:
        self._look_at = self._loop.call_later(self._threads.patience_s / STRETCHES, self._look)

    def _look(self) -> None:
        self._silent = 0 if self._beat else self._silent + 1
        self._beat = False
        if self._silent < STRETCHES:
            self._look_later()
            return
        self._stuck = True
        error = self._threads.got_stuck(self._key)
        if not self.future.done():
            self.future.set_exception(error)
