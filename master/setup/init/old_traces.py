"""Traces of tasks that ran since the old system last wrote its queues, in their logs and the server's log.

The old master wrote its three files once a minute, and was stopped between two writes. A task that waits in the file
may have started, ended or been deleted since: started again, it would write over its own results. Looks only, and
judges each waiting task by what was written at or after the queue file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from master.setup.init.old_lab import OldLab
from wire.message import Message

WRITTEN_EVERY_S = 60.0
TAIL = 4 << 10
SERVER_TAIL = 8 << 20
_ID = re.compile(r"(?<!\d)\d{14}(?!\d)")
_QUEUED = re.compile(r"添加|加入|等待|重新|\badd|\bwait|\bsubmit", re.IGNORECASE)
_GONE = re.compile(r"删除|移除|\bdelet|\bremov", re.IGNORECASE)
_ENDED = re.compile(
    r"完成|结束|错误|失败|中止|终止|掉线|\bend|\bfinish|\bdone|\bexit|\baccp|\berr|\bterm", re.IGNORECASE
)
_STARTED = re.compile(r"开始|启动|执行|运行|\bstart|\bexec|\brun", re.IGNORECASE)
_EXIT = b"Program Exit With Code"


class Trace(NamedTuple):
    """A waiting task that seems to be past waiting: `what` says how, and by what that is known."""

    id: int
    what: Message


def look(lab: OldLab) -> list[Trace]:
    """The waiting tasks that seem to have started, ended or been deleted, in the order of the queue."""
    if lab.queues.settled:
        return []
    written = _changed_at(lab.queues.folder / "wait_task.json") or 0.0
    said = dict(_last_words(lab.conf.place("server_log_path")))
    found = ((task.id, _of_log(Path(task.log_path), written) or said.get(task.id)) for task in lab.queues.waiting)
    return [Trace(task_id, what) for task_id, what in found if what]


def _of_log(path: Path, written: float) -> Message | None:
    """Return what a task's log shows; None if it is older than the queue file, which knew of that run then: the task
    was queued again since."""
    changed = _changed_at(path)
    if changed is None or changed < written - WRITTEN_EVERY_S:
        return None
    tail = _tail(path, TAIL)
    if _EXIT in tail:
        return Message("seems_ended", path=str(path))
    return Message("seems_started_by_log", path=str(path)) if tail else None


def _last_words(path: Path) -> Iterator[tuple[int, Message | None]]:
    """Of each task that the server's log names, what its last line about it says; None where that is: it waits."""
    for line in _tail(path, SERVER_TAIL).decode("utf-8", "replace").splitlines():
        for number in _ID.findall(line):
            yield int(number), _meaning(_ID.sub(" ", line), path)


def _meaning(line: str, path: Path) -> Message | None:
    if _QUEUED.search(line):
        return None
    if _GONE.search(line):
        return Message("seems_deleted", path=str(path))
    if _ENDED.search(line):
        return Message("seems_ended", path=str(path))
    return Message("seems_started", path=str(path)) if _STARTED.search(line) else None


def _changed_at(path: Path) -> float | None:
    with suppress(OSError):
        return path.stat().st_mtime
    return None


def _tail(path: Path, size: int) -> bytes:
    """Return the last bytes of a file; none if it cannot be read or is no file (nothing here waits for a pipe)."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:  # noqa: PTH123  (the descriptor is opened by ourselves, so as not to wait)
            file.seek(max(0, os.fstat(fd).st_size - size))
            return file.read(size)
    return b""
