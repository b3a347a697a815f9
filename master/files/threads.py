"""Calls that may block for ever, in threads that the master can do without.

A hung NFS holds a thread until it answers, perhaps never. So there are few threads for each storage (`key`); who waits
is told after `patience_s` without a sign of life, had in stretches of time in which this process ran; and once STUCK of
them hang, further calls to it are refused at once. The threads are daemons: they keep no master from ending. Owns the
waiting; what is called is others' business.

A call with the rights of a user's account (`account`) may hang because that account wants it: it may stop the process
that does it, or mount what never answers. So an account takes few threads, whatever storages it names, and of those
that hang only one counts for the others who want something of the same storage. Where all is done with the master's
rights, a user has half of the threads of a storage at most: others do not wait behind all that one asks for.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

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


class Whose(NamedTuple):
    """With whose rights a call is done: those of this account, "" for the master's; and for which user, "" for none."""

    account: str = ""
    user: str = ""


NOBODYS = Whose()


class _Queue(NamedTuple):
    """Those who wait for the same threads: those of a storage, those that a user may have of them, or those that an
    account may have. `places`: how many there are."""

    key: str
    account: str
    user: str
    places: int


class Threads:
    """Threads for blocking calls, in one asyncio loop. `patience_s`: how long a call may show no sign of life."""

    def __init__(self, *, patience_s: float = PATIENCE_S, per_key: int = PER_KEY) -> None:
        self.patience_s = patience_s
        self.kept = KeptThreads("files", TOTAL)
        self._per_key = per_key
        self._slots: dict[_Queue, asyncio.Semaphore] = {}
        self._callers: Counter[_Queue] = Counter()
        """The calls that wait for a thread or have one."""
        self.running: Counter[str] = Counter()
        """The threads that work, or hang, by storage."""
        self._stuck: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """The threads that hang, by storage and account."""

    async def call(self, key: str, work: Callable[[Tick], T], whose: Whose = NOBODYS) -> T:
        """Run `work` in a thread and give its result; it calls its argument to show that it goes on.

        `key` is the storage, as people know it. Raises StorageError when it hangs, LimitError when too much waits.
        """
        self._check(key, whose.account)
        queues, held = self._queues(key, whose), list[_Queue]()
        self._callers.update(queues)
        try:
            await self._acquire(key, queues, held)
            self._check(key, whose.account)
            call = _Call(self, key, whose.account, work, queues)
        except BaseException:
            self._leave(queues, held)
            raise
        self.running[key] += 1
        return await call.future

    def _queues(self, key: str, whose: Whose) -> list[_Queue]:
        """A user who waits for their own takes no place of the storage's meanwhile."""
        if whose.account:
            return [_Queue("", whose.account, "", self._per_key)]
        own = [_Queue(key, "", whose.user, max(1, self._per_key // 2))] if whose.user else []
        return [*own, _Queue(key, "", "", self._per_key)]

    async def _acquire(self, key: str, queues: list[_Queue], held: list[_Queue]) -> None:
        try:
            async with asyncio.timeout(self.patience_s):
                for queue in queues:
                    await self._slots.setdefault(queue, asyncio.Semaphore(queue.places)).acquire()
                    held.append(queue)
        except TimeoutError:
            raise LimitError(Message("file_operations", where=key, most=queues[0].places)) from None

    @property
    def storages(self) -> list[str]:
        """All of which something is kept: those that somebody uses now."""
        return list({*self.running, *self._stuck, *(queue.key for queue in self._slots if queue.key)})

    def got_stuck(self, key: str, account: str) -> StorageError:
        """A call shows no sign of life; what to tell who waits for it."""
        self._stuck[key][account] += 1
        return StorageError(Message("storage_slow", where=key, seconds=self.patience_s))

    def ended(self, key: str, account: str, queues: list[_Queue], *, was_stuck: bool) -> None:
        """A thread is done, perhaps long after anybody waited for it."""
        self.running[key] -= 1
        if not self.running[key]:
            del self.running[key]
        if was_stuck:
            self._stuck[key][account] -= 1
            self._stuck[key] += Counter()  # without those that are none
            if not self._stuck[key]:
                del self._stuck[key]
        self._leave(queues, queues)

    def _leave(self, queues: list[_Queue], held: list[_Queue]) -> None:
        """A caller is done. Of what nobody uses nothing is kept: logs may lie anywhere."""
        for queue in held:
            self._slots[queue].release()
        for queue in queues:
            self._callers[queue] -= 1
            if not self._callers[queue]:
                del self._callers[queue]
                self._slots.pop(queue, None)

    def _check(self, key: str, account: str) -> None:
        stuck = self._stuck.get(key)
        if stuck is not None:
            own = stuck[account]
            others = sum(1 if name else count for name, count in stuck.items() if name != account)
            if own + others >= STUCK:
                raise StorageError(Message("storage_hangs", where=key, count=own + others))
        if self.running.total() >= TOTAL:
            raise LimitError(Message("file_operations", where=key, most=TOTAL))


class _Call(Generic[T]):
    """One call in its thread. `future` gets what it gives."""

    def __init__(
        self, threads: Threads, key: str, account: str, work: Callable[[Tick], T], queues: list[_Queue]
    ) -> None:
        self._threads = threads
        self._key = key
        self._account = account
        self._work = work
        self._queues = queues
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
        self._threads.ended(self._key, self._account, self._queues, was_stuck=self._stuck)
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
        error = self._threads.got_stuck(self._key, self._account)
        if not self.future.done():
            self.future.set_exception(error)
