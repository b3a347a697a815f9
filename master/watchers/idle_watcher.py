"""Watches for tasks that do nothing: receives every sample, looks at logs, and tells the core what it finds.

Logs are looked at in threads: a hung NFS stops no loop, and means only that nobody is marked. `idle_detector` decides
which task is marked; the core shows it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from collections.abc import Callable, Sequence

from master.core.attempts.agent_messages import EncodedSample
from master.core.nodes.inventory import Node
from master.core.outcome import Move
from master.core.tasks.attempt import part_on
from master.core.tasks.task import Task, TaskState
from master.engine.engine import Engine
from master.files.threads import Threads
from master.watchers.idle_detector import IdleDetector, Step
from wire.errors import MusterError

log = logging.getLogger("muster.idle")

PER_FOLDER = 2
"""Threads that may look at logs of one folder at a time."""


class IdleWatcher:
    """One of the listeners to samples. `after_s` gives the setting of now, see `IdleDetector`; 0: no task is marked.
    `clock`: seconds since the epoch, as the logs' times are."""

    def __init__(self, engine: Engine, after_s: Callable[[], float], clock: Callable[[], float] = time.time) -> None:
        self.threads = Threads(per_key=PER_FOLDER)
        self._engine = engine
        self._clock = clock
        self.detector = IdleDetector(after_s())
        self._after_s = after_s
        self.looking: dict[int, asyncio.Task[None]] = {}
        """Looks at logs that are under way, by task."""
        self._told_hung: set[int] = set()
        engine.observers.append(self)

    def sample(self, name: str, sample: EncodedSample) -> None:
        """Look at the tasks that hold GPUs there. While the driver is broken nobody can say."""
        self.detector.after_s = self._after_s()
        if not self.detector.after_s:
            self._forget_all()
            return
        node = self._engine.core.inventory.nodes.get(name)
        if node is not None and node.used_gpus and not sample.gpu_fault:
            self._look(node, self._clock())

    def _look(self, node: Node, now: float) -> None:
        for task_id in {task_id for holders in node.used_gpus.values() for task_id in holders}:
            task = self._engine.core.tasks[task_id]
            part = part_on(task.allocation, node.name)
            if task.state is TaskState.RUNNING and part is not None:
                step = self.detector.sampled(task, part.launch_id, node.name, node.watch.newest, now)
                self._take(step, task, part.launch_id)

    def _take(self, step: Step, task: Task, launch_id: str) -> None:
        if step is Step.LOOK and task.id not in self.looking:
            look = asyncio.create_task(self._look_at_log(task, launch_id), name=f"age of the log of task {task.id}")
            self.looking[task.id] = look
            look.add_done_callback(lambda _look: self.looking.pop(task.id))
        elif step is Step.MARKED:
            log.warning("task %d of %s (%s): %s", task.id, task.owner, task.name, self.detector.marks[task.id])
            self._tell(task)
        elif step is Step.STILL:
            self._engine.event(lambda: self._engine.core.still_idle(task.id, launch_id, self._clock()))
        elif step is Step.WORKS:
            log.info("task %d of %s works again", task.id, task.owner)
            self._tell(task)

    async def _look_at_log(self, task: Task, launch_id: str) -> None:
        path = task.log_path
        try:
            written_at = await self.threads.call(os.path.dirname(path) or path, lambda _tick: last_written(path))  # noqa: PTH120  (no I/O)
        except MusterError as error:
            level = logging.DEBUG if task.id in self._told_hung else logging.INFO
            log.log(level, "task %d may be idle, but its log cannot be looked at: %s", task.id, error)
            self._told_hung.add(task.id)
            written_at = None
        else:
            self._told_hung.discard(task.id)
        self._take(self.detector.log_seen(task.id, launch_id, written_at, self._clock()), task, launch_id)

    def _tell(self, task: Task) -> None:
        mark = self.detector.marks.get(task.id)
        self._engine.event(lambda: self._engine.core.warn(task.id, mark))
        self._engine.show([task])

    def published(self, moves: Sequence[Move], _nodes: set[str]) -> None:
        """Forget those that do not run any more."""
        if not (self._told_hung or self.detector.knows_any):
            return  # as while a hundred thousand come in
        for task, before, after in moves:
            if before is TaskState.RUNNING and after is not before:
                self._forget(task.id)

    def _forget_all(self) -> None:
        for task_id in self.detector.tasks | self.detector.marks.keys():
            self._forget(task_id)

    def _forget(self, task_id: int) -> None:
        self._told_hung.discard(task_id)
        if self.detector.forget(task_id) is Step.WORKS:
            self._engine.event(lambda: self._engine.core.warn(task_id, None))


def last_written(path: str) -> float | None:
    """When a log was last written, in seconds since the epoch; None where that cannot be said. For a thread. No link
    of a user's is followed: it could lead to what they may not see, and a mark would tell when that was written."""
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode) and info.st_uid in (0, os.geteuid()):
            info = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return info.st_mtime if stat.S_ISREG(info.st_mode) else None
