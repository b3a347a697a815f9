"""Reading logs for clients: pieces of them, collapsed if so asked, and waiting for a log to grow.

Files are read in threads: a hung NFS stops no loop. All who follow one log share one look at its size, five times a
second; whoever waits for a task's log is woken at once when the task ends. Owns reading; which log is whose is the
verb's.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from master.core.task import ENDED, Task
from master.engine import Engine
from master.files.log_collapse import collapse
from master.files.log_file import Own, opened
from master.files.owners import Sight
from master.files.threads import Threads
from wire.errors import MusterError

BLOCK = 1 << 20
MAX_SCAN = 8 << 20
"""Bytes of a log that one answer looks through at most when it collapses: of progress bars little is left."""
LOOK_EVERY_S = 0.2
_Where = tuple[tuple[str, ...] | None, Sight | None, Own | None]


class Piece(NamedTuple):
    """A piece of a log. `data` is what stands from `offset` to `next`, collapsed: less, and `rest` is then the state of
    the line that has no end yet, which begins at `next`. `size`: of the file; `missing`: there is none."""

    offset: int
    data: bytes
    rest: bytes
    next: int
    size: int
    missing: bool = False

    @property
    def end(self) -> int:
        """Up to where the file was looked at."""
        return self.next + len(self.rest)


class LogReader:
    """Reads logs for all clients of one master; told by the engine of tasks that end."""

    def __init__(self, engine: Engine) -> None:
        self.threads = Threads()
        self.look_every_s = LOOK_EVERY_S
        self._waiting: defaultdict[str, dict[_Waiter, None]] = defaultdict(dict)
        self._by_task: defaultdict[int, set[_Waiter]] = defaultdict(set)
        self._looking: dict[str, asyncio.Task[None]] = {}
        engine.observers.append(self)

    async def read(
        self,
        path: str,
        offset: int,
        limit: int,
        *,
        collapsed: bool = False,
        within: tuple[str, ...] | None = None,
        sight: Sight | None = None,
        own: Own | None = None,
    ) -> Piece:
        """Read from `offset` (negative: from the end). A log that is not there yet is empty. `within`, `sight`, `own`:
        see `log_file.opened`. Raises ConflictError, ForbiddenError, StorageError."""
        work = _read_collapsed if collapsed else _read
        return await self.threads.call(_storage(path), lambda _tick: work(path, (within, sight, own), offset, limit))

    async def grown(self, path: str, size: int, task_id: int | None, wait_s: float) -> None:
        """Wait until the log has another size than `size`, or the task has ended, or `wait_s` seconds are over."""
        waiter = _Waiter(size)
        self._waiting[path][waiter] = None
        if task_id is not None:
            self._by_task[task_id].add(waiter)
        if path not in self._looking:
            self._looking[path] = asyncio.create_task(self._look(path))
        try:
            async with asyncio.timeout(wait_s):
                await waiter.woken.wait()
        except TimeoutError:
            return
        finally:
            self._forget(path, waiter, task_id)

    @property
    def followed(self) -> dict[str, int]:
        """How many wait for more of each log."""
        return {path: len(waiters) for path, waiters in self._waiting.items()}

    def published(self, tasks: list[Task], gone: list[int], _nodes: set[str]) -> None:
        """Wake whoever waits for the log of a task that has ended or is gone."""
        if self._by_task:
            self._wake(gone)
            self._wake([task.id for task in tasks if task.state in ENDED])

    def _wake(self, task_ids: Iterable[int]) -> None:
        for task_id in task_ids:
            for waiter in self._by_task.get(task_id, ()):
                waiter.woken.set()

    async def _look(self, path: str) -> None:
        try:
            while waiters := self._waiting.get(path):
                size = await self.threads.call(_storage(path), lambda _tick: _size(path))
                for waiter in waiters:
                    if waiter.size != size:
                        waiter.woken.set()
                await asyncio.sleep(self.look_every_s)
        except MusterError:
            # The storage hangs: whoever waits finds out by reading, and is told then.
            for waiter in self._waiting.get(path, ()):
                waiter.woken.set()
        finally:
            del self._looking[path]

    def _forget(self, path: str, waiter: _Waiter, task_id: int | None) -> None:
        self._waiting[path].pop(waiter, None)
        if not self._waiting[path]:
            del self._waiting[path]
        if task_id is not None:
            self._by_task[task_id].discard(waiter)
            if not self._by_task[task_id]:
                del self._by_task[task_id]


class _Waiter:
    """One call that waits for a log to have another size than `size`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.woken = asyncio.Event()


def _storage(path: str) -> str:
    return os.path.dirname(path) or path  # noqa: PTH120  (runs at every read; a Path costs more than the read)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0


def _read(path: str, where: _Where, offset: int, limit: int) -> Piece:
    with opened(path, *where) as fd:
        if fd is None:
            return Piece(0, b"", b"", 0, 0, missing=True)
        size = os.fstat(fd).st_size
        start = max(size + offset, 0) if offset < 0 else offset
        data = os.pread(fd, limit, start)
        return Piece(start, data, b"", start + len(data), size)


def _read_collapsed(path: str, where: _Where, offset: int, limit: int) -> Piece:
    with opened(path, *where) as fd:
        if fd is None:
            return Piece(0, b"", b"", 0, 0, missing=True)
        size = os.fstat(fd).st_size
        start = at = end = max(size + offset, 0) if offset < 0 else offset
        rest, lines, length = b"", [], 0
        while length < limit and end - start < MAX_SCAN and (block := os.pread(fd, BLOCK, end)):
            end += len(block)
            done, rest, at = collapse(rest + block, at)
            lines.append(done)
            length += len(done)
        return Piece(start, b"".join(lines), rest, at, max(size, end))
