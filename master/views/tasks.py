"""A task as a client sees it: all of it, with the reason worked out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec.structs import astuple

from master.core.core import Core
from master.core.nodes.inventory import NodeState
from master.core.nodes.node import Node
from master.core.tasks.gpu_use import GpuUse, HeldBy
from master.core.tasks.task import ENDED, Task, TaskPage, TaskState, TaskView
from master.views.messages import shown
from master.views.sight import Sight

MOST_HOLDERS = 4
"""So many of the tasks that are in the way are named."""
_WORKING = (TaskState.RUNNING, TaskState.PAUSED)
V = TypeVar("V", bound=TaskView)

_LAUNCH, _EARLIER = map(Task.__struct_fields__.index, ("former_launch", "earlier"))
"""Where a task, which has the fields of its view in the same order, has another in between, and the last ones begin. In
the place of `cancel_requested` stands `former_cancel`, which no task has that was read."""


def task_view(core: Core, task: Task, sight: Sight) -> TaskView:
    """The task as a client sees it."""
    return _told(core, task, as_filed(sight.veiled(task)), sight)


def task_page(core: Core, task: Task, sight: Sight) -> TaskPage:
    """All about the task, for who asks for it alone."""
    page = _filed(sight.veiled(task), TaskPage)
    if sight.knows(task.owner):
        page.attempts = sight.veiled(task).attempts
        page.expected_s = None if task.state in ENDED else core.learned.expected(task)
        if task.state in _WORKING:
            page.gpu_use = _gpu_use(task, core.inventory.nodes)
        page.holders, page.held_by = holders_seen(core, task, sight)
    return _told(core, task, page, sight)


def holders_seen(core: Core, task: Task, sight: Sight) -> tuple[int, list[HeldBy]]:
    """How many tasks have what one that waits lacks, of those of which the viewer may know what they are, and the
    first ones."""
    found = [one for number in core.holders_of(task) if sight.knows((one := core.tasks[number]).owner)]
    return len(found), [HeldBy(one.id, one.owner, one.name) for one in found[:MOST_HOLDERS]]


def _gpu_use(task: Task, nodes: Mapping[str, Node]) -> list[GpuUse]:
    """Of each GPU that the task holds on a node which is there."""
    found = []
    for part in task.allocation:
        node = nodes.get(part.node)
        if node is not None and node.state is NodeState.ONLINE:
            found += [_of_gpu(task, node, gpu) for gpu in part.gpus]
    return found


def _of_gpu(task: Task, node: Node, gpu: int) -> GpuUse:
    report = node.watch.newest.get(gpu)
    return GpuUse(
        node=node.name,
        gpu=gpu,
        used_mib=node.watch.used_by_tasks(gpu).get(task.id),
        memory_used_mib=report.memory_used_mib if report else None,
        memory_mib=node.gpu_memory_mib(gpu),
        utilization=report.utilization if report else None,
    )


def as_filed(task: Task) -> TaskView:
    """The task as clients see it, but for what is worked out: why it waits, what looks wrong, what is not written yet.
    Its lists are the task's own, not copies."""
    return _filed(task, TaskView)


def _filed(task: Task, make: Callable[..., V]) -> V:
    # By their places: a long list is made in a third of the time that it takes by their names, and in two thirds of
    # what it takes to read each value by its name and pass it by its place.
    has = astuple(task)
    seen = make(*has[:_LAUNCH], *has[_LAUNCH + 1 : _EARLIER])
    if task.asked_end is not None:
        seen.cancel_requested = task.cancel_requested
    return seen


def _told(core: Core, task: Task, seen: V, sight: Sight) -> V:
    if not sight.knows(task.owner):
        return seen
    waits = core.why_it_waits(task)
    if waits is not None:
        seen.reason, seen.reason_key, seen.reason_args = shown(sight.said(waits))
    seen.warning, seen.warning_key, seen.warning_args = shown(core.what_looks_wrong(task))
    seen.unsaved = task.id in core.unsaved
    return seen
