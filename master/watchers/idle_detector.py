"""Which running tasks hold GPU memory and do nothing: their GPUs have not computed and their logs been silent for long.

Owns how long each task has been quiet, in memory only: a restart of the master begins anew. A log's age is asked for
(`Step.LOOK`) only of a task whose GPUs have been quiet for long enough. An unknown (a GPU that tells no
utilisation, a log that cannot be looked at, a time without samples) never makes a mark. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from master.core.attempt import Place
from master.core.gpu_watch import FREE_MIB, GpuReport
from master.core.task import Task
from wire.message import Message

BUSY_PERCENT = 5.0
"""Above this, a GPU works. A desktop or a driver that looks after itself takes less."""
GAP_S = 60.0
"""After so long without a sample nobody knows whether the task has worked meanwhile."""
AGAIN_S = 30.0
"""How often the log of a marked task is looked at, whether it grows again."""


class Step(Enum):
    """What is to be done now: nothing; look at the log's age; tell that there is a mark, or that there is none now."""

    NOTHING = "nothing"
    LOOK = "look"
    MARKED = "marked"
    WORKS = "works"


class _Quiet(msgspec.Struct):
    """An attempt whose GPUs do nothing. `since`, `seen`: when that began and was last seen, by node; `look_at`: when
    its log is worth a look. Times in seconds since the epoch."""

    launch_id: str
    places: list[Place]
    since: dict[str, float] = {}
    seen: dict[str, float] = {}
    look_at: float = 0.0

    @property
    def all_since(self) -> float | None:
        """Since when all its GPUs have done nothing; None if some of them work."""
        known = len(self.since) == len(self.places)
        return max(self.since.values()) if known else None


class IdleDetector:
    """The running tasks with GPUs. `after_s`: how long one must have been quiet to be marked; `marks`: what is said of
    those that are, by task."""

    def __init__(self, after_s: float) -> None:
        self.marks: dict[int, Message] = {}
        self.after_s = after_s
        self._quiet: dict[int, _Quiet] = {}

    @property
    def tasks(self) -> set[int]:
        """Those of which something is kept: their GPUs are quiet."""
        return set(self._quiet)

    def sampled(self, task: Task, launch_id: str, node: str, gpus: Mapping[int, GpuReport], now: float) -> Step:
        """Take over what a sample of a node says of the GPUs that the attempt holds there: LOOK, WORKS or NOTHING."""
        held = next(part.gpus for part in task.allocation if part.node == node)
        if not _do_nothing(launch_id, [gpus.get(gpu) for gpu in held]):
            return self.forget(task.id)
        quiet = self._quiet.get(task.id)
        works = Step.NOTHING
        if quiet is None or quiet.launch_id != launch_id:
            works = self.forget(task.id)
            quiet = self._quiet[task.id] = _Quiet(launch_id, [part for part in task.allocation if part.gpus])
        self._note(quiet, task.id, node, now)
        since = quiet.all_since
        if since is None or now < max(since + self.after_s, quiet.look_at):
            return works
        quiet.look_at = now + min(AGAIN_S, self.after_s)
        return Step.LOOK

    def _note(self, quiet: _Quiet, task_id: int, node: str, now: float) -> None:
        is_gap = not 0 <= now - quiet.seen.get(node, now) <= GAP_S
        # One that is marked and still does nothing has hardly worked in between.
        if node not in quiet.since or (is_gap and task_id not in self.marks):
            quiet.since[node] = now
        quiet.seen[node] = now

    def log_seen(self, task_id: int, launch_id: str, written_at: float | None, now: float) -> Step:
        """The log that was to be looked at was last written then; None: nobody can say. MARKED, WORKS or NOTHING."""
        quiet = self._quiet.get(task_id)
        since = None if quiet is None or quiet.launch_id != launch_id else quiet.all_since
        if quiet is None or since is None or written_at is None:
            return Step.NOTHING
        since = max(since, written_at)
        left = since + self.after_s - now
        if left > 0:
            quiet.look_at = now + min(left, self.after_s)
            return self._unmark(task_id)
        mark = _mark(quiet.places, since)
        if self.marks.get(task_id) == mark:
            return Step.NOTHING
        self.marks[task_id] = mark
        return Step.MARKED

    @property
    def knows_any(self) -> bool:
        """Is there one that `forget` could mean something to?"""
        return bool(self._quiet or self.marks)

    def forget(self, task_id: int) -> Step:
        """It works, or it does not run any more: WORKS if it was marked."""
        self._quiet.pop(task_id, None)
        return self._unmark(task_id)

    def _unmark(self, task_id: int) -> Step:
        return Step.NOTHING if self.marks.pop(task_id, None) is None else Step.WORKS


def _do_nothing(launch_id: str, reports: list[GpuReport | None]) -> bool:
    """Whether an attempt holds memory of these GPUs, and none of them computes."""
    for report in reports:
        if report is None or report.utilization is None or report.utilization > BUSY_PERCENT:
            return False
    return any(_holds(launch_id, report) for report in reports if report is not None)


def _holds(launch_id: str, report: GpuReport) -> bool:
    if report.processes:
        return any(holder.launch_id == launch_id for holder in report.processes)
    return (report.memory_used_mib or 0) > FREE_MIB  # some sources do not tell whose it is


def _mark(places: list[Place], since: float) -> Message:
    where = tuple(Message("gpus_on_node", numbers=tuple(part.gpus), node=part.node) for part in places)
    minute = int(since) // 60 * 60  # within one it says the same
    return Message("idle", since=minute, gpus=sum(len(part.gpus) for part in places), where=where)
