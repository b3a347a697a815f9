"""The ledger of what is held: the nodes by name, and the cluster as a whole.

Pure: no I/O, no clock. It is told what the registry says and which tasks hold what; it answers whether a request could
ever be met. What a node is stands in `node`, what there is to ask for in the table of resources; choosing among nodes
is the scheduler's business.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from master.core.node import LEAVING, Facts, Node, NodeSpec, NodeState
from master.core.request import Request, request_of
from master.core.resources import RESOURCES, Cluster, Need, give_back, take
from master.core.task import Task
from wire.message import NONE, Message, names

__all__ = [
    "ANOTHER", "LEAVING", "NAMES", "TOLD", "Facts", "Inventory", "Node", "NodeSpec", "NodeState", "Request", "obstacle",
    "request_of",
]  # fmt: skip

ANOTHER = Message("another_node")
NAMES = 6
"""How many names, or ranges of them, stand before one obstacle."""
TOLD = 3
"""How many nodes a one-line reason names."""


def obstacle(node: Node, request: Request) -> Message | None:
    """Why a node could never take the request, even when empty, to be said of `nodes`; None if it could."""
    if request.node is not None and request.node != node.name:
        return ANOTHER
    if LEAVING in node.cordons:
        return Message("is_leaving")
    return _beyond(request.needs, node)


def _beyond(needs: tuple[Need, ...], place: Node | Cluster) -> Message | None:
    for need in needs:
        why = RESOURCES[need.resource].why_never(need, place)
        if why is not None:
            return why
    return None


class Inventory:
    """All nodes, by name, in the registry's order; `has`: how much the cluster has of what is counted for all of
    them together."""

    def __init__(self, specs: tuple[NodeSpec, ...] = (), has: Mapping[str, int] = MappingProxyType({})) -> None:
        self.nodes: dict[str, Node] = {spec.name: Node(spec) for spec in specs}
        self.cluster = Cluster(has)

    def node_for_ledger(self, name: str) -> Node:
        """The node of an allocation. One that left the registry while it was busy is kept, without taking tasks."""
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(NodeSpec(name=name))
            node.state = NodeState.UNREACHABLE
            node.reason = str(Message("not_registered"))
            node.cordons[LEAVING] = Message("left")
        return node

    def take(self, task: Task) -> None:
        """Book everything that the task holds: on the nodes of its allocation, and of the cluster."""
        request = request_of(task)
        for part in task.allocation:
            node = self.node_for_ledger(part.node)
            take(node, request.needs, task, part)
            node.active.add(task.id)
        take(self.cluster, request.shared, task)

    def give_back(self, task: Task) -> None:
        """Undo `take`."""
        request = request_of(task)
        for part in task.allocation:
            node = self.node_for_ledger(part.node)
            give_back(node, request.needs, task, part)
            node.active.discard(task.id)
        give_back(self.cluster, request.shared, task)

    def why_never(self, request: Request) -> Message | None:
        """Why the request could never be met; None if it could."""
        beyond = _beyond(request.shared, self.cluster) if request.shared else None
        if beyond is not None:
            return Message("asks_beyond", request=request.describe(), beyond=(beyond.of(NONE),), more=0)
        alike: dict[Message, list[str]] = {}
        for node in self.nodes.values():
            why = obstacle(node, request)
            if why is None:
                return None
            alike.setdefault(why, []).append(node.name)
        if request.node is not None and request.node not in self.nodes:
            return _no_such_node(request.node, list(self.nodes))
        if not alike:
            return Message("no_nodes")
        told = [why.of(names(nodes, NAMES)) for why, nodes in alike.items() if why is not ANOTHER]
        more = max(0, len(told) - TOLD)
        return Message("asks_beyond", request=request.describe(), beyond=tuple(told[:TOLD]), more=more)


def _no_such_node(wrong: str, known: list[str]) -> Message:
    close = difflib.get_close_matches(wrong, known, 1)
    told = names(known, NAMES)
    if close:
        return Message("no_such_node_but", node=wrong, meant=close[0], nodes=told)
    return Message("no_such_node", node=wrong, nodes=told)
