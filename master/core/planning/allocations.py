"""Named allocations: GPUs that somebody holds for a while, and the tasks that use them.

Pure. An allocation is a task without a command: it queues like one, and all that holds of tasks (order, quotas, rights,
`why`) holds of it. It is granted, held, and ends, and no node hears of it. The rules for tasks within an allocation,
and for their end with it, are here.

It ends when somebody releases it, which waits until no task needs it; or when it is cancelled, its time is over or one
of its nodes is given up: then the tasks within are ended first, and its GPUs are free when the last of them is dead.
That is decided with the next plan, from what is on disk, so a master that dies in between comes to the same end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from master.core.nodes.inventory import Inventory
from master.core.nodes.leases import Lease
from master.core.nodes.resources import GPUS
from master.core.outcome import Pending
from master.core.tasks.attempt import AskedEnd, Part
from master.core.tasks.request import request_of
from master.core.tasks.task import ACTIVE, ENDED, QUEUED, Task, TaskState
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from wire.errors import ConflictError, ForbiddenError, ImpossibleError, NotFoundError
from wire.message import Message, ids
from wire.numbers import whole_number

EndAttempt = Callable[[Task, AskedEnd], None]
"""Has an attempt ended by its nodes, and writes down why."""
TOLD = 4
"""So many of the tasks within are named."""
ENDS: dict[str, tuple[TaskState, Message | None]] = {
    "release": (TaskState.SUCCEEDED, None),
    "cancel": (TaskState.CANCELLED, None),
    "limit": (TaskState.TIMED_OUT, Message("allocation_time_over")),
    "node_lost": (TaskState.LOST, Message("allocation_node_lost")),
}
"""How one ends, by why it was to, and what is said of that."""


class Allocations:
    """Those that are not over, by name, and the tasks that are to run or do run in each."""

    def __init__(self, task_table: TaskTable, inventory: Inventory, pending: Pending) -> None:
        self._task_table = task_table
        self._inventory = inventory
        self._pending = pending
        self._names: dict[str, int] = {}
        self._within: dict[int, set[int]] = {}
        self._place: dict[int, int] = {}
        self._unsettled: set[int] = set()

    # -- what happens to tasks ------------------------------------------------------------------------------------

    def concerns(self, _before: State, _after: State) -> bool:
        """Any move of an allocation, or of a task within one."""
        return True

    def moved(self, task: Task, _before: State, after: State) -> None:
        """Note which there are, and which are to be looked at."""
        if task.is_allocation:
            self._note(task, after)
        elif task.within is not None or task.id in self._place:
            self._note_place(task, after)

    def filed(self, tasks: Sequence[Task]) -> None:
        """New tasks; most belong to no allocation."""
        if tasks[0].is_allocation or tasks[0].within is not None:
            for task in tasks:
                self.moved(task, None, task.state)

    def _note(self, task: Task, after: State) -> None:
        self._names = {name: number for name, number in self._names.items() if number != task.id}
        if after is not None and after not in ENDED:
            self._names[task.name] = task.id
        self._look_at(task.id)

    def _note_place(self, task: Task, after: State) -> None:
        before = self._place.pop(task.id, None)
        if before is not None:
            self._within[before].discard(task.id)
            if not self._within[before]:
                del self._within[before]
            self._look_at(before)
        if task.within is not None and after is not None and after not in ENDED:
            self._place[task.id] = task.within
            self._within.setdefault(task.within, set()).add(task.id)
            if task.within != before:
                self._look_at(task.within)

    def _look_at(self, number: int) -> None:
        """With the next plan, where there is something to end: what only begins waits for none."""
        allocation = self._task_table.tasks.get(number)
        if allocation is None or allocation.state in ENDED or allocation.asked_end is not None:
            self._unsettled.add(number)
            self._pending.plan_needed = True

    # -- looking --------------------------------------------------------------------------------------------------

    def all(self) -> list[Task]:
        """Those that are not over, the oldest first."""
        return [self._task_table.tasks[number] for number in sorted(self._names.values())]

    def find(self, which: str | int, knows: Callable[[str], bool] = lambda _owner: True) -> Task:
        """One that is not over, by its name or id, of an owner of whom one `knows` such things. Raises NotFoundError,
        ConflictError."""
        number = self._names.get(which) if isinstance(which, str) else which
        if number is None and isinstance(which, str):
            number = whole_number(which)
        task = None if number is None else self._task_table.tasks.get(number)
        if task is None or not task.is_allocation or not knows(task.owner):
            raise NotFoundError(Message("no_allocation", name=which))
        if task.state in ENDED:
            raise ConflictError(Message("allocation_has_ended", id=task.id, name=task.name, state=task.state))
        return task

    def named(self, name: str) -> Task | None:
        """The one of this name that is not over."""
        number = self._names.get(name)
        return None if number is None else self._task_table.tasks[number]

    def tasks_in(self, number: int) -> list[Task]:
        """The tasks that run in it, or are to."""
        return [self._task_table.tasks[one] for one in sorted(self._within.get(number, ()))]

    def lease(self, number: int, node: str) -> Lease:
        """Return the lease of a held allocation on one of its nodes, with the tasks that use it."""
        return self._inventory.nodes[node].leases[number]

    def rebook(self, number: int, before: Part, after: Part) -> None:
        """One that is held has other GPUs on a node than before."""
        node = self._inventory.nodes[before.node]
        node.hold_gpus([gpu for gpu in after.gpus if gpu not in before.gpus], number)
        node.free_up_gpus([gpu for gpu in before.gpus if gpu not in after.gpus], number)
        node.lease(number).gpus = tuple(after.gpus)

    def check(self, task: Task) -> None:
        """May there be such an allocation, or such a task within one? Raises NotFoundError, ForbiddenError,
        ConflictError, ImpossibleError."""
        if task.is_allocation:
            known = self._names.get(task.name, task.id)
            if known != task.id:
                raise ConflictError(Message("allocation_name_taken", name=task.name, id=known))
        elif task.within is not None:
            self._check_within(task, self.find(task.within))

    def _check_within(self, task: Task, allocation: Task) -> None:
        if task.owner != allocation.owner:
            raise ForbiddenError(
                Message("allocation_of_another", id=allocation.id, name=allocation.name, owner=allocation.owner)
            )
        if allocation.asked_end is not None:
            raise ConflictError(Message("allocation_is_ending", id=allocation.id, name=allocation.name))
        gpus = self._least_gpus(allocation)
        asked = max((need.amount for need in request_of(task).needs if need.resource == GPUS.name), default=0)
        if asked > gpus or task.nodes > allocation.nodes:
            raise ImpossibleError(Message("beyond_allocation", name=allocation.name, gpus=gpus, nodes=allocation.nodes))

    def _least_gpus(self, allocation: Task) -> int:
        """How many GPUs it has on a node, or will have at least."""
        held = [len(part.gpus) for part in allocation.allocation]
        return max(held, default=0) or max(allocation.gpus, allocation.gpus_max or 0)

    # -- what people ask ------------------------------------------------------------------------------------------

    def release(self, number: int, by: str, now: float, *, wait: bool = False) -> Task:
        """Its owner needs it no more; with `wait` once the last task within has ended, and no other comes. Raises
        ConflictError while there are tasks within."""
        task = self.find(number)
        within = self._within.get(task.id)
        if within and task.state not in ACTIVE:
            raise ConflictError(Message("allocation_not_granted", id=task.id, tasks=ids(within, TOLD)))
        if task.state not in ACTIVE:
            self._task_table.end(task, TaskState.CANCELLED, now, None)
            return task
        if within and not wait:
            raise ConflictError(
                Message("allocation_in_use", id=task.id, name=task.name, tasks=ids(within, TOLD), count=len(within))
            )
        self.end(task, AskedEnd("release", by), now)
        return task

    def end(self, task: Task, asked: AskedEnd, now: float) -> bool:
        """One that is held is to end. Has it, since nothing is within?"""
        if asked.outranks(task.asked_end):
            task.asked_end = asked
            self._task_table.changed(task)
            self._look_at(task.id)
        if not self._within.get(task.id):
            self._end_now(task, now)
        return task.state in ENDED

    # -- with each plan -------------------------------------------------------------------------------------------

    @property
    def next_at(self) -> float | None:
        """When the next one's time is over, in seconds since the epoch."""
        return min((end for task in self.all() if (end := ends_at(task)) is not None), default=None)

    def _time_over(self, now: float) -> list[Task]:
        return [task for task in self.all() if (end := ends_at(task)) is not None and end <= now]

    def begin(self, now: float, end_attempt: EndAttempt) -> None:
        """It is `now`: whose time is over ends, and of what is to end the tasks within come first."""
        for task in self._time_over(now):
            self.end(task, AskedEnd("limit"), now)
        unsettled, self._unsettled = self._unsettled, set()
        for number in sorted(unsettled):
            allocation = self._task_table.tasks.get(number)
            if allocation is None or allocation.state in ENDED:
                self._end_within(number, now, end_attempt)
            elif allocation.state in ACTIVE and allocation.asked_end is not None:
                if allocation.asked_end.why != "release":
                    self._end_within(number, now, end_attempt)
                if not self._within.get(number):
                    self._end_now(allocation, now)

    def _end_within(self, number: int, now: float, end_attempt: EndAttempt) -> None:
        allocation = self._task_table.tasks.get(number)
        by = allocation.asked_end.by if allocation is not None and allocation.asked_end is not None else ""
        for task in self.tasks_in(number):
            if task.state in QUEUED:
                self._task_table.end(task, TaskState.CANCELLED, now, Message("its_allocation_ended", id=number))
            elif task.asked_end is None:
                end_attempt(task, AskedEnd("allocation", by))

    def _end_now(self, task: Task, now: float) -> None:
        asked = task.asked_end
        state, reason = ENDS["release" if asked is None else asked.why]
        self._task_table.end(task, state, now, reason)

    # -- checking -------------------------------------------------------------------------------------------------

    def discrepancies(self) -> list[str]:
        """Where what is kept differs from what the tasks say; and GPUs within that the allocation does not hold."""
        live = [task for task in self._task_table.tasks.values() if task.state not in ENDED]
        names = {task.name: task.id for task in live if task.is_allocation}
        found = [] if names == self._names else [f"allocations are known as {self._names}, and are {names}"]
        within: dict[int, set[int]] = {}
        for task in live:
            if task.within is not None:
                within.setdefault(task.within, set()).add(task.id)
        if within != self._within:
            found.append(f"tasks {self._within} are known to be in allocations, and {within} are")
        for node in self._inventory.nodes.values():
            for number, lease in node.leases.items():
                beyond = sorted(set(lease.gpu_holders) - set(lease.gpus))
                if beyond:
                    found.append(f"GPUs {beyond} of {node.name} are used within allocation {number}, which has others")
        return found


def ends_at(task: Task) -> float | None:
    """When the time of an allocation that is held will be over; None for never, or where it is to end anyway."""
    if (
        not AskedEnd("limit").outranks(task.asked_end)
        or task.state not in ACTIVE
        or task.started_at is None
        or task.time_limit_s is None
    ):
        return None
    return task.started_at + task.time_limit_s
