"""Run compactions in the background: move the journal into the queue files, and old finished tasks into the history.

Owns the moment in which a compaction begins once the store wants one, and the retry after a failure. The store owns the
size from which on it wants one; `compaction` owns the steps and their order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from master.core.tasks.task import ENDED
from master.durable import failpoint
from master.durable.disk import SyncFailedError
from master.durable.portions import portions
from wire.errors import StoreUnavailableError
from wire.message import Message

if TYPE_CHECKING:
    from master.core.core import Core
    from master.core.tasks.task import Task
    from master.durable.store import Store

log = logging.getLogger("muster.engine")

RETRY_S, LONGEST_RETRY_S = 60.0, 3600.0
"""Seconds until a failed compaction is retried, and the longest pause; each pause is twice the one before."""
PATIENCE_S = 10.0
"""The longest that a compaction waits for long requests of clients."""
ARCHIVED_AT_ONCE = 2000
"""The most tasks that move to the history in one turn of the loop."""


def _never() -> bool:
    return False


class Compacting:
    """The compactions of a running master. `take` gives the store every change that the core has made; `event` runs a
    change of the core; `sync_failed` is called if a sync has failed, and ends the process."""

    def __init__(
        self,
        core: Core,
        store: Store,
        *,
        take: Callable[[], None],
        event: Callable[[Callable[[], None]], None],
        sync_failed: Callable[[SyncFailedError], None],
    ) -> None:
        self._core = core
        self._store = store
        self._take = take
        self._event = event
        self._sync_failed = sync_failed
        self.fault: Message | None = None
        """Why the last compaction failed; None if it did not."""
        self.not_before = 0.0
        """The earliest time of the next compaction, by `time.monotonic`."""
        self.is_busy: Callable[[], bool] = _never
        """Is somebody's long request being worked on?"""
        self._due_at = 0.0
        """Since when a compaction waits for such a request; 0: none waits."""
        self._failed = 0
        self._running: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Tell whether a compaction is running."""
        return self._running is not None

    def start_if_due(self) -> None:
        """Start a compaction if the journal is large enough, none is running, and no retry is pending. Somebody's long
        request goes first, but not for ever."""
        if self._running is not None or not self._is_due():
            return
        now = time.monotonic()
        self._due_at = self._due_at or now
        if not self.is_busy() or now >= self._due_at + PATIENCE_S:
            self._due_at = 0.0
            self._running = asyncio.create_task(self._run())

    async def finish(self) -> None:
        """Wait until the running compaction has ended, if there is one."""
        if self._running is not None:
            await self._running

    def _is_due(self) -> bool:
        if failpoint.armed and failpoint.compaction_wanted():
            return True
        return self._store.should_compact() and time.monotonic() >= self.not_before

    async def _run(self) -> None:
        core, store = self._core, self._store
        try:
            await self._archive()
            self._take()
            for work in store.compact(core.tasks, core.answered, next_id=core.next_id):
                await (asyncio.to_thread(work) if work is not None else asyncio.sleep(0))
                self._take()  # no file may hold a change that the journal does not have
                core.number(store.next_seq)  # a compaction writes a record of its own
            failpoint.reach("compaction.done")
            self._failed, self.fault = 0, None
        except StoreUnavailableError as error:
            self._put_off(error.args[0])
        except SyncFailedError as error:
            self._sync_failed(error)
        except Exception as error:  # noqa: BLE001  (every change is in the journal; the queue can go on without this)
            self._put_off(Message("compaction_defect", detail=f"{type(error).__name__}: {error}"), error)
        finally:
            self._running = None

    def _put_off(self, why: Message, defect: Exception | None = None) -> None:
        """Retry later, with growing pauses. The log reports each reason once; `muster status` shows it meanwhile."""
        if why != self.fault:
            level = logging.ERROR if defect else logging.WARNING
            log.log(level, "the journal is not compacted yet: %s", why, exc_info=defect)
        self.fault = why
        pause = min(RETRY_S * 2.0 ** min(self._failed, 16), LONGEST_RETRY_S)
        self._failed += 1
        self.not_before = time.monotonic() + pause

    async def _archive(self) -> None:
        """Move finished tasks beyond `keep_history` to the history, and large ones beyond `keep_history_bytes`, some in
        each turn of the loop: a user may have cancelled fifty thousand."""
        core, settings = self._core, self._core.settings.scheduler
        await self._move(core.oldest_ended(settings.keep_history))
        await self._move(core.large_ended(settings.keep_history_bytes))

    async def _move(self, surplus: list[Task]) -> None:
        core = self._core
        for part in portions(surplus, ARCHIVED_AT_ONCE):
            # Skip tasks that were retried or removed since the turn before.
            ended = [task for task in part if task.state in ENDED and core.tasks.get(task.id) is task]
            if ended:
                self._store.archive(ended)
                failpoint.reach("compaction.archived")
                self._event(partial(core.drop_archived, [task.id for task in ended]))
                await asyncio.sleep(0)
