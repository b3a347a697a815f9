"""The tasks that were moved to the monthly files, for the loop: asked in a thread of its own, one question at a time.

Owns that thread and the waiting for it. Archived tasks are out of the recovery's way and out of memory: neither the
start nor the master's size depends on how many there are, and the index is made when somebody first asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from master.core.tasks.task import Task
from master.durable import history
from master.durable.archive_index import ArchiveIndex, Page, Wanted
from master.durable.disk import Disk
from wire.errors import NotFoundError, StorageError, StoreUnavailableError
from wire.message import Message

T = TypeVar("T")

HISTORY = "history"


class Archive:
    """The archive of one `task_info`."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._folder = folder / HISTORY
        self._disk = disk
        self._index = ArchiveIndex(self._folder)
        self._thread: ThreadPoolExecutor | None = None

    async def find(self, task_id: int) -> Task:
        """The task. Raises NotFoundError; StorageError if the files cannot be read."""
        task = await self._ask(lambda: self._index.find(task_id)) if self.is_there else None
        if task is None:
            raise NotFoundError(Message("no_task", id=task_id))
        return task

    async def page(self, wanted: Wanted) -> Page:
        """Those that are asked for. Raises StorageError."""
        if not self.is_there:
            return Page([], 0, {})
        return await self._ask(lambda: self._index.page(wanted))

    async def forget(self, task_ids: Iterable[int]) -> None:
        """Take tasks out, durably; those that are not there are no mistake. Raises StoreUnavailableError."""
        if not self.is_there:
            return

        def work() -> None:
            for task_id in task_ids:
                month = self._index.month_of(task_id)
                if month is not None:
                    history.forget(self._disk, self._folder / month, task_id)

        try:
            await self._ask(work)
        except StorageError as error:
            raise StoreUnavailableError(*error.args) from None

    def close(self) -> None:
        """Wait for what is being asked, and give up the files."""
        if self._thread is not None:
            self._thread.submit(self._index.close)
            self._thread.shutdown()

    @property
    def is_there(self) -> bool:
        """Is anything archived at all?"""
        return self._folder.is_dir()

    async def _ask(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "archive")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except OSError as error:
            raise StorageError(Message("history_unusable", path=str(self._folder), said=error.strerror)) from error
