"""The request of a task, as the planner sees it: requests, and demands, which are requests of somebody's.

Pure. Tasks with equal demands are planned as one group, so planning costs what the number of different demands is, not
the number of tasks.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable
from operator import attrgetter
from typing import Any

import msgspec

from master.core.nodes.resources import GPUS, RESOURCES, Need, Scope, needs_of, row_of
from master.core.tasks.nothing import NO_LIST, NO_MAPPING
from master.core.tasks.task import Task
from wire.message import Message, names

KEPT = 10_000
"""So many requests are known by what their tasks say, before they are worked out anew."""


class Request(msgspec.Struct, frozen=True, cache_hash=True):
    """The request of a task: what it needs of the node that it is put on, and of the cluster. `nodes`: of so many at
    once. `only`: of no others than these, any if none is named; `gpus_on`: of these just these GPUs. `exclude`: of none
    of these; `avoid`: nodes that could not start the task; they are taken only where no other could take it. `token`:
    it is to get a token to submit others with. `within`: its GPUs are of this allocation."""

    needs: tuple[Need, ...]
    shared: tuple[Need, ...] = ()
    only: tuple[str, ...] = ()
    gpus_on: tuple[tuple[str, tuple[int, ...]], ...] = ()
    nodes: int = 1
    exclude: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    token: bool = False
    within: int | None = None

    @property
    def looks(self) -> bool:
        """Does it depend on what samples tell of GPUs: their kind, their memory, what others do on them?"""
        return any(need.terms is not None for need in self.needs)

    def asks(self, resource: str) -> bool:
        """Does it ask a node for any of it?"""
        return any(need.resource == resource for need in self.needs)

    def needs_on(self, node: str) -> tuple[Need, ...]:
        """Return its needs on this one node."""
        gpus = dict(self.gpus_on).get(node) if self.gpus_on else None
        if gpus is None:
            return self.needs
        return tuple(need._replace(exact=gpus) if need.resource == GPUS.name else need for need in self.needs)

    def on(self, node: str) -> Request:
        """The same as this one node sees it."""
        return msgspec.structs.replace(self, needs=self.needs_on(node), gpus_on=()) if self.gpus_on else self

    def gpus_of(self, node: str) -> tuple[Need, ...]:
        """Return its needs in GPUs on this one node."""
        return tuple(need for need in self.needs_on(node) if need.resource == GPUS.name)

    @property
    def but_gpus(self) -> Request:
        """Return the request without its GPUs."""
        needs = tuple(need for need in self.needs if need.resource != GPUS.name)
        return msgspec.structs.replace(self, needs=needs, gpus_on=(), within=None)

    @property
    def of_one_node(self) -> Request:
        """Return its needs on any node that it may be put on: two with the same needs fit on the same nodes."""
        return Request(self.needs, token=self.token)

    def describe(self) -> Message:
        """`2 GPUs on node a`, for people."""
        if self.gpus_on:
            each = (Message("asked_on", what=_told(self.needs_on(node)), node=node) for node, _ in self.gpus_on)
            return _told((), *each, *_each_told(self.shared))
        what = _told((*self.needs, *self.shared))
        if len(self.only) == self.nodes > 1:
            return Message("asked_on_each_of", what=what, nodes=names(self.only))
        if self.only and self.nodes > 1:
            return Message("asked_on_some_of", what=what, count=self.nodes, nodes=names(self.only))
        if self.nodes > 1:
            return Message("asked_on_each", what=what, nodes=self.nodes)
        if len(self.only) > 1:
            return Message("asked_on_one_of", what=what, nodes=names(self.only))
        return Message("asked_on", what=what, node=self.only[0]) if self.only else what


def _told(needs: Iterable[Need], *more: Message) -> Message:
    told = (*_each_told(needs), *more)
    return Message("asked", what=told) if told else Message("nothing_asked")


def _each_told(needs: Iterable[Need]) -> tuple[Message, ...]:
    return tuple(row_of(need.resource).describe(need) for need in needs)


class Demand(msgspec.Struct, frozen=True, cache_hash=True):
    """A request with its owner: a group of tasks that are alike to the planner. `project`: for whose quota they count,
    besides the owner's; `over_quota`: no quota holds for them; `array`: that of which they are; `is_allocation`: they
    hold GPUs under a name; `by_admin`: they count as an admin's."""

    owner: str
    request: Request
    project: str = ""
    over_quota: bool = False
    array: int = 0
    is_allocation: bool = False
    by_admin: bool = False


def demand_of(task: Task, projects: Container[str] | None = None, arrays: Container[int] | None = None) -> Demand:
    """The group to which a task belongs. `projects`, `arrays`: those that matter to where it belongs, all unless
    said."""
    project = task.project if projects is None or task.project in projects else ""
    array = 0 if task.array is None or (arrays is not None and task.array.id not in arrays) else task.array.id
    return Demand(task.owner, request_of(task), project, task.over_quota, array, task.is_allocation, task.by_admin)


def capped(request: Request, gpus: int) -> Request:
    """The request with at most so many GPUs on a node, where it takes what there is up to a number."""
    needs = tuple(
        need._replace(most=max(need.amount, min(need.most, gpus))) if need.resource == GPUS.name and need.most else need
        for need in request.needs
    )
    return msgspec.structs.replace(request, needs=needs)


def request_of(task: Task) -> Request:
    """The part of a task that says where it fits. Those that say the same get the same object: it is found faster."""
    if task.unstarted:
        return _worked_out(task)
    said = _said_by(task)
    # One by one: a getter of several names takes twice as long. The same object is equal without a look into it.
    lists = (task.gpu_ids, task.gpu_models, task.licences, task.exclude, task.node_list, task.gpus_on)
    if lists != _NO_LISTS and any(lists):
        said = (said, *map(_frozen, lists))
    request = _known.get(said)
    if request is None:
        if len(_known) >= KEPT:
            _known.clear()
        request = _known[said] = _worked_out(task)
    return request


_LISTS = ("gpu_ids", "gpu_models", "licences", "exclude", "node_list", "gpus_on")
_NO_LISTS = (None, NO_LIST, NO_MAPPING, NO_LIST, NO_LIST, NO_MAPPING)
_said_by = attrgetter(
    "node",
    "nodes",
    "token",
    "within",
    *sorted({field for row in RESOURCES.values() for field in row.fields} - {*_LISTS}),
)
_known: dict[object, Request] = {}


def _frozen(value: Any) -> Hashable:
    """The same, to be looked up by: lists, and what is said of names."""
    if isinstance(value, dict):
        return tuple((key, _frozen(one)) for key, one in value.items())
    return tuple(value) if isinstance(value, list) else value


def _worked_out(task: Task) -> Request:
    avoid = tuple(sorted(entry.node for entry in task.unstarted))
    exclude = tuple(sorted(task.exclude))
    needs, shared = needs_of(task, Scope.NODE), needs_of(task, Scope.CLUSTER)
    gpus_on = tuple((node, tuple(gpus)) for node, gpus in task.gpus_on.items())
    only = tuple(task.gpus_on) or tuple(task.node_list) or (() if task.node is None else (task.node,))
    return Request(needs, shared, only, gpus_on, task.nodes, exclude, avoid, bool(task.token), task.within)
