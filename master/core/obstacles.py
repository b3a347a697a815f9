"""What stands in the way of a request now, node by node, in words: nodes of which the same is to be said are told
together, however many there are.

Pure. Whether a request could ever be met is the inventory's, what is done about it the scheduler's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from master.core.inventory import Inventory, obstacle
from master.core.node import Node, NodeState
from master.core.request import Request
from master.core.resources import RESOURCES, Free, FreeNode, Need, Numbers, Resource, Scope, rows_of
from wire.ranges import ids_in_short, impersonal, names_in_short

NAMES = 6
"""How many names, or ranges of them, stand before one obstacle."""
TASKS = 3
"""How many tasks are named of those that hold the GPUs of a node."""
LINES = 10
"""How many different obstacles are told."""
NOTHING_KNOWN: Mapping[str, FreeNode] = MappingProxyType({})


class Obstacle(msgspec.Struct):
    """One obstacle and the nodes where it is met. `holders`: the tasks whose GPUs are in the way; `beside`: what else
    keeps GPUs back; `kind`: `what` as it is said of many, where it names the node's address."""

    nodes: list[str]
    what: str
    holders: set[int]
    beside: str = ""
    kind: str = ""

    def __str__(self) -> str:
        names = names_in_short(self.nodes, NAMES)
        return f"{names}: {self.what}{self._because()}"

    def _because(self) -> str:
        parts = ids_in_short(self.holders).split(", ") if self.holders else []
        some = f"task{'s' if len(self.holders) > 1 else ''} {', '.join(parts[:TASKS])}"
        tasks = some + ("…" if len(parts) > TASKS else "") if parts else ""
        told = "; ".join(filter(None, [tasks, self.beside]))
        return f" ({told})" if told else ""


def unready(inventory: Inventory) -> list[str]:
    """Why nodes take no tasks at all."""
    return _told([_state(node) for node in inventory.nodes.values() if not node.takes_tasks])


def obstacles(request: Request, inventory: Inventory, free: Mapping[str, FreeNode] = NOTHING_KNOWN) -> list[str]:
    """What stands in the way of the request now: of the cluster, else on the nodes that could ever take it. `free`:
    what is free on nodes, where somebody has looked."""
    need = Free(inventory.cluster, rows_of(Scope.CLUSTER)).lack(request.shared)
    if need is not None:
        return [f"the cluster: {RESOURCES[need.resource].told_short(inventory.cluster)}"]
    able = [node for node in inventory.nodes.values() if obstacle(node, request) is None]
    return _told([_obstacle(node, request, free) for node in able])


def _told(found: list[Obstacle]) -> list[str]:
    """One line for all nodes of which the same is to be said, the most frequent first where there are too many."""
    alike: dict[tuple[str, str], Obstacle] = {}
    for one in found:
        kind = one.kind or one.what
        known = alike.setdefault((kind, one.beside), Obstacle([], one.what, set(), one.beside))
        known.what = one.what if known.what == one.what else kind
        known.nodes += one.nodes
        known.holders |= one.holders
    lines = list(alike.values())
    if len(lines) <= LINES:
        return [str(one) for one in lines]
    lines.sort(key=lambda one: -len(one.nodes))
    rest = [name for one in lines[LINES:] for name in one.nodes]
    return [
        *(str(one) for one in lines[:LINES]),
        f"and on {len(rest)} more nodes for other reasons, see `muster nodes`",
    ]


def _obstacle(node: Node, request: Request, free: Mapping[str, FreeNode]) -> Obstacle:
    if not node.takes_tasks:
        return _state(node)
    if node.name in request.avoid:
        return Obstacle([node.name], "could not start it, and is tried again only where no other node could", set())
    need = (free.get(node.name) or FreeNode(node)).lack(request.needs)
    return Obstacle([node.name], "room", set()) if need is None else _shortage(node, need)


def _state(node: Node) -> Obstacle:
    if node.state is NodeState.ONLINE:
        return Obstacle([node.name], f"takes no tasks ({node.closed_because})", set())
    told = node.state + (f" ({node.reason})" if node.reason else "")
    return Obstacle([node.name], told, set(), kind=impersonal(told, node.spec.address))


def _shortage(node: Node, need: Need) -> Obstacle:
    row: Resource[Node] = RESOURCES[need.resource]
    if row.numbers is None:
        return Obstacle([node.name], row.told_short(node), set())
    if need.exact:
        return _taken(node, need, row.unit, row.numbers)
    holders = row.numbers.holders(node)
    closed = _closed(
        node, [number for number in range(row.has(node) or 0) if number not in holders], row.unit, row.numbers
    )
    beside = "; ".join(closed[:TASKS]) or ("" if holders else "none held")
    return Obstacle([node.name], row.told_short(node), set(holders.values()), beside)


def _taken(node: Node, need: Need, unit: str, numbers: Numbers) -> Obstacle:
    holders, there = numbers.holders(node), numbers.free(node)
    held = [number for number in need.exact if number in holders]
    closed = _closed(
        node, [number for number in need.exact if number not in there and number not in holders], unit, numbers
    )
    if not held:
        return Obstacle([node.name], ", ".join(closed), set())
    what = f"{unit} {', '.join(map(str, held))} held"
    return Obstacle([node.name], what, {holders[number] for number in held}, "; ".join(closed))


def _closed(node: Node, pieces: list[int], unit: str, numbers: Numbers) -> list[str]:
    """What besides our tasks keeps pieces from being given out, pieces with the same reason together."""
    alike: dict[str, list[int]] = {}
    for number in pieces:
        why = numbers.closed(node, number)
        if why:
            alike.setdefault(why, []).append(number)
    return [f"{unit}{'s' if len(which) > 1 else ''} {ids_in_short(which)}: {why}" for why, which in alike.items()]
