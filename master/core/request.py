"""What a task asks for, as the planner sees it: requests, and demands, which are requests of somebody's.

Pure. Tasks with equal demands are planned as one group, so planning costs what the number of different demands is, not
the number of tasks.
"""

from __future__ import annotations

from operator import attrgetter

import msgspec

from master.core.resources import RESOURCES, Need, Scope, needs_of
from master.core.task import Task
from wire.message import Message

KEPT = 10_000
"""So many requests are known by what their tasks say, before they are worked out anew."""


class Request(msgspec.Struct, frozen=True, cache_hash=True):
    """What a task asks for: of the node that it is put on, and of the cluster. `node`: of no other than this one.
    `avoid`: nodes that could not start the task; they are taken only where no other could take it."""

    needs: tuple[Need, ...]
    shared: tuple[Need, ...] = ()
    node: str | None = None
    avoid: tuple[str, ...] = ()

    def asks(self, resource: str) -> bool:
        """Does it ask a node for any of it?"""
        return any(need.resource == resource for need in self.needs)

    def describe(self) -> Message:
        """`2 GPUs on node a`, for people."""
        told = tuple(RESOURCES[need.resource].describe(need) for need in (*self.needs, *self.shared))
        what = Message("asked", what=told) if told else Message("nothing_asked")
        return Message("asked_on", what=what, node=self.node) if self.node else what


class Demand(msgspec.Struct, frozen=True, cache_hash=True):
    """What somebody asks for: a group of tasks that are alike to the planner."""

    owner: str
    request: Request


def demand_of(task: Task) -> Demand:
    """The group to which a task belongs."""
    return Demand(task.owner, request_of(task))


def request_of(task: Task) -> Request:
    """The part of a task that says where it fits. Those that say the same get the same object: it is found faster."""
    if task.unstarted:
        return _worked_out(task)
    said = _said_by(task)
    try:
        request = _known.get(said)
    except TypeError:  # it says a list: which pieces it wants
        return _worked_out(task)
    if request is None:
        if len(_known) >= KEPT:
            _known.clear()
        request = _known[said] = _worked_out(task)
    return request


_said_by = attrgetter("node", *sorted({field for row in RESOURCES.values() for field in row.fields}))
_known: dict[object, Request] = {}


def _worked_out(task: Task) -> Request:
    avoid = tuple(sorted(entry.node for entry in task.unstarted))
    return Request(needs_of(task, Scope.NODE), needs_of(task, Scope.CLUSTER), task.node, avoid)
