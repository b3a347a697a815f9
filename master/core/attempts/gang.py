"""Attempts of several parts, one on each of several nodes: they begin together, and end together.

Pure. A part that ends with 0 lets the others go on; the first that ends otherwise, or is lost, ends all: each part that
is left is sent a kill, and one that had not been sent yet is claimed by its node as killed. The GPUs of a part are free
as soon as its own tree is dead; the task ends, or is tried again, when every part is known to be over.
"""

from __future__ import annotations

import msgspec

from master.core.attempts.endings import Endings
from master.core.effects import Kill
from master.core.nodes.health import Health
from master.core.nodes.nodes import Nodes
from master.core.outcome import Pending
from master.core.tasks.attempt import Part, with_known
from master.core.tasks.task import FirstEnd, Task, TaskState, give_reason
from master.core.tasks.task_table import TaskTable
from wire.message import Message


class PartEnd(msgspec.Struct, frozen=True):
    """How one part ended: in which state a task of this part alone would have, when (seconds since the epoch), with
    which code, for which reason. `unbegun`: its node could not begin it, for a fault of the node's own."""

    state: TaskState
    at: float
    code: int | None = None
    reason: Message | None = None
    unbegun: bool = False


class KeptReason(Message):
    """A reason that was written down with a task, as its sentence and its plain values."""

    __slots__ = ("plain", "text")

    def __init__(self, key: str, text: str, plain: dict[str, object]) -> None:
        super().__init__(key)
        self.text = text
        self.plain = plain

    def __str__(self) -> str:
        return self.text

    def plain_args(self) -> dict[str, object]:
        """See `Message`."""
        return self.plain


def kept_reason(task: Task) -> KeptReason | None:
    """Return the reason that is written down with a task, as it was given."""
    if task.reason is None or task.reason_key is None:
        return None
    return KeptReason(task.reason_key, task.reason, task.reason_args or {})


class Gang:
    """The ends of parts, until all of a task's are over."""

    def __init__(self, task_table: TaskTable, nodes: Nodes, endings: Endings, pending: Pending, health: Health) -> None:
        self._task_table = task_table
        self._nodes = nodes
        self._endings = endings
        self._pending = pending
        self._health = health

    def part_over(self, task: Task, part: Part, end: PartEnd, now: float) -> None:
        """A part is over. If it was the last one, so is the attempt."""
        if part.ended_at is not None:
            return  # it was told before, and is told again
        task.allocation = with_known(task.allocation, part.launch_id, ended_at=end.at, exit_code=end.code)
        if task.first_end is None and (end.unbegun or end.state is not TaskState.SUCCEEDED):
            rank = next(rank for rank, one in enumerate(task.allocation) if one.launch_id == part.launch_id)
            task.first_end = FirstEnd(rank, part.node, end.state, end.code, end.unbegun)
            give_reason(task, _of_part(rank, part.node, end.reason))
            self.end_others(task)
        if all(one.ended_at is not None for one in task.allocation):
            self._all_over(task, now)
        else:
            self._nodes.part_over(task, part)
            task.allocation = with_known(task.allocation, part.launch_id, is_free=True)
            self._task_table.changed(task)

    def end_others(self, task: Task) -> None:
        """Every part that is left is to end."""
        for part in task.allocation:
            if part.ended_at is None:
                self._pending.effect(Kill(part.node, part.launch_id, part.login))

    def _all_over(self, task: Task, now: float) -> None:
        first = task.first_end
        at = max(part.ended_at or now for part in task.allocation)
        if first is None:
            task.exit_code = 0
            self._endings.over(task, TaskState.SUCCEEDED, at, None, now)
            return
        task.exit_code = first.code
        reason = kept_reason(task)
        if not first.unbegun:
            self._endings.over(task, first.state, at, reason, now)
        elif task.cancel_requested:
            self._task_table.end(task, TaskState.CANCELLED, now, None)
        elif self._health.is_the_tasks_own(task):
            self._endings.over(task, TaskState.FAILED, now, not_started_anywhere(task), now)
        else:
            self._endings.not_begun(task, now, reason or Message("not_started", said=first.node))


def not_started_anywhere(task: Task) -> Message:
    """Return the answers of the nodes that could not start a task."""
    tries = tuple(Message("node_said", node=entry.node, said=entry.why) for entry in task.unstarted if not entry.ran)
    return Message("not_started_anywhere", count=len(tries), tries=tries)


def _of_part(rank: int, node: str, reason: Message | None) -> Message | None:
    return None if reason is None else Message("of_part", rank=rank, node=node, why=reason)
