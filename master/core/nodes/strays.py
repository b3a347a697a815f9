"""Tasks that compute on a GPU which they were not given, as samples show it. Pure.

A program that sets `CUDA_VISIBLE_DEVICES` by itself, or was given no GPU and uses one, takes from others what they were
promised. Its owner is told, and such a GPU gets no other task (`gpu_watch`). It is ended only where the lab says so
(`scheduler.stray_tasks`), and only once two samples in a row have shown it. Nothing of it is kept over a restart: the
next sample tells again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from master.core.nodes.node import Node
from master.core.tasks.attempt import AskedEnd, part_on
from master.core.tasks.task import ACTIVE, Task, give_reason
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from master.core.tuning import Tuning
from wire.message import Message, ids

EndAttempt = Callable[[Task, AskedEnd], None]


class Stray(msgspec.Struct, frozen=True):
    """The part of an attempt that computes on GPUs which it was not given, and these GPUs."""

    launch_id: str
    gpus: tuple[int, ...]


class StrayTasks:
    """`told`: of the tasks that compute where they were not given a GPU what is known, by node."""

    def __init__(self, task_table: TaskTable, tuning: Tuning, end_attempt: EndAttempt) -> None:
        self.told: dict[int, dict[str, Stray]] = {}
        self._task_table = task_table
        self._tuning = tuning
        self._end_attempt = end_attempt

    def concerns(self, before: State, after: State) -> bool:
        """Return whether an attempt is over."""
        return before in ACTIVE and after not in ACTIVE

    def moved(self, task: Task, _before: State, _after: State) -> None:
        """Forget a task whose attempt is over."""
        self.told.pop(task.id, None)

    def warning(self, task: Task) -> Message | None:
        """Return what to say of a task that computes where it was not given a GPU."""
        for node, found in self.told.get(task.id, {}).items():
            return Message("stray_task", node=node, gpus=ids(found.gpus))
        return None

    def look(self, node: Node) -> None:
        """Take over what the newest sample of a node shows. The begin and the end are recorded; the GPUs in
        between are read when somebody asks."""
        strays = node.watch.strays
        for task_id in [number for number, known in self.told.items() if node.name in known and number not in strays]:
            self._is_over(task_id, node.name)
        for task_id, gpus in strays.items():
            task = self._task_table.tasks[task_id]
            part = part_on(task.allocation, node.name)
            if part is not None:
                self._strays(task, node.name, Stray(part.launch_id, tuple(sorted(gpus))))

    def _is_over(self, task_id: int, node: str) -> None:
        del self.told[task_id][node]
        if not self.told[task_id]:
            del self.told[task_id]
        self._task_table.changed(self._task_table.tasks[task_id])

    def _strays(self, task: Task, node: str, found: Stray) -> None:
        nodes = self.told.setdefault(task.id, {})
        known = nodes.get(node)
        nodes[node] = found
        if known is None or known.launch_id != found.launch_id:
            self._task_table.changed(task)
            return
        asked = AskedEnd("limit")
        if self._tuning.settings.scheduler.stray_tasks == "end" and asked.outranks(task.asked_end):
            self._end_attempt(task, asked)
            give_reason(task, Message("ended_as_stray", node=node, gpus=ids(found.gpus)))
