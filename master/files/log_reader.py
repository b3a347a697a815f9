"""Reading logs for clients: pieces of them, collapsed if so asked, and waiting for a log to grow.

Files are read in threads: a hung NFS stops no loop. All who follow one log share one look at its size, five times a
second; the end of a task wakes everybody who waits for its log at once. Owns reading; the verb decides which log
belongs to which task.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from master.core.outcome import Move
from master.core.tasks.task import ENDED, TaskState
from master.engine.engine import Engine
from master.files.log_file import Own
from master.files.log_pieces import HERE, Piece, Source, Where
from master.files.search_turns import SearchTurns
from master.files.threads import Threads, Whose
from wire.errors import MusterError

if TYPE_CHECKING:
    from master.files.log_search import Ask, Found

LOOK_EVERY_S = 0.2
_WAKING = {*ENDED, TaskState.RUNNING}


class LogReader:
    """Reads logs for all clients of one master; told by the engine of tasks that end."""

    def __init__(self, engine: Engine) -> None:
        self.threads = Threads()
        self._searching = Threads()
        self.turns = SearchTurns()
        self.look_every_s = LOOK_EVERY_S
        self._waiting: defaultdict[_Followed, dict[_Waiter, None]] = defaultdict(dict)
        self._by_task: defaultdict[int, set[_Waiter]] = defaultdict(set)
        self._looking: dict[_Followed, asyncio.Task[None]] = {}
        engine.observers.append(self)

    async def read(
        self,
        path: str,
        offset: int,
        limit: int,
        where: Where,
        *,
        collapsed: bool = False,
        source: Source = HERE,
    ) -> Piece:
        """Read from `offset` (negative: from the end). A log that does not exist yet is empty. `where`: which log it
        may be; `source`: with whose rights. Raises ConflictError, ForbiddenError, StorageError."""
        return await self.threads.call(
            _storage(path),
            lambda _tick: source.read(path, where, offset, limit, collapsed=collapsed),
            source.whose,
        )

    async def search(self, path: str, ask: Ask, where: Where, source: Source = HERE, *, user: str) -> Found:
        """Do a step of a search for `user`, see `log_search`; `where`: which log it may be; `source`: with whose
        rights. Raises BadRequestError, ConflictError, ForbiddenError, LimitError, StorageError."""
        from master.files.log_search import search  # noqa: PLC0415  (a start has no use for it)

        def read(offset: int, limit: int) -> Piece:
            return source.read(path, where, offset, limit, collapsed=False)

        def step() -> Coroutine[Any, Any, Found]:
            return self._searching.call(_storage(path), lambda tick: search(read, ask, tick), source.whose)

        return await self.turns.run(user, step)

    async def grown(
        self, path: str, size: int, task_id: int | None, wait_s: float, *, where: Where, source: Source = HERE
    ) -> None:
        """Wait until the log has another size than `size`, or the task has ended, or `wait_s` seconds are over.
        `where`, `source`: as for `read`."""
        followed = _Followed(path, source.whose, where[0], where[2])
        waiter = _Waiter(size, where, source)
        self._waiting[followed][waiter] = None
        if task_id is not None:
            self._by_task[task_id].add(waiter)
        if followed not in self._looking:
            self._looking[followed] = asyncio.create_task(self._look(followed))
        try:
            async with asyncio.timeout(wait_s):
                await waiter.woken.wait()
        except TimeoutError:
            return
        finally:
            self._forget(followed, waiter, task_id)

    async def begun(self, task_id: int, wait_s: float) -> None:
        """Wait until an attempt of the task has begun, or it has ended, or `wait_s` seconds are over."""
        waiter = _Waiter(0, (None, None, None), HERE)
        self._by_task[task_id].add(waiter)
        try:
            async with asyncio.timeout(wait_s):
                await waiter.woken.wait()
        except TimeoutError:
            return
        finally:
            self._leave(waiter, task_id)

    @property
    def followed(self) -> dict[str, int]:
        """How many wait for more of each log."""
        found = Counter[str]()
        for followed, waiters in self._waiting.items():
            found[followed.path] += len(waiters)
        return found

    def published(self, moves: Sequence[Move], _nodes: set[str]) -> None:
        """Wake the waiters for the log of a task that began, is finished or deleted."""
        if self._by_task:
            self._wake(task.id for task, _, after in moves if after is None or after in _WAKING)

    def _wake(self, task_ids: Iterable[int]) -> None:
        for task_id in task_ids:
            for waiter in self._by_task.get(task_id, ()):
                waiter.woken.set()

    async def _look(self, followed: _Followed) -> None:
        path = followed.path
        try:
            while waiters := self._waiting.get(followed):
                one = next(iter(waiters))
                size = await self.threads.call(
                    _storage(path),
                    lambda _tick, one=one: one.source.size(path, one.where),  # type: ignore[misc]
                    one.source.whose,
                )
                for waiter in waiters:
                    if waiter.size != size:
                        waiter.woken.set()
                await asyncio.sleep(self.look_every_s)
        except MusterError:
            # The storage hangs: the waiters find out when they read, and get the error then.
            for waiter in self._waiting.get(followed, ()):
                waiter.woken.set()
        finally:
            del self._looking[followed]

    def _forget(self, followed: _Followed, waiter: _Waiter, task_id: int | None) -> None:
        self._waiting[followed].pop(waiter, None)
        if not self._waiting[followed]:
            del self._waiting[followed]
        if task_id is not None:
            self._leave(waiter, task_id)

    def _leave(self, waiter: _Waiter, task_id: int) -> None:
        self._by_task[task_id].discard(waiter)
        if not self._by_task[task_id]:
            del self._by_task[task_id]


class _Followed(NamedTuple):
    """A log, as those follow it who share a look: with the same rights, in the same places (see `Where`)."""

    path: str
    whose: Whose
    within: tuple[str, ...] | None
    own: Own | None


class _Waiter:
    """One call that waits for a log to have another size than `size`. `where`, `source`: as `LogReader.read` has
    them."""

    def __init__(self, size: int, where: Where, source: Source) -> None:
        self.size = size
        self.where = where
        self.source = source
        self.woken = asyncio.Event()


def _storage(path: str) -> str:
    return os.path.dirname(path) or path  # noqa: PTH120  (runs at every read; a Path costs more than the read)
