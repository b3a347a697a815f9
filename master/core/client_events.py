"""Requests of clients about their tasks. Pure.

Each event asks the transition table first, then whatever else has to hold, and only then changes anything: an error
leaves nothing half done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from master.core.attempts.dispatch import Dispatch
from master.core.nodes.inventory import request_of
from master.core.nodes.nodes import Nodes
from master.core.people.quotas import Quotas
from master.core.people.shares import Shares
from master.core.planning.allocations import Allocations
from master.core.planning.learned import Learned
from master.core.tasks.arrays import Array, Arrays
from master.core.tasks.attempt import AskedEnd
from master.core.tasks.dependencies import Dependencies
from master.core.tasks.nothing import NO_LIST
from master.core.tasks.request import demand_of
from master.core.tasks.shared_values import SharedValues
from master.core.tasks.task import ENDED, HELD, QUEUED, WAITING, Task, TaskState, Wish
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import Event
from master.core.tasks.waiting import Waiting
from wire.errors import ImpossibleError
from wire.message import Message

NO_PAST: Mapping[int, TaskState] = MappingProxyType({})
_NO_GPUS: Mapping[str, Any] = MappingProxyType(
    {"gpus": 0, "gpus_max": None, "gpu_ids": None, "share": False, "gpu_memory_mib": None}
)
"""The fields of a task that are left out to see whether only its number of GPUs is too large for any node."""


class ClientEvents:
    """Each is a method, and raises what forbids it."""

    def __init__(
        self,
        task_table: TaskTable,
        dependencies: Dependencies,
        waiting: Waiting,
        nodes: Nodes,
        dispatch: Dispatch,
        *,
        arrays: Arrays,
        allocations: Allocations,
        quotas: Quotas,
        shares: Shares,
        learned: Learned,
    ) -> None:
        self._task_table = task_table
        self._dependencies = dependencies
        self._waiting = waiting
        self._nodes = nodes
        self._dispatch = dispatch
        self._arrays = arrays
        self._allocations = allocations
        self._quotas = quotas
        self._shares = shares
        self._learned = learned
        self._values = SharedValues()

    def submit(
        self, drafts: list[Task], now: float, past: Mapping[int, TaskState] = NO_PAST, *, waits: bool = False
    ) -> list[Task]:
        """File new tasks: all of them or, with an error, none. Ids are given here. `past`: how predecessors ended that
        were moved to the monthly files. `waits`: with more GPUs than any node has they wait for a node that has so
        many, and are not refused."""
        sizes = self._shares.check(drafts)
        checked = None
        for draft in drafts:
            wish = (demand_of(draft), draft.after) if len(drafts) > 1 else None  # which costs as much as to check one
            if wish is None or wish != checked:
                self._check_possible(draft, waits=waits)
                if draft.after:
                    self._dependencies.check(draft, past)
                checked = wish
        self._values.share(drafts)
        self._file(drafts, now, sizes)
        return drafts

    def submit_many(
        self,
        draft: Task,
        commands: list[str],
        log_path: Callable[[int], str],
        now: float,
        past: Mapping[int, TaskState] = NO_PAST,
    ) -> list[Task]:
        """File one task per command, all else as in `draft`."""
        self._shares.check_count(draft.owner, len(commands))
        self._check_possible(draft)
        self._dependencies.check(draft, past)
        drafts = []
        for number, command in enumerate(commands, self._task_table.next_id):
            drafts.append(replace(draft, command=command, log_path=log_path(number)))
        self._file(drafts, now, self._shares.check(drafts, alike=True), alike=True)
        return drafts

    def submit_array(
        self,
        drafts: list[Task],
        now: float,
        past: Mapping[int, TaskState] = NO_PAST,
        *,
        cap: int | None = None,
        max_fails: int | None = None,
    ) -> list[Task]:
        """File the tasks of an array, which ask for the same, and each of which has its place (`array`) with the id
        that is next. At most `cap` of them run at once; after `max_fails` failures the rest is held."""
        sizes = self._shares.check(drafts, alike=True)
        self._check_possible(drafts[0])
        self._dependencies.check(drafts[0], past)
        indices = [draft.array.index for draft in drafts if draft.array is not None]
        array = Array(self._task_table.next_id, len(drafts), cap, max_fails, least=min(indices), greatest=max(indices))
        self._arrays.begin(array)
        self._file(drafts, now, sizes, alike=True)
        return drafts

    def edit(
        self, edited: Task, past: Mapping[int, TaskState] = NO_PAST, *, last: bool = False, waits: bool = False
    ) -> Task:
        """Replace a queued task by its edited copy; an ended one queues again with it, as `retry` has it. `past`,
        `waits`: as for `submit`."""
        task = self._task_table.admit(Event.EDIT, edited.id)
        again = task.state in ENDED
        asks_otherwise = request_of(edited) != request_of(task)
        # An admin who passed the quotas did so for the request as it was then.
        over_quota = edited.over_quota = task.over_quota and not asks_otherwise
        by_admin = edited.by_admin = task.by_admin and edited.by_admin  # what once came from another stays so
        if again or asks_otherwise or edited.project != task.project:
            self._check_possible(edited, waits=waits)
        elif edited.is_allocation and edited.name != task.name:
            self._allocations.check(edited)
        after_changed = edited.after != task.after
        if after_changed:
            self._dependencies.check(edited, past)
        if again:
            self._shares.check([edited])
        else:
            self._shares.check_growth(task, edited)
        begin_changed = edited.begin_at != task.begin_at
        for name in Wish.__struct_fields__:
            setattr(task, name, getattr(edited, name))
        task.over_quota, task.by_admin = over_quota, by_admin
        if after_changed:
            self._dependencies.begin(task)
        if begin_changed:
            task.not_before = task.begin_at
        self._learned.fill_in(task)
        if again:
            self._queue_again(task, last=last)
        else:
            self._task_table.changed(task)
        return task

    def cancel(self, task_id: int, now: float, reason: Message | None = None, *, by: str = "") -> bool:
        """Cancel, because `by` wants that. True: it was still waiting and is ended; False: its node has the order and
        will report the end."""
        task = self._task_table.admit(Event.CANCEL, task_id)
        if task.state in QUEUED:
            self._task_table.end(task, TaskState.CANCELLED, now, reason)
            return True
        if task.is_allocation:
            return self._allocations.end(task, AskedEnd("cancel", by), now)
        self._dispatch.kill(task, AskedEnd("cancel", by))
        return False

    def retry(self, task_id: int, *, last: bool = False, by_admin: bool = False, waits: bool = False) -> Task:
        """Queue an ended task again: a new attempt of the same task. It has the place that it had, or, `last`, that of
        one that is new. `by_admin`: an admin with the scope `admin` wants that. `waits`: as for `submit`."""
        task = self._task_table.admit(Event.RETRY, task_id)
        self._check_possible(task, waits=waits)
        self._shares.check([task])
        task.by_admin = task.by_admin and by_admin
        self._learned.fill_in(task)
        self._queue_again(task, last=last)
        return task

    def _queue_again(self, task: Task, *, last: bool) -> None:
        if last:
            task.forced = False
            self._waiting.put_last(task)
        self._task_table.queue_again(task)

    def remove(self, task_id: int, now: float, *, successors: bool = False) -> list[int]:
        """Forget a task that waits or has ended; with `successors` also all that wait for it, directly or not."""
        self._task_table.admit(Event.REMOVE, task_id)
        doomed = self._dependencies.chain(task_id) if successors else [task_id]
        for doomed_id in reversed(doomed):
            task = self._task_table.tasks[doomed_id]
            self._dependencies.removed(task, now)
            self._task_table.remove(task)
        return doomed

    def hold(self, task_id: int) -> Task:
        """Keep a waiting task from starting until it is released."""
        task = self._task_table.admit(Event.HOLD, task_id)
        if task.state is WAITING:
            self._task_table.move(task, HELD)
        return task

    def release(self, task_id: int) -> Task:
        """Let a held task wait again."""
        task = self._task_table.admit(Event.RELEASE, task_id)
        self._task_table.move(task, WAITING)
        return task

    def force(self, task_id: int, *, over_quota: bool = False) -> Task:
        """Start a queued task as soon as it fits: before all others, whatever holds it or comes before it, and whatever
        time it waits for; with `over_quota` whatever the quotas, too."""
        task = self._task_table.admit(Event.FORCE, task_id)
        task.over_quota = task.over_quota or over_quota
        self._dependencies.drop(task)
        task.forced, task.not_before = True, None
        if task.state is HELD:
            self._task_table.move(task, WAITING)
        else:
            self._task_table.changed(task)
        return task

    def move(self, task_id: int, position: int, passes: Callable[[Task], None] | None = None) -> Task:
        """Give a queued task the place `position` (1: next) in the queue. Priority is not changed by it: a place that
        belongs to another priority is refused. `passes` is asked of each task that it would overtake, and raises where
        it must not."""
        task = self._task_table.admit(Event.REORDER, task_id)
        self._waiting.place(task, position, passes)
        return task

    def recall(self, task: Task) -> None:
        """Take an ended task back that had been moved to the monthly files."""
        self._task_table.take_back(task)

    def drop_archived(self, task_ids: Iterable[int]) -> None:
        """Forget ended tasks that were moved to the monthly files."""
        for task_id in task_ids:
            self._task_table.remove(self._task_table.admit(Event.ARCHIVE, task_id))

    def _check_possible(self, task: Task, *, waits: bool = False) -> None:
        if task.is_allocation or task.within is not None:
            self._allocations.check(task)
        try:
            self._nodes.check_possible(request_of(task))
        except ImpossibleError:
            if not waits:
                raise
            self._nodes.check_possible(request_of(replace(task, **_NO_GPUS)))
        if self._quotas.has_any:
            self._quotas.check_possible(demand_of(task))

    def _file(self, drafts: list[Task], now: float, sizes: list[int] | None, *, alike: bool = False) -> None:
        """`sizes`: as `Shares.check` told them. `alike`: they differ in command, name, log and place in an array alone,
        so they wait for the same."""
        unmet = self._dependencies.unmet(drafts[0]) if alike and drafts[0].after else []
        for draft in drafts:
            if draft.after:
                draft.waits_for = ([*unmet] if alike else self._dependencies.unmet(draft)) or NO_LIST
            if draft.begin_at is not None:
                draft.not_before = draft.eligible_at = max(draft.begin_at, now)
            if draft.share:
                self._learned.fill_in(draft)
        self._task_table.file(drafts, now, alike=alike)
        self._shares.filed(drafts, sizes)
        for draft in drafts:
            if draft.waits_for:
                self._dependencies.link(draft)
