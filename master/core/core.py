"""The only owner of state: what clients and agents say comes in, whole changes and effects go out.

Pure: no I/O, no clock; `now` (seconds since the epoch) is an argument. Every method first checks, then changes, so an
error leaves nothing half done. What was changed is collected until the engine takes it (`take_outcome`): one Change
for the journal and the effects that may happen only once that Change is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from types import MappingProxyType

import msgspec

from master.core.backlog import order_of
from master.core.cordon import Cordon
from master.core.effects import Kill
from master.core.inventory import NodeSpec, request_of
from master.core.scheduler import explain
from master.core.task import ACTIVE, ENDED, QUEUED, Task, TaskState
from wire.errors import ConflictError, LimitError

SMALLEST_GAP = 1e-6
"""Between two positions; below it the queue is numbered anew."""


class Core(Cordon):
    """The state and everything that can happen to it: what clients ask for is here, what nodes do in the classes that
    this one stands on. `waiting_limit`: how many tasks may wait."""

    def __init__(
        self, specs: tuple[NodeSpec, ...], new_launch_id: Callable[[int, int], str], *, waiting_limit: int
    ) -> None:
        super().__init__(specs, new_launch_id)
        self.warnings: dict[int, str] = {}
        self._waiting_limit = waiting_limit

    # -- loading and handing out ------------------------------------------------------------------------------

    def load(
        self,
        tasks: dict[int, Task],
        answered: dict[str, msgspec.Raw],
        next_id: int,
        pieces: Mapping[str, msgspec.Raw] = MappingProxyType({}),
    ) -> None:
        """Take over what the store found: tasks, answers, and the pieces of state that are not tasks. Called once,
        before any event."""
        self.tasks = tasks
        self.load_notes(pieces)
        self._queue = None
        self.answered = answered
        self.next_id = next_id
        for task in tasks.values():
            self.counts[task.state] += 1
            if task.state in ACTIVE:
                self.inventory.take(task)
                if task.launch:
                    self._by_launch[task.launch.launch_id] = task.id
            elif task.state in QUEUED:
                self._link_predecessors(task)
                self._file(task)
        for task in list(tasks.values()):
            if task.state in QUEUED and task.waits_for:
                self._settle_predecessors(task, task.submitted_at)

    def reason(self, task: Task) -> str | None:
        """Why it waits, or what there is to say of its end."""
        if task.state is TaskState.HELD:
            return f"held: release it with `muster release {task.id}`"
        if task.state is not TaskState.WAITING:
            return task.reason
        if task.waits_for:
            words = {"ok": "to succeed", "fail": "to fail", "any": "to end"}
            return "waits for " + ", ".join(f"task {after.id} {words[after.on]}" for after in task.waits_for)
        return explain(request_of(task), self.inventory)

    def warning(self, task: Task) -> str | None:
        """What looks wrong with a task that runs. `warnings` is filled by whoever watches them; nothing of it is kept
        over a restart."""
        return self.warnings.get(task.id) if task.state is TaskState.RUNNING else None

    def warned(self) -> list[int]:
        """The tasks that there is a warning about."""
        return sorted(i for i in self.warnings if i in self.tasks and self.warning(self.tasks[i]) is not None)

    def active(self) -> list[Task]:
        """The tasks that may be alive on a node, the longest running first, those about to start last."""
        ids = set().union(*(node.active for node in self.inventory.nodes.values()))
        return sorted(
            (self.tasks[task_id] for task_id in ids), key=lambda task: (task.started_at or float("inf"), task.id)
        )

    def oldest_ended(self, keep: int) -> list[Task]:
        """The ended tasks beyond the `keep` newest, oldest first."""
        surplus = sum(self.counts[state] for state in ENDED) - keep
        if surplus <= 0:
            return []
        ended = (task for task in self.tasks.values() if task.state in ENDED)
        return sorted(ended, key=lambda task: (task.ended_at or 0.0, task.id))[:surplus]

    # -- what clients ask -------------------------------------------------------------------------------------

    def submit(self, drafts: list[Task], now: float) -> list[Task]:
        """File new tasks: all of them or, with an error, none. Ids are given here."""
        waiting = self.counts[TaskState.WAITING] + self.counts[TaskState.HELD]
        if waiting + len(drafts) > self._waiting_limit:
            raise LimitError(
                f"{waiting} tasks wait already and limits.waiting_tasks is {self._waiting_limit}: wait, or raise it"
            )
        checked = None
        for draft in drafts:
            shape = (request_of(draft), draft.after)
            if shape != checked:
                self._check_possible(draft)
                self._check_predecessors(draft)
                checked = shape
        for draft in drafts:
            draft.id = self.next_id
            draft.submitted_at = now
            self.next_id += 1
            self.tasks[draft.id] = draft
            self.counts[draft.state] += 1
            if draft.after:
                self._await_predecessors(draft, now)
            self._file(draft)
            self._touch(draft)
        return drafts

    def submit_many(self, draft: Task, commands: list[str], log_path: Callable[[int], str], now: float) -> list[Task]:
        """File one task per command, all else as in `draft`."""
        drafts = []
        for number, command in enumerate(commands, self.next_id):
            task = copy(draft)
            task.command = command
            task.log_path = log_path(number)
            drafts.append(task)
        return self.submit(drafts, now)

    def cancel(self, task_id: int, now: float, reason: str | None = None) -> bool:
        """Cancel. True: it was still waiting and is ended; False: its node was told and will report the end."""
        task = self.find(task_id)
        if task.state in ENDED:
            raise ConflictError(f"task {task_id} has already ended ({task.state})")
        if task.state in QUEUED:
            self._end(task, TaskState.CANCELLED, now, reason)
            return True
        if not task.cancel_requested:
            task.cancel_requested = True
            self._touch(task)
        if task.launch:
            self._effects.append(Kill(task.launch.node, task.launch.launch_id))
        return False

    def edit(self, edited: Task, now: float) -> Task:
        """Replace a queued task by its edited copy; an ended one queues again with it."""
        task = self.find(edited.id)
        self._refuse_active(task, "edited", "cancel it first, or submit a new one")
        self._check_possible(edited)
        after_changed = edited.after != task.after
        if after_changed:
            self._check_predecessors(edited)
        if task.state in ENDED:
            self._queue_again(task)
        elif after_changed:
            self._unlink_predecessors(task)
        for name in EDITABLE:
            setattr(task, name, getattr(edited, name))
        if after_changed:
            self._await_predecessors(task, now)
        self._file(task)
        self._touch(task)
        return task

    def retry(self, task_id: int) -> Task:
        """Queue an ended task again: a new attempt of the same task."""
        task = self.find(task_id)
        if task.state not in ENDED:
            raise ConflictError(f"task {task_id} is {task.state}; only an ended one can be tried again")
        self._check_possible(task)
        self._queue_again(task)
        self._file(task)
        self._touch(task)
        return task

    def remove(self, task_id: int, now: float, *, successors: bool = False) -> list[int]:
        """Forget a task that waits or has ended; with `successors` also all that wait for it, directly or not."""
        task = self.find(task_id)
        self._refuse_active(task, "removed", "cancel it first")
        doomed = [task_id]
        if successors:
            for doomed_id in doomed:
                doomed += sorted(self._successors.get(doomed_id, set()) - set(doomed))
        for doomed_id in reversed(doomed):
            self._forget(self.tasks[doomed_id], now)
        return doomed

    def drop_archived(self, task_ids: Iterable[int]) -> None:
        """Forget ended tasks that were moved to the monthly files."""
        for task_id in task_ids:
            task = self.tasks.pop(task_id)
            self.counts[task.state] -= 1
            self._dirty.pop(task_id, None)
            self._gone.append(task_id)

    def hold(self, task_id: int) -> Task:
        """Keep a waiting task from starting until it is released."""
        task = self.find(task_id)
        if task.state not in QUEUED:
            raise ConflictError(f"task {task_id} is {task.state}; only a waiting one can be held")
        if task.state is TaskState.WAITING:
            self._move(task, TaskState.HELD)
            self.backlog.discard(task_id)
        return task

    def release(self, task_id: int) -> Task:
        """Let a held task wait again."""
        task = self.find(task_id)
        if task.state is not TaskState.HELD:
            raise ConflictError(f"task {task_id} is {task.state}, not held")
        self._move(task, TaskState.WAITING)
        self._file(task)
        return task

    def force(self, task_id: int) -> Task:
        """Start a queued task as soon as it fits: before all others, whatever holds it or comes before it."""
        task = self.find(task_id)
        if task.state not in QUEUED:
            raise ConflictError(f"task {task_id} is {task.state}; only a waiting one can be started")
        self._unlink_predecessors(task)
        if task.state is TaskState.HELD:
            self._move(task, TaskState.WAITING)
        task.forced = True
        self._file(task)
        self._touch(task)
        return task

    def move(self, task_id: int, position: int) -> Task:
        """Give a queued task the place `position` (1: next) in the queue. Priority is not changed by it: a place that
        belongs to another priority is refused."""
        task = self.find(task_id)
        if task.state not in QUEUED:
            raise ConflictError(f"task {task_id} is {task.state}; only a waiting one can be moved")
        others = [other for other in self.queue() if other.id != task_id]
        index = min(max(position, 1), len(others) + 1) - 1
        rank = order_of(task)[:3]
        before = others[index - 1] if index else None
        behind = others[index] if index < len(others) else None
        if (before and order_of(before)[:3] > rank) or (behind and order_of(behind)[:3] < rank):
            raise ConflictError(
                f"place {position} belongs to tasks of another priority than {task.priority}: "
                f"change it first with `muster edit {task_id} priority=N`"
            )
        low = order_of(before)[3] if before and order_of(before)[:3] == rank else None
        high = order_of(behind)[3] if behind and order_of(behind)[:3] == rank else None
        task.position = _between(low, high, task)
        self._touch(task)
        self._file(task)
        if low is not None and high is not None and high - low < SMALLEST_GAP:
            self._renumber(rank)
        return task

    def _renumber(self, rank: tuple[bool, bool, int]) -> None:
        # Halving the gap between two neighbours runs out of digits after some forty moves to one place.
        same = [task for task in self.queue() if order_of(task)[:3] == rank]
        for place, task in enumerate(same, min(task.id for task in same)):
            task.position = float(place)
            self._touch(task)
            self._file(task)


EDITABLE = (
    "name",
    "project",
    "command",
    "cwd",
    "env",
    "setup",
    "variables",
    "gpus",
    "gpu_ids",
    "cpus",
    "node",
    "after",
    "share",
    "priority",
    "urgent",
    "time_limit_s",
    "log_path",
)


def _between(low: float | None, high: float | None, task: Task) -> float:
    if low is None and high is None:
        return float(task.id)
    if low is None:
        return (high or 0.0) - 1.0
    if high is None:
        return low + 1.0
    return (low + high) / 2
