"""Allocations that are held, and are to have more GPUs or fewer. Pure.

More are taken of what is free on the same nodes, and only where nobody waits who could use that: who wants to stand in
the queue asks for another allocation. Fewer are those that no task within uses, and no task that waits within would
need. Nothing that runs is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from master.core.nodes.resources import GPUS
from master.core.outcome import Pending
from master.core.planning.allocations import Allocations
from master.core.planning.elastic import Lab, in_order, is_wanted, more_gpus
from master.core.tasks.attempt import Part
from master.core.tasks.nothing import NO_MAPPING
from master.core.tasks.request import demand_of, request_of
from master.core.tasks.task import ACTIVE, Task
from master.core.tasks.task_table import TaskTable
from wire.errors import ConflictError
from wire.message import Message, ids

LookAround = Callable[[], Lab]
"""Gives what there is now: who waits, and for whom what is kept."""
TOLD = 4
"""So many of the tasks within are named."""


class AllocationSize:
    """How many GPUs allocations have on each of their nodes."""

    def __init__(
        self, task_table: TaskTable, allocations: Allocations, pending: Pending, look_around: LookAround
    ) -> None:
        self._task_table = task_table
        self._allocations = allocations
        self._pending = pending
        self._look_around = look_around

    def grow(self, number: int, count: int) -> Task:
        """So many GPUs more on each of its nodes. Raises ConflictError where they are not to be had now."""
        task = self._held(number)
        lab = self._look_around()
        self._check_quota(task, count, lab)
        others = [demand for _, demand in in_order(lab.demands)]
        more = {}
        for part in task.allocation:
            if is_wanted(lab, task, part, others):
                raise ConflictError(Message("allocation_others_wait", node=part.node))
            found = more_gpus(lab, task, part, len(part.gpus) + count)
            if len(found) < count:
                raise ConflictError(Message("allocation_no_more", node=part.node, count=len(found), asked=count))
            more[part.node] = found
        self._has_now(task, [replace(part, gpus=sorted([*part.gpus, *more[part.node]])) for part in task.allocation])
        return task

    def shrink(self, number: int, count: int) -> Task:
        """So many GPUs less on each of its nodes. Raises ConflictError where tasks within use or need them."""
        task = self._held(number)
        left = min(len(part.gpus) for part in task.allocation) - count
        if left < 1:
            raise ConflictError(Message("allocation_would_be_empty", id=task.id, name=task.name))
        self._check_within(task, left)
        self._has_now(task, [replace(part, gpus=self._kept(task, part, count)) for part in task.allocation])
        return task

    def _held(self, number: int) -> Task:
        task = self._allocations.find(number)
        if task.state not in ACTIVE:
            raise ConflictError(Message("allocation_not_held", id=task.id, name=task.name))
        if task.asked_end is not None:
            raise ConflictError(Message("allocation_is_ending", id=task.id, name=task.name))
        return task

    def _check_quota(self, task: Task, count: int, lab: Lab) -> None:
        has = sum(len(part.gpus) for part in task.allocation)
        most = lab.ledger.gpus_for(demand_of(task), has)
        if has + count * len(task.allocation) > most:
            raise ConflictError(Message("allocation_beyond_quota", owner=task.owner, most=most))

    def _check_within(self, task: Task, left: int) -> None:
        """Those that wait must be able to start one day."""
        needing = [
            one.id for one in self._allocations.tasks_in(task.id) if one.state not in ACTIVE and _asks(one) > left
        ]
        if needing:
            raise ConflictError(Message("allocation_needed_by", name=task.name, left=left, tasks=ids(needing, TOLD)))

    def _kept(self, task: Task, part: Part, count: int) -> list[int]:
        """Which it keeps there: those that are in use, and the first of the others."""
        lease = self._allocations.lease(task.id, part.node)
        unused = [gpu for gpu in part.gpus if gpu not in lease.gpu_holders]
        if len(unused) < count:
            users = {user for held in lease.gpu_holders.values() for user in held}
            raise ConflictError(
                Message(
                    "allocation_gpus_used", name=task.name, node=part.node, unused=len(unused), tasks=ids(users, TOLD)
                )
            )
        gone = set(unused[len(unused) - count :])
        return [gpu for gpu in part.gpus if gpu not in gone]

    def _has_now(self, task: Task, parts: Iterable[Part]) -> None:
        """Book it. The request of the task becomes what it has: this is shown, and a retry asks for it."""
        found = list(parts)
        for before, after in zip(task.allocation, found, strict=True):
            self._allocations.rebook(task.id, before, after)
            self._pending.node_for_plan(before.node)  # fewer are others', more are for those who wait within
        task.allocation = found
        counts = [len(part.gpus) for part in found]
        task.gpus, task.gpus_max = min(counts), max(counts) if max(counts) > min(counts) else None
        task.gpu_ids, task.gpus_on = None, NO_MAPPING
        self._task_table.changed(task)


def _asks(task: Task) -> int:
    return max((need.amount for need in request_of(task).needs if need.resource == GPUS.name), default=0)
