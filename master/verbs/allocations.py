"""The verbs about allocations: to ask for one, which there are, to give one back."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from master.core.planning.allocations import ends_at
from master.core.tasks.attempt import Place
from master.core.tasks.task import ACTIVE, Task, TaskState
from master.verbs.allocation_spec import AllocationSpec, allocation_of
from master.verbs.base import Context, Nothing
from master.verbs.priority_rights import check_wish
from master.verbs.projects import check_project
from master.verbs.submit import Submitted, owner_of
from master.verbs.tasks import OneTask


class NewAllocation(AllocationSpec, kw_only=True, forbid_unknown_fields=True):
    """alloc.new: GPUs to hold under a `name` that no other allocation has. It queues like a task, of which it has the
    id, and is held once it is `running`, until it is released or `time_limit_s` is over. `request_id` and `as` as for
    a task."""

    as_user: str | None = msgspec.field(default=None, name="as")
    request_id: str | None = None


class Release(OneTask, forbid_unknown_fields=True):
    """alloc.release: `id` is that of the task which holds it. While tasks are within it is refused; with `wait` it is
    released once the last of them has ended, and takes no others from now on."""

    wait: bool = False


class Grow(OneTask, forbid_unknown_fields=True):
    """alloc.grow: `gpus` more on each of its nodes. Only free GPUs are given, at once, and only if no waiting task
    could use them."""

    gpus: Annotated[int, Meta(ge=1, le=4096)] = 1


class Shrink(OneTask, forbid_unknown_fields=True):
    """alloc.shrink: `gpus` less on each of its nodes. Those that tasks within use are not taken from them."""

    gpus: Annotated[int, Meta(ge=1, le=4096)] = 1


class Allocated(msgspec.Struct, frozen=True):
    """An allocation that is not over. `id`: that of the task which holds it, `running` once it does, `waiting` or
    `held` before; `reason`: why it is not granted yet, and the same for programs. `held`: which GPUs it has, by
    node; `free`: those that no task within uses. `tasks`: ids of those that run, `waiting` of those that are to.
    `since` and `ends_at`: seconds since the epoch, null: not yet; never. `is_ending`: it takes no more tasks."""

    id: int
    name: str
    owner: str
    project: str
    state: TaskState
    gpus: int
    nodes: int
    held: list[Place]
    free: list[Place]
    tasks: list[int]
    waiting: list[int]
    since: float | None
    ends_at: float | None
    is_ending: bool
    reason: str | None
    reason_key: str | None
    reason_args: dict[str, Any] | None


def new(context: Context, params: NewAllocation) -> Submitted:
    """Ask for GPUs to hold."""
    draft = allocation_of(params, context)
    draft.owner = owner_of(context, params.as_user)
    check_wish(context, draft)
    check_project(context, draft)
    return context.change(lambda: Submitted(context.core.submit([draft], context.now, context.past)[0].id))


def list_allocations(context: Context, _params: Nothing) -> list[Allocated]:
    """The allocations that are not over, the oldest first; of others' those that the caller may know of."""
    return [_view(context, task) for task in context.core.allocations.all() if context.sight.knows(task.owner)]


def release(context: Context, params: Release) -> Allocated:
    """Give an allocation back."""
    core = context.core
    task = core.allocations.find(params.id)

    def change() -> Allocated:
        core.release_allocation(task.id, context.user, context.now, wait=params.wait)
        return _view(context, task)

    return context.change(change, grows=False)


def grow(context: Context, params: Grow) -> Allocated:
    """Have an allocation hold more GPUs, if they are free and nobody waits for them."""
    core = context.core
    check_project(context, core.allocations.find(params.id))
    return context.change(lambda: _view(context, core.grow_allocation(params.id, params.gpus)))


def shrink(context: Context, params: Shrink) -> Allocated:
    """Give some GPUs of an allocation back that no task within uses."""
    core = context.core
    return context.change(lambda: _view(context, core.shrink_allocation(params.id, params.gpus)), grows=False)


def _view(context: Context, task: Task) -> Allocated:
    core, seen = context.core, context.view(task)
    leases = core.inventory.leases(task.id)
    within = core.allocations.tasks_in(task.id)
    return Allocated(
        id=task.id,
        name=task.name,
        owner=task.owner,
        project=task.project,
        state=task.state,
        gpus=task.gpus,
        nodes=task.nodes,
        held=[Place(name, list(lease.gpus)) for name, lease in leases.items()],
        free=[
            Place(name, [gpu for gpu in lease.gpus if gpu not in lease.gpu_holders]) for name, lease in leases.items()
        ],
        tasks=[one.id for one in within if one.state in ACTIVE],
        waiting=[one.id for one in within if one.state not in ACTIVE],
        since=task.started_at if task.state in ACTIVE else None,
        ends_at=ends_at(task),
        is_ending=task.asked_end is not None,
        reason=seen.reason,
        reason_key=seen.reason_key,
        reason_args=seen.reason_args,
    )
