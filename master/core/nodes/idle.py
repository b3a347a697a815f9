"""Tasks that hold GPUs and do nothing with them, and what the lab does about that. Pure.

Watchers find them (`watchers/idle_detector`). Their owner is told. Where the lab says so (`scheduler.idle_action`), the
owner's next tasks with GPUs wait until the GPUs are used again (`hold_next`), or the task is ended (`end`) once a later
look at its GPUs and its log has found nothing either. None of it is kept over a restart: watchers begin anew.
"""

from __future__ import annotations

from collections.abc import Callable

from master.core.outcome import Pending
from master.core.tasks.attempt import AskedEnd, sent_as
from master.core.tasks.task import ACTIVE, Task, TaskState, give_reason
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from master.core.tuning import Tuning
from wire.message import Message, ids

EndAttempt = Callable[[Task, AskedEnd], None]
NAMED = 3
"""So many idle tasks are named."""


class IdleTasks:
    """`told`: what is said of each task that a watcher warns about, by id."""

    def __init__(self, task_table: TaskTable, tuning: Tuning, pending: Pending) -> None:
        self.told: dict[int, Message] = {}
        self._task_table = task_table
        self._tuning = tuning
        self._pending = pending

    def concerns(self, before: State, _after: State) -> bool:
        """Return whether it is about an attempt that was under way."""
        return before in ACTIVE

    def moved(self, task: Task, _before: State, _after: State) -> None:
        """Others of its owner may start as soon as it stands still, is to end, or has ended."""
        if task.id in self.told and not _is_idle(task):
            self._pending.plan_needed = True

    def warn(self, task_id: int, warning: Message | None) -> None:
        """Take over what looks wrong with a task, in the eyes of who watches it; None: nothing any more."""
        if warning is None:
            self.told.pop(task_id, None)
        else:
            self.told[task_id] = warning
        self._pending.plan_needed |= self._holds_next

    @property
    def hold_any(self) -> bool:
        """Return whether there may be owners whose next tasks wait."""
        return bool(self.told) and self._holds_next

    def stops(self, owner: str) -> Message | None:
        """Return why the next tasks of an owner that ask for GPUs wait; None: no idle task is in their way."""
        found = sorted(number for number in self.told if self._is_of(number, owner)) if self.hold_any else []
        return Message("idle_holds_next", owner=owner, tasks=ids(found, NAMED)) if found else None

    def still(self, task_id: int, launch_id: str, now: float, end_attempt: EndAttempt) -> None:
        """A second look, or a later one, has found that an attempt does nothing: it is ended where the lab says so."""
        rules = self._tuning.settings.scheduler
        task, said, asked = self._task_table.tasks.get(task_id), self.told.get(task_id), AskedEnd("limit")
        if task is None or said is None or rules.idle_action != "end" or not rules.idle_after_s:
            return
        is_young = task.started_at is None or now < task.started_at + rules.idle_after_s
        if is_young or not _is_idle(task) or sent_as(task.allocation, launch_id) is None:
            return
        if asked.outranks(task.asked_end):
            end_attempt(task, asked)
            told = said.args
            give_reason(task, Message("ended_as_idle", since=told["since"], gpus=told["gpus"], where=told["where"]))

    @property
    def _holds_next(self) -> bool:
        return self._tuning.settings.scheduler.idle_action == "hold_next"

    def _is_of(self, number: int, owner: str) -> bool:
        task = self._task_table.tasks.get(number)
        return task is not None and task.owner == owner and _is_idle(task)


def _is_idle(task: Task) -> bool:
    """Return whether nobody else is the reason that it does nothing: it is not to stand still, to go on after that, or
    to end."""
    return task.state is TaskState.RUNNING and task.pause_asked is None and not task.to_resume and not task.is_ending
