"""Which running tasks hold GPUs and do nothing: their GPUs have not computed and their logs been silent for long.

Whether they use memory of the GPUs makes no difference: others cannot have the GPUs either way. A task that starts, or
fetches data, has the same time as one that has computed before, and each line in its log begins that time anew.
Owns how long each task has been quiet, in memory only: a restart of the master begins anew. A log's age is asked for
(`Step.LOOK`) only of a task whose GPUs have been quiet for long enough. An unknown (a GPU that tells no
utilisation, a log that cannot be looked at, a time without samples) never makes a mark. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec

from master.core.nodes.gpu_watch import GpuReport
from master.core.tasks.attempt import Place
from master.core.tasks.task import Task
from wire.message import Message

BUSY_PERCENT = 5.0
"""Above this, a GPU works. A desktop or a driver that looks after itself takes less."""
GAP_S = 60.0
"""After so long without a sample nobody knows whether the task has worked meanwhile."""
AGAIN_S = 30.0
"""How often the log of a marked task is looked at, whether it grows again."""


class Step(Enum):
    """The next step: do nothing; look at the log's age; tell that there is a mark, that a later look has found nothing
    either, or that there is no mark now."""

    NOTHING = "nothing"
    LOOK = "look"
    MARKED = "marked"
    STILL = "still"
    WORKS = "works"


class _Quiet(msgspec.Struct):
    """An attempt whose GPUs do nothing. `launches`: the id of its part on each node; `since`, `seen`: when that began
    and was last seen, by node; `watched`: since when its samples have had no gap; `look_at`: when its log is worth a
    look; `written_at`: when that was last written, by the clock of the machine that keeps it;
    `log_since`: when it was last found to have grown since a look. Times in seconds since the epoch."""

    places: list[Place]
    launches: dict[str, str] = {}
    since: dict[str, float] = {}
    seen: dict[str, float] = {}
    watched: dict[str, float] = {}
    look_at: float = 0.0
    written_at: float | None = None
    log_since: float = 0.0

    @property
    def all_since(self) -> float | None:
        """Since when all its GPUs have done nothing; None if some of them work."""
        known = len(self.since) == len(self.places)
        return max(self.since.values()) if known else None

    def is_of(self, task: Task, node: str, launch_id: str) -> bool:
        """Whether it is this attempt of the task, with the GPUs that it has now."""
        held = [(part.node, part.gpus) for part in task.allocation if part.gpus]
        known = [(part.node, part.gpus) for part in self.places]
        return known == held and self.launches.get(node, launch_id) == launch_id

    def silent_since(self, written_at: float, now: float) -> float:
        """Take over when the log was last written; since when it has been silent. One that has grown since the last
        look is not silent, whatever the clock of the machine that keeps it says."""
        if self.written_at not in (None, written_at):
            self.log_since = now
        self.written_at = written_at
        return max(written_at, self.log_since)


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
        if not all(_does_nothing(gpus.get(gpu)) for gpu in held):
            return self.forget(task.id)
        quiet = self._quiet.get(task.id)
        works = Step.NOTHING
        if quiet is None or not quiet.is_of(task, node, launch_id):
            works = self.forget(task.id)
            quiet = self._quiet[task.id] = _Quiet([part for part in task.allocation if part.gpus])
        quiet.launches[node] = launch_id
        self._note(quiet, task.id, node, now)
        since = quiet.all_since
        if since is None or now < max(since + self.after_s, quiet.look_at) or not _all_seen(quiet, now):
            return works
        quiet.look_at = now + min(AGAIN_S, self.after_s)
        return Step.LOOK

    def _note(self, quiet: _Quiet, task_id: int, node: str, now: float) -> None:
        is_gap = not 0 <= now - quiet.seen.get(node, now) <= GAP_S
        # One that is marked and still does nothing has hardly worked in between.
        if node not in quiet.since or (is_gap and task_id not in self.marks):
            quiet.since[node] = now
        if is_gap or node not in quiet.watched:
            quiet.watched[node] = now
        quiet.seen[node] = now

    def log_seen(self, task_id: int, launch_id: str, written_at: float | None, now: float) -> Step:
        """The log that was to be looked at was last written then; None: nobody can say. MARKED, STILL, WORKS or
        NOTHING."""
        quiet = self._quiet.get(task_id)
        since = None if quiet is None or launch_id not in quiet.launches.values() else quiet.all_since
        if quiet is None or since is None or written_at is None:
            return Step.NOTHING
        since = max(since, quiet.silent_since(written_at, now))
        left = since + self.after_s - now
        if left > 0:
            quiet.look_at = now + min(left, self.after_s)
            return self._unmark(task_id)
        mark = _mark(quiet.places, since)
        if self.marks.get(task_id) == mark:
            is_watched = now - max(quiet.watched.values()) >= self.after_s
            return Step.STILL if is_watched else Step.NOTHING
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


def _all_seen(quiet: _Quiet, now: float) -> bool:
    """Whether all its nodes have sent a sample lately: of one that is silent nobody knows."""
    return all(0 <= now - seen <= GAP_S for seen in quiet.seen.values())


def _does_nothing(report: GpuReport | None) -> bool:
    """Return whether a GPU is known not to compute."""
    return report is not None and report.utilization is not None and report.utilization <= BUSY_PERCENT


def _mark(places: list[Place], since: float) -> Message:
    where = tuple(Message("gpus_on_node", numbers=tuple(part.gpus), node=part.node) for part in places)
    minute = int(since) // 60 * 60  # within one it says the same
    return Message("idle", since=minute, gpus=sum(len(part.gpus) for part in places), where=where)
