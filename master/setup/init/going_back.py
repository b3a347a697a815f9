"""`muster init --back`: the old system's files in their places again, with what has run under Muster marked as run.

The queues are those of the day of the move, less what has happened since: finished tasks are in the history with their
end, and so are unknown tasks (deleted, or history of long ago); waiting tasks wait. Muster's own folder of queues is
kept beside, whole. Tasks that were submitted since have no place in the old files, because their ids are of another
kind: they are counted and reported. It is all or nothing, and a run that was interrupted is finished by the next.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from master.core.tasks.task import QUEUED, Task, TaskState
from master.durable import legacy
from master.durable import queue_files as snapshot
from master.durable.disk import OsDisk
from master.durable.store import Store
from master.durable.witness import witness_path
from master.setup.init import old_lab, old_master
from master.setup.init.setup_folder import NewFile, put
from wire.errors import ConfigError, ConflictError
from wire.file_fault import fault
from wire.message import Message

KEPT = "task_info.muster"
DRAFT = "task_info.back"
"""The old system's queues, until they take their place."""
UNFINISHED = "going-back"
"""A file that lies in Muster's folder of queues while the others take their places."""
_STATES = {
    TaskState.SUCCEEDED: "accp",
    TaskState.FAILED: "err",
    TaskState.TIMED_OUT: "err",
    TaskState.CANCELLED: "term",
    TaskState.LOST: "offline_error",
}


class Back(NamedTuple):
    """The result: tasks by where the old system has them now, and those that it cannot have. `held`: those that Muster
    kept from starting; the old system does not."""

    waiting: int
    history: int
    run_meanwhile: list[int]
    held: list[int]
    left_out: int
    kept: str


def go_back(folder: Path) -> Back:
    """Do it. Raises ConflictError while a master runs, tasks are alive, or a way back was made before; ConfigError,
    StoreCorruptError. Nothing is changed then."""
    conf = old_lab.find_conf(folder)
    lab = old_lab.read_conf(conf)
    queues = lab.place("task_info")
    witness = witness_path(lab.place("server_log_path"))
    kept, draft = queues.with_name(KEPT), queues.with_name(DRAFT)
    if running := old_master.signs(conf.parent, lab.typed.socket_info.all):
        raise ConflictError(Message("master_runs", signs=running))
    files = [_restored(path) for path in (lab.place("slaver_file"), conf)]
    if (kept / UNFINISHED).exists():
        witness.unlink(missing_ok=True)
        _swap(queues, kept, draft, files)
        return _as_it_is(queues, kept)
    if not (queues / snapshot.STATE).exists():
        raise ConflictError(Message("queues_not_taken_over", folder=str(queues)))
    if kept.exists():
        raise ConflictError(Message("went_back_before", folder=str(kept)))
    tasks = _tasks(queues)
    if alive := [task.id for task in tasks.values() if task.state not in QUEUED and task.state not in _STATES]:
        raise ConflictError(Message("tasks_alive", tasks=tuple(alive)))
    old = {name: _entries(_copy_of_old(queues / name)) for name in (legacy.WAIT, legacy.EXEC, legacy.HIST)}
    wait, hist, run = _sorted(old, tasks)
    _write(draft, queues, {legacy.WAIT: wait, legacy.EXEC: [], legacy.HIST: hist})
    witness.unlink(missing_ok=True)  # the queue is kept under another name, and another takeover begins anew
    _swap(queues, kept, draft, files)
    known = {_id(entry) for entries in old.values() for entry in entries}
    held = [number for number in map(_id, wait) if tasks[number].state is TaskState.HELD]
    return Back(len(wait), len(hist), run, held, len(set(tasks) - known), str(kept))


def _write(draft: Path, queues: Path, entries: dict[str, list[dict[str, Any]]]) -> None:
    shutil.rmtree(draft, ignore_errors=True)  # of a try that was killed before anything was changed
    draft.mkdir(mode=queues.stat().st_mode & 0o777)
    try:
        put(
            [
                NewFile(draft / name, json.dumps(some, ensure_ascii=False).encode(), queues / name)
                for name, some in entries.items()
            ]
        )
    except ConfigError:
        shutil.rmtree(draft)
        raise


def _swap(queues: Path, kept: Path, draft: Path, files: list[NewFile]) -> None:
    """Put everything in its place; killed anywhere, it goes on from there when it is called again."""
    if not kept.exists():
        (queues / UNFINISHED).touch()
        queues.rename(kept)
    if draft.exists():
        draft.rename(queues)
    try:
        put(files)
    except ConfigError:
        queues.rename(draft)
        kept.rename(queues)
        (queues / UNFINISHED).unlink()
        shutil.rmtree(draft)
        raise
    (kept / UNFINISHED).unlink()


def _as_it_is(queues: Path, kept: Path) -> Back:
    """Of a way back that was finished later: what the files say."""
    return Back(len(_entries(queues / legacy.WAIT)), len(_entries(queues / legacy.HIST)), [], [], 0, str(kept))


def told(came: Back) -> str:
    """The same for people."""
    lines = [f"The old system has its files again: {came.waiting} wait, {came.history} in the history."]
    if came.run_meanwhile:
        ids = ", ".join(f"{task:014d}" for task in came.run_meanwhile)
        lines.append(f"Run or deleted meanwhile, and in the history now: {ids}")
    if came.held:
        ids = ", ".join(f"{task:014d}" for task in came.held)
        lines.append(f"Held under Muster, and started by the old system unless you delete them there: {ids}")
    if came.left_out:
        tasks = "1 task was" if came.left_out == 1 else f"{came.left_out} tasks were"
        lines.append(f"{tasks} submitted to Muster: the old system cannot have them")
    return "\n".join([*lines, f"Muster's queues are kept in {came.kept}. Now start main.py."])


def _tasks(queues: Path) -> dict[int, Task]:
    """Return the tasks that Muster knows, from its files and journal. Raises LockedError while its master runs."""
    store = Store(queues, OsDisk())
    image = store.open()
    store.close()
    return image.tasks


def _sorted(
    old: dict[str, list[dict[str, Any]]], tasks: dict[int, Task]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[int]]:
    """Return the waiting tasks, the history, and the ids of those that moved from the one to the other. The order of
    the files stays."""
    wait, hist, run = list[dict[str, Any]](), list[dict[str, Any]](), list[int]()
    for entry in [*old[legacy.WAIT], *old[legacy.EXEC]]:
        task = tasks.get(_id(entry))
        if task is not None and task.state in QUEUED:
            wait.append({**entry, "state": "wait"})
        else:
            hist.append({**entry, "state": _STATES[task.state] if task is not None else "term"})
            run.append(_id(entry))
    queued = {task.id for task in tasks.values() if task.state in QUEUED}
    wait += [{**entry, "state": "wait"} for entry in old[legacy.HIST] if _id(entry) in queued]
    return wait, [*(entry for entry in old[legacy.HIST] if _id(entry) not in queued), *hist], run


def _id(entry: dict[str, Any]) -> int:
    return int(str(entry["task_id"]))


def _entries(path: Path | None) -> list[dict[str, Any]]:
    if path is None:
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8-sig"))
    return found


def _copy_of_old(path: Path) -> Path | None:
    """The copy that was made when the file was taken over: the last of its numbered ones. None where it was empty."""
    copies = [path.with_name(f"{path.name}.old"), *(path.with_name(f"{path.name}.old{n}") for n in range(2, 100))]
    return next((copy for copy in reversed(copies) if copy.exists()), None)


def _restored(path: Path) -> NewFile:
    copy = _copy_of_old(path)
    if copy is None:
        return NewFile(path.resolve(), path.read_bytes(), path)  # nothing of it had to be changed
    try:
        return NewFile(path.resolve(), copy.read_bytes(), path)
    except OSError as error:
        raise fault(copy, Message("file_unreadable", detail=error.strerror)) from None
