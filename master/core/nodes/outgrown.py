"""Tasks that use more of a GPU than the share that they were given, as samples show it. Pure.

Its owner is told, for the next task may find no room because of it: what is used counts for who comes next (`cards`).
No task is ended for that, as only the program itself can free its memory; unless the lab says so
(`scheduler.end_outgrown_after_s`), and then only a task whose owner asked for so much: its owner did not ask for a size
that was learned from other tasks. Not kept over a restart: the next sample tells again, and what had been so for a
while has to be so anew.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from master.core.nodes.gpu_watch import OVER_MIB
from master.core.nodes.node import Node
from master.core.tasks.attempt import AskedEnd, Part, part_on
from master.core.tasks.task import ACTIVE, Task, give_reason
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from master.core.tuning import Tuning
from wire.message import Message

EndAttempt = Callable[[Task, AskedEnd], None]


class Outgrown(msgspec.Struct, frozen=True):
    """The part that has outgrown its share, since when (seconds since the epoch), for how long that may be so (seconds;
    0: for ever), and what there is to say of it."""

    launch_id: str
    since: float
    after: float
    said: Message


class OutgrownShares:
    """`told`: what is known of each task that has outgrown its share."""

    def __init__(self, task_table: TaskTable, tuning: Tuning, end_attempt: EndAttempt) -> None:
        self.told: dict[int, Outgrown] = {}
        self._task_table = task_table
        self._tuning = tuning
        self._end_attempt = end_attempt

    def concerns(self, before: State, after: State) -> bool:
        """Attempts that are over."""
        return before in ACTIVE and after not in ACTIVE

    def moved(self, task: Task, _before: State, _after: State) -> None:
        """It has no share any more."""
        self.told.pop(task.id, None)

    def warning(self, task: Task) -> Message | None:
        """Return the warning about a task that has outgrown its share."""
        found = self.told.get(task.id)
        return None if found is None else found.said

    def look(self, node: Node, now: float) -> None:
        """A sample of a node came. A task that begins to use too much, or stops doing so, is written down once: how
        much more it uses is read when somebody asks for the GPU, or when the task is ended for it."""
        for task_id in node.active:
            task = self._task_table.tasks[task_id]
            part = part_on(task.allocation, node.name)
            if part is None or part.gpu_mib is None:
                continue
            worst, known = self._worst(task_id, part, node), self.told.get(task_id)
            if worst is None and known is not None and known.launch_id == part.launch_id:
                del self.told[task_id]
                self._task_table.changed(task)
            elif worst is not None and (known is None or known.launch_id == part.launch_id):
                self._outgrows(task, part, worst, known, now)

    def _outgrows(self, task: Task, part: Part, worst: tuple[int, int], known: Outgrown | None, now: float) -> None:
        """A part uses so much of one of its GPUs, which is more than its share: that is told, and ends it where it has
        been so for as long as the lab bears."""
        gpu, used = worst
        after = self._tuning.settings.scheduler.end_outgrown_after_s if task.gpu_memory_mib is not None else 0.0
        if known is None or known.after != after:
            said = (
                Message("share_outgrown_so_far", node=part.node, gpu=gpu, used=used, share=part.gpu_mib, after=after)
                if after
                else Message("share_outgrown", node=part.node, gpu=gpu, used=used, share=part.gpu_mib)
            )
            known = Outgrown(part.launch_id, now if known is None else known.since, after, said)
            self.told[task.id] = known
            self._task_table.changed(task)
        asked = AskedEnd("limit")
        if after and now - known.since >= after and asked.outranks(task.asked_end):
            self._end_attempt(task, asked)
            give_reason(task, Message("ended_for_share", node=part.node, gpu=gpu, used=used, share=part.gpu_mib))

    def _worst(self, task_id: int, part: Part, node: Node) -> tuple[int, int] | None:
        """On which of its GPUs there it uses most beyond its share, and how much that is, in MiB."""
        used = [(node.watch.used_by_tasks(gpu).get(task_id, 0), gpu) for gpu in part.gpus]
        most, gpu = max(used, default=(0, 0))
        return (gpu, most) if most > (part.gpu_mib or 0) + OVER_MIB else None
