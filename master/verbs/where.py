"""On which nodes a task may run, as a submit or an edit says it: by one name, by a list, or with exact GPUs on each."""

from __future__ import annotations

from typing import Any

from master.core.nodes.inventory import Inventory
from master.core.tasks.task import Task, Terms
from wire.errors import BadRequestError
from wire.message import Message

WHICH = ("node", "node_list", "gpus_on")
"""The fields of which one says where the task runs; a new value of one replaces all."""
_BESIDE = frozenset({*WHICH, "nodes", "exclude"})
_NOT_BESIDE_GPUS_ON = ("node", "node_list", "gpu_ids", "gpus_max")


def check_where(spec: Terms, inventory: Inventory) -> None:
    """Refuse what contradicts itself, or names a node that is not there. Raises BadRequestError naming the field."""
    if spec.node is not None and spec.node_list:
        raise BadRequestError(Message("node_said_twice", node=spec.node))
    if spec.gpus_on:
        _check_gpus_on(spec)
    elif spec.node is not None and (spec.nodes or 1) > 1:
        raise BadRequestError(Message("nodes_and_node", nodes=spec.nodes, node=spec.node))
    elif spec.node_list and (spec.nodes or 1) > len(spec.node_list):
        raise BadRequestError(Message("too_few_named", nodes=spec.nodes, named=len(spec.node_list)))
    named = [*spec.node_list, *spec.gpus_on]
    for at, name in enumerate(named):
        if name in named[:at]:
            raise BadRequestError(Message("named_twice", node=name))
        if name in spec.exclude:
            raise BadRequestError(Message("named_and_excluded", node=name))
        if name not in inventory.nodes:
            raise BadRequestError(inventory.no_such_node(name))


def _check_gpus_on(spec: Terms) -> None:
    for field in _NOT_BESIDE_GPUS_ON:
        if getattr(spec, field):
            raise BadRequestError(Message("beside_gpus_on", field=field))
    first = next(iter(spec.gpus_on))
    count = len(spec.gpus_on[first])
    for node, gpus in spec.gpus_on.items():
        if len(set(gpus)) < len(gpus):
            raise BadRequestError(Message("bad_gpus_on", node=node, gpus=tuple(gpus)))
        if len(gpus) != count:
            raise BadRequestError(Message("uneven_gpus_on", node=first, count=count, other=node, others=len(gpus)))
    if spec.gpus not in (None, count):
        raise BadRequestError(Message("gpus_and_gpus_on", gpus=spec.gpus, named=count))
    if spec.nodes not in (None, len(spec.gpus_on)):
        raise BadRequestError(Message("nodes_and_gpus_on", nodes=spec.nodes, named=len(spec.gpus_on)))


def where_so_far(task: Task, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the task's fields about where it runs if an edit changes some of them: together they have to make
    sense."""
    if _BESIDE.isdisjoint(changes):
        return {}
    said: dict[str, Any] = {"exclude": task.exclude}
    if changes.keys().isdisjoint(WHICH):
        said |= {field: getattr(task, field) for field in WHICH}
    if task.nodes > 1 and not (changes.get("gpus_on") or said.get("gpus_on")):
        said["nodes"] = task.nodes
    return said
