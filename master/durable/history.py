"""The monthly files into which ended tasks are moved: JSON lines, added to and never rewritten.

Owns their names and how a line gets there whole. Reading them back is `archive_index`'s; no recovery needs them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from master.durable.disk import Disk, write_all

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from master.core.tasks.task import Task

_encode = msgspec.json.Encoder().encode


def month_of(task: Task) -> str:
    """`YYYY-MM` (UTC) of its end; the old system's tasks, which tell no end, go by their submit."""
    ended = task.ended_at or task.started_at or task.submitted_at
    try:
        return datetime.fromtimestamp(ended, UTC).strftime("%Y-%m")
    except (ValueError, OverflowError, OSError):  # a node said so, before such times were not taken over any more
        return datetime.fromtimestamp(0, UTC).strftime("%Y-%m")


def extend(disk: Disk, folder: Path, tasks: Iterable[Task]) -> None:
    """Add the tasks to `folder`/YYYY-MM.jsonl, durably. Raises OSError; what was written by then does no harm."""
    months: dict[str, list[Task]] = {}
    for task in tasks:
        months.setdefault(month_of(task), []).append(task)
    disk.make_folder(folder)
    present = disk.names(folder)
    for month, ended in sorted(months.items()):
        name = f"{month}.jsonl"
        _add(disk, folder / name, b"".join(b"%b\n" % _encode(task) for task in ended), fresh=name not in present)
    disk.sync_folder(folder)


def forget(disk: Disk, path: Path, task_id: int) -> None:
    """Say, behind it and durably, that a task is no longer in this file. Raises OSError."""
    _add(disk, path, b'{"gone":[%d]}\n' % task_id, fresh=False)


def _add(disk: Disk, path: Path, data: bytes, *, fresh: bool) -> None:
    size = 0 if fresh else disk.size(path)
    if size and disk.read_at(path, size - 1, 1) != b"\n":
        data = b"\n" + data  # a crash cut the last line; ours must not continue it
    fd = disk.extend(path)
    try:
        write_all(disk, fd, data)
        disk.sync(fd)
    finally:
        disk.close(fd)
