"""The follow-up of the end of an attempt: the task has ended, or is to be tried again, and when.

Pure. Owns the rules of trying again; that an attempt is over, all of it, was found out by whoever calls. A task that is
tried again goes from running to waiting in one step: nobody is told of an end that was none. It is counted
(`Task.retries`), and the count is on disk with the attempt's end, so no crash and no fast failure makes it more than
its owner allowed.
"""

from __future__ import annotations

from copy import copy
from math import ceil

from master.core.attempts.exhaustion import OUT_OF_MEMORY
from master.core.nodes.inventory import Inventory
from master.core.nodes.unstarted_tasks import UnstartedTasks
from master.core.people.barred import why_barred
from master.core.people.people import People
from master.core.tasks.arrays import Arrays
from master.core.tasks.later import LEAST_TURN_S, pause_s
from master.core.tasks.nothing import NO_LIST
from master.core.tasks.request import request_of
from master.core.tasks.task import Task, TaskState, Unstarted, give_reason
from master.core.tasks.task_table import TaskTable
from master.core.tasks.waiting import Waiting
from master.core.tuning import Tuning
from wire.message import Message

MORE_MEMORY = 1.25
"""A task that grew to the size of its GPU is tried again with so many times the memory that it was seen to use."""
USUAL = frozenset({"fail", "oom", "lost"})
"""The ends that are tried again unless the owner named others: all that nobody wanted."""


def kind_of(state: TaskState, reason: Message | None) -> str:
    """Return the name of an end among those that may be tried again; "" for one that may not."""
    if state is TaskState.LOST:
        return "lost"
    if state is TaskState.FAILED:
        return "oom" if reason is not None and reason.key in OUT_OF_MEMORY else "fail"
    return ""


def is_tried_again(task: Task, state: TaskState, reason: Message | None) -> bool:
    """Is a task whose attempt ended so to be tried again, and does that count as one of its retries? A task that was to
    end (it was cancelled, its log was too large) has ended; but the decision to give up a node is no decision about a
    task, and an attempt that ended badly before it could be resized has ended by itself."""
    wanted = task.asked_end is not None and task.asked_end.why not in ("node_lost", "resize")
    kind = kind_of(state, reason)
    return bool(kind) and not wanted and task.retries < task.max_retries and kind in (task.retry_on or USUAL)


def goes_on_later(task: Task, state: TaskState) -> bool:
    """Did its time limit end the attempt of a task that is to go on behind all others? That counts only for who said
    how often."""
    if state is not TaskState.TIMED_OUT or task.on_timeout != "requeue":
        return False
    return task.max_retries == 0 or task.retries < task.max_retries


def is_resized(task: Task, state: TaskState) -> bool:
    """Was its attempt ended by us, for nothing but to go on with another number of GPUs? An attempt that ended by
    itself before our kill arrived counts as what it is."""
    return state is TaskState.CANCELLED and task.asked_end is not None and task.asked_end.why == "resize"


class Endings:
    """The ends of attempts, all of them. `inventory`: where else, or with how much more memory, a task could run that
    ran out of it."""

    def __init__(
        self,
        task_table: TaskTable,
        waiting: Waiting,
        people: People,
        arrays: Arrays,
        tuning: Tuning,
        *,
        inventory: Inventory,
        unstarted_tasks: UnstartedTasks,
    ) -> None:
        self._task_table = task_table
        self._waiting = waiting
        self._people = people
        self._arrays = arrays
        self._tuning = tuning
        self._inventory = inventory
        self._unstarted_tasks = unstarted_tasks

    def over(self, task: Task, state: TaskState, at: float, reason: Message | None, now: float) -> None:
        """Its attempt ended at `at`, in all its parts, and with it the task: in this state, for this reason; unless it
        is to be tried again."""
        if is_resized(task, state):
            self._resized(task, at, now)
        elif is_tried_again(task, state, reason):
            pause = pause_s(task.retries, self._tuning.settings.scheduler.retry_after_s)
            task.retries += 1
            nodes = [part.node for part in task.allocation]
            self._return(task, at, reason, now + pause, now)
            self._with_more_memory(task, reason, nodes)
        elif goes_on_later(task, state):
            task.retries += task.max_retries > 0
            self._waiting.put_last(task)
            # A limit of a moment must not make the queue do nothing else.
            begun = min(now, now if task.started_at is None else task.started_at)
            self._return(task, at, reason, max(now, begun + LEAST_TURN_S), now)
        else:
            self._task_table.end(task, state, at, reason)

    def not_begun(self, task: Task, now: float, reason: Message) -> None:
        """Its attempt is over and nothing of it was done, for which it is not to blame: it keeps its place, and how
        long it has waited."""
        self._task_table.attempt_again(task, now, reason)
        self._keep_back(task, now)

    def _resized(self, task: Task, at: float, now: float) -> None:
        """It goes on, and keeps its place: that is no retry, but what it ran counts for its time limit."""
        change = task.resizing
        reason = None if change is None else Message("was_resized", was=change.was, gpus=change.gpus)
        task.resizes += 1
        task.ran_s += 0.0 if task.started_at is None else max(0.0, at - task.started_at)
        task.unstarted = NO_LIST
        task.not_before, task.eligible_at = None, now
        self._task_table.attempt_again(task, at, reason)
        self._keep_back(task, now)

    def _with_more_memory(self, task: Task, reason: Message | None, nodes: list[str]) -> None:
        """A task that ran out of a GPU's memory is tried again on a node where the GPU is not in use by others, if
        there is one; or with more memory than it had, if any GPU has so much."""
        if reason is None or task.state is not TaskState.WAITING:
            return
        if reason.key == "oom_gpu_others":
            self._unstarted_tasks.put(task, [Unstarted(node, str(reason), ran=True) for node in nodes])
            self._task_table.changed(task)
        elif reason.key == "oom_gpu_own" or (reason.key == "oom_gpu" and task.share):
            mib = ceil(MORE_MEMORY * (task.gpu_peak_mib or 0))
            wish = copy(task)
            wish.gpu_memory_mib = mib
            if mib > (task.gpu_memory_mib or 0) and self._inventory.why_never(request_of(wish)) is None:
                task.gpu_memory_mib = mib
                self._task_table.changed(task)

    def _return(self, task: Task, at: float, reason: Message | None, not_before: float, now: float) -> None:
        task.unstarted = NO_LIST
        task.ran_s = 0.0
        task.not_before = task.eligible_at = not_before
        self._task_table.attempt_again(task, at, reason)
        self._keep_back(task, now)

    def _keep_back(self, task: Task, now: float) -> None:
        """Of one who may not come in nothing begins, neither what had begun before; nor of an array of which too many
        failed."""
        owner = self._people.named(task.owner)
        barred = None if owner is None else why_barred(owner, self._people.clock.rights(now))
        if barred is not None:
            self._task_table.move(task, TaskState.HELD)
            give_reason(task, barred)
        elif (why := self._arrays.holds(task)) is not None:
            self._task_table.move(task, TaskState.HELD)
            give_reason(task, why)
