"""The verb `subscribe`: a connection receives a snapshot of what there is, and from then on what changes."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from master.verbs.base import Context, Done, Nothing
from master.verbs.nodes import list_nodes
from master.verbs.task_list import ListTasks, Slices, TaskList, list_tasks
from master.views.nodes import NodeView
from wire.errors import BadRequestError
from wire.message import Message


class Subscribe(msgspec.Struct, forbid_unknown_fields=True):
    """subscribe: `ids` are the tasks to be told of; none means all. `snapshot`: `none` for an empty answer."""

    ids: list[int] | None = None
    snapshot: Literal["active", "none"] = "active"


class NodeList(msgspec.Struct, frozen=True):
    """All nodes, in the registry's order."""

    nodes: list[NodeView]


Subscribed: TypeAlias = TaskList | NodeList | Done


def subscribe(context: Context, params: Subscribe) -> Slices | NodeList | Done:
    """Be told from now on, on this connection, what changes: of tasks on the train-state port, of nodes on the monitor
    port. The answer is what there is now."""
    channel = context.channel
    if channel is None or channel.tells is None:
        raise BadRequestError(Message("other_port"))
    if channel.tells == "nodes":
        channel.begin(None, in_slices=False)
        return Done() if params.snapshot == "none" else NodeList(list_nodes(context, Nothing()))
    only = frozenset(params.ids) if params.ids is not None else None
    # Changes are told from before the snapshot is taken; those that come while it is made wait until it has been sent.
    channel.begin(only, in_slices=params.snapshot != "none")
    if params.snapshot == "none":
        return Done()
    return list_tasks(context, ListTasks(ids=None if only is None else sorted(only & context.core.tasks.keys())))
