"""Entries of the old system's three files, turned into tasks.

Owns the old names, states and marks for "nothing"; it reads values only and never touches a file. An old master is
not running any more when we read its files, so what it had started is `lost`: nobody can say how it ended.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from master.task import FIRST_FOREIGN_ID, QUEUED, After, Task, TaskState

if TYPE_CHECKING:
    from collections.abc import Iterable

OWNER = "desktop"
"""The old system knew no users; its only client was the desktop one."""

_STATES = {
    "": TaskState.WAITING,
    "wait": TaskState.WAITING,
    "pexec": TaskState.LOST,
    "exec": TaskState.LOST,
    "accp": TaskState.SUCCEEDED,
    "err": TaskState.FAILED,
    "term": TaskState.CANCELLED,
    "offline_error": TaskState.LOST,
}
_REASONS = {
    "pexec": "it was being started under the old system; how it ended is not known",
    "exec": "it ran under the old system; how it ended is not known",
    "offline_error": "its node went offline under the old system",
}
_NOTHING = frozenset({"", "(无)", "<默认>"})


class Entry(msgspec.Struct):
    """One task as the old system wrote it; keys that it added later are ignored."""

    task_id: int | str
    envs: str = ""
    path: str = ""
    exec: str = ""
    need_gpus: int | str = 0
    slaver: str | None = ""
    prev: int | str | None = ""
    is_urgent: int | bool = 0
    is_reuse_gpu: int | bool = 0
    state: str = ""


class NotLegacyError(ValueError):
    """The value is no entry of the old system either; the message says why."""


def is_legacy(value: Any) -> bool:
    """Whether a decoded entry has the old system's shape."""
    return isinstance(value, dict) and "task_id" in value and "id" not in value


def to_task(value: dict[str, Any]) -> Task:
    """Translate one entry. Raises NotLegacyError where a value is none that the old system could have written."""
    try:
        entry = msgspec.convert(value, Entry)
    except msgspec.ValidationError as error:
        raise NotLegacyError(str(error)) from error
    if entry.state not in _STATES:
        raise NotLegacyError(f"`state` is {entry.state!r}; the old system knew {', '.join(filter(None, _STATES))}")
    number = _task_id(entry.task_id, "task_id")
    state = _STATES[entry.state]
    after = [] if str(entry.prev or "") in _NOTHING else [After(_task_id(entry.prev, "prev"), on="any")]
    return Task(
        id=number,
        owner=OWNER,
        state=state,
        reason=_REASONS.get(entry.state),
        command=entry.exec,
        cwd=entry.path,
        env=entry.envs,
        gpus=_count(entry.need_gpus),
        node=None if (entry.slaver or "") in _NOTHING else entry.slaver,
        after=after,
        waits_for=list(after) if state in QUEUED else [],
        urgent=bool(entry.is_urgent),
        share=bool(entry.is_reuse_gpu),
        attempt=0 if state in QUEUED else 1,
        submitted_at=submitted_at(number),
    )


def drop_met(tasks: Iterable[Task]) -> None:
    """Take met predecessors out of `waits_for`: one that is over or deleted counts, whatever its end."""
    known = list(tasks)
    waiting = {task.id for task in known if task.state in QUEUED}
    for task in known:
        task.waits_for = [after for after in task.waits_for if after.id in waiting]


def submitted_at(number: int) -> float:
    """Seconds since the epoch from an id `YYMMDDhhmmssCC` (local time, CC hundredths); 0 if it is no such date."""
    text = f"{number:014d}"
    try:
        moment = time.strptime(text[:12], "%y%m%d%H%M%S")
        return time.mktime(moment) + int(text[12:14]) / 100
    except (ValueError, OverflowError):
        return 0.0


def _task_id(value: int | str | None, key: str) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdigit()):
        raise NotLegacyError(f"`{key}` is {value!r}, not a number of 14 digits")
    if not FIRST_FOREIGN_ID <= int(text) < 10**15:
        raise NotLegacyError(f"`{key}` is {value!r}, not a number of 14 digits")
    return int(text)


def _count(value: int | str) -> int:
    text = str(value).strip() or "0"
    if not (text.isascii() and text.isdigit()):
        raise NotLegacyError(f"`need_gpus` is {value!r}, not a count")
    return int(text)
