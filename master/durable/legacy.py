"""Entries of the old system's three files, turned into tasks.

Owns the old names, states and marks for "nothing", and where an old task's folder and log lie. It reads values only and
never touches a file. An old master is not running any more when we read its files, so what it had started is `lost`:
nobody can say how it ended. Which of the three files an entry lies in says more than its state: the old system wrote
the files at its leisure, and took an entry from one list to the next after it had changed the state.
"""

from __future__ import annotations

import os.path
import time
from typing import TYPE_CHECKING, Any

import msgspec

from master.core.tasks.attempt import Part
from master.core.tasks.task import ENDED, FIRST_FOREIGN_ID, QUEUED, After, Task, TaskState, give_reason
from master.edited_files.mismatch import explain
from wire.message import Message
from wire.numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OWNER = "desktop"
"""The old system knew no users; its only client was the desktop one."""
HOLD_FILE = "held_at_takeover.json"
"""Beside the queue files, until the master takes them over: which waiting tasks are to be held, and why."""
WAIT, EXEC, HIST = "wait_task.json", "exec_task.json", "hist_task.json"

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
    "pexec": Message("old_starting"),
    "exec": Message("old_running"),
    "offline_error": Message("old_node_offline"),
}
_NO_END = Message("old_no_end")


def may_still_run(reason: str | None) -> bool:
    """Whether processes of a task with this reason may be alive on its node: its old master's SSH alone held them."""
    return reason in (str(_REASONS["pexec"]), str(_REASONS["exec"]))


_NOTHING = frozenset({"", "(无)", "<默认>"})


class Entry(msgspec.Struct):
    """One task as the old system wrote it; keys that it added later are ignored. `gpu_num`: the GPUs it was given."""

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
    gpu_num: Any = None


class OldFolders(msgspec.Struct, frozen=True):
    """Where the old system's tasks live: what their folders are relative to, and the folder of their logs."""

    root: str
    logs: str


class NotLegacyError(ValueError):
    """The value is no entry of the old system either; `what` says why."""

    def __init__(self, what: str | Message) -> None:
        super().__init__(what)
        self.what = what


def is_legacy(value: Any) -> bool:
    """Whether a decoded entry has the old system's shape."""
    return isinstance(value, dict) and "task_id" in value and "id" not in value


def to_task(value: dict[str, Any], file: str = "") -> Task:
    """Translate one entry; `file` is the name of the queue file that holds it, where that is known.

    Raises NotLegacyError where a value is none that the old system could have written.
    """
    entry = _read(value)
    number = _task_id(entry.task_id, "task_id")
    state, reason = _state(entry.state, file)
    after = [] if _is_nothing(entry.prev) else [After(_task_id(entry.prev, "prev"), on="any")]
    node = None if _is_nothing(entry.slaver) else entry.slaver
    waits = state in QUEUED
    task = Task(
        id=number,
        owner=OWNER,
        state=state,
        command=entry.exec,
        cwd=entry.path,
        env="" if _is_nothing(entry.envs) else entry.envs,
        gpus=_count(entry.need_gpus),
        node=node,
        after=after,
        waits_for=list(after) if waits else [],
        urgent=bool(entry.is_urgent),
        share=bool(entry.is_reuse_gpu),
        attempt=0 if waits else 1,
        submitted_at=submitted_at(number),
        allocation=[] if waits or node is None else [Part(node, _indices(entry.gpu_num))],
    )
    give_reason(task, reason)
    return task


def settle(tasks: Iterable[Task], places: OldFolders | None = None, hold: Mapping[int, str] | None = None) -> None:
    """Make tasks that were just translated fit each other and us: those of the waiting list come in its order, before
    whatever is submitted from now on; met predecessors are taken out; folders and logs get their whole paths. `hold`:
    by id, which of the waiting ones are held, and why.
    """
    known = list(tasks)
    for task in known:
        if hold and task.state is TaskState.WAITING and task.id in hold:
            task.state, task.reason = TaskState.HELD, hold[task.id]
    line_up(known)
    drop_met(known)
    if places is not None:
        for task in known:
            task.cwd = os.path.normpath(f"{places.root}/{task.cwd}")
            task.log_path = f"{places.logs}/{task.id}.log"


def line_up(tasks: Iterable[Task]) -> None:
    """Give waiting tasks positions below zero, in the order given. Their ids are dates: by these, every new task, whose
    id is a small number, would come before them.
    """
    waiting = [task for task in tasks if task.state in QUEUED]
    for place, task in enumerate(waiting):
        task.position = float(place - len(waiting))


def drop_met(tasks: Iterable[Task]) -> None:
    """Take met predecessors out of `waits_for`: one that is over or deleted counts, whatever its end. So does the task
    itself, which nothing could ever end.
    """
    known = list(tasks)
    waiting = {task.id for task in known if task.state in QUEUED}
    for task in known:
        task.waits_for = [after for after in task.waits_for if after.id in waiting and after.id != task.id]


def read_hold(data: bytes) -> dict[int, str]:
    """Return the content of HOLD_FILE. Raises NotLegacyError."""
    try:
        return msgspec.json.decode(data, type=dict[int, str])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotLegacyError(str(error)) from error


def refuse_twin(task: Task, seen: dict[int, Task]) -> None:
    """Refuse a task whose id another one of `seen` has, unless they are the same in everything; else add it to `seen`.

    The old system's ids are hundredths of a second: two submits within one got the same. Raises NotLegacyError.
    """
    twin = seen.setdefault(task.id, task)
    if twin is task or twin == task:
        return
    free = task.id + 1
    while free in seen:
        free += 1
    raise NotLegacyError(Message("old_id_twice", id=f"{task.id:014d}", free=f"{free:014d}"))


def submitted_at(number: int) -> float:
    """Seconds since the epoch from an id `YYMMDDhhmmssCC` (local time, CC hundredths); 0 if it is no such date."""
    text = f"{number:014d}"
    try:
        moment = time.strptime(text[:12], "%y%m%d%H%M%S")
        return time.mktime(moment) + int(text[12:14]) / 100
    except (ValueError, OverflowError):
        return 0.0


def _read(value: dict[str, Any]) -> Entry:
    try:
        entry = msgspec.convert(value, Entry)
    except msgspec.ValidationError as error:
        raise NotLegacyError(explain(str(error), value, Entry)) from error
    for key in ("exec", "path", "envs", "slaver"):
        if "\0" in (getattr(entry, key) or ""):
            raise NotLegacyError(Message("old_value_with_nul", key=key))
    if entry.state not in _STATES:
        raise NotLegacyError(Message("old_state_unknown", found=entry.state, known=tuple(filter(None, _STATES))))
    return entry


def _state(old: str, file: str) -> tuple[TaskState, Message | None]:
    """The state of an entry and what there is to say of it."""
    state = _STATES[old]
    if file == WAIT and state in ENDED and old not in ("pexec", "exec"):
        return TaskState.WAITING, None  # queued again, with the end of its first run still in it
    if file == EXEC and state is TaskState.WAITING:
        return TaskState.LOST, _REASONS["pexec"]
    if file == HIST and (state is TaskState.WAITING or old in ("pexec", "exec")):
        return TaskState.LOST, _NO_END  # it may have run; waiting, it would run again
    return state, _REASONS.get(old)


def _is_nothing(value: int | str | None) -> bool:
    return value is None or str(value).strip() in _NOTHING


def _task_id(value: int | str | None, key: str) -> int:
    text = str(value).strip()
    number = whole_number(text, 14)
    if number is None or number < FIRST_FOREIGN_ID:
        raise NotLegacyError(Message("old_id_no_number", key=key, found=value))
    return number


def _count(value: int | str) -> int:
    text = str(value).strip() or "0"
    number = whole_number(text, 4)
    if number is None:
        raise NotLegacyError(Message("old_gpus_no_count", found=value))
    return number


def _indices(value: Any) -> list[int]:
    """The GPUs that the entry names. A later addition of the old system and only shown: an odd one is no mistake."""
    if not isinstance(value, list):
        return []
    numbers = [whole_number(str(item), 4) for item in value]
    return [number for number in numbers if number is not None] if None not in numbers else []
