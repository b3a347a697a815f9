"""What stands in the way of a request now, node by node: nodes of which the same is to be said are told
together, however many there are.

Pure. Whether a request could ever be met is the inventory's, what is done about it the scheduler's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from master.core.inventory import NAMES, Inventory, obstacle
from master.core.node import Node, NodeState
from master.core.request import Demand
from master.core.resources import RESOURCES, Free, FreeNode, Need, Numbers, Resource, Scope, rows_of
from wire.message import Message, ids, names
from wire.ranges import impersonal

TASKS = 3
"""How many tasks are named of those that hold the GPUs of a node."""
LINES = 10
"""How many different obstacles are told."""
NOTHING_KNOWN: Mapping[str, FreeNode] = MappingProxyType({})


class Obstacle(msgspec.Struct):
    """One obstacle and the nodes where it is met. `holders`: the tasks whose GPUs are in the way; `beside`: what else
    keeps GPUs back; `kind`: `what` as it is said of many, where it names the node's address."""

    nodes: list[str]
    what: Message
    holders: set[int]
    beside: tuple[Message, ...] = ()
    kind: Message | None = None

    def message(self) -> Message:
        """As it is told."""
        because = self.beside
        if self.holders:
            because = (Message("held_by", tasks=ids(self.holders, TASKS)), *because)
        where = names(self.nodes, NAMES)
        if because:
            return Message("obstacle_because", nodes=where, what=self.what, because=because)
        return Message("obstacle", nodes=where, what=self.what)


def unready(inventory: Inventory) -> list[Message]:
    """Why nodes take no tasks at all."""
    return _told([_state(node) for node in inventory.nodes.values() if not node.takes_tasks])


def obstacles(demand: Demand, inventory: Inventory, free: Mapping[str, FreeNode] = NOTHING_KNOWN) -> list[Message]:
    """What stands in the way of the demand now: of the cluster, else on the nodes that could ever take it. `free`:
    what is free on nodes, where somebody has looked."""
    request = demand.request
    need = Free(inventory.cluster, rows_of(Scope.CLUSTER)).lack(request.shared)
    if need is not None:
        return [Message("cluster_obstacle", what=RESOURCES[need.resource].told_short(inventory.cluster))]
    able = [node for node in inventory.nodes.values() if obstacle(node, request) is None]
    return _told([_obstacle(node, demand, free) for node in able])


def _told(found: list[Obstacle]) -> list[Message]:
    """One line for all nodes of which the same is to be said, the most frequent first where there are too many."""
    alike: dict[tuple[object, ...], Obstacle] = {}
    for one in found:
        kind = one.kind or one.what
        same = (kind.key, *kind.args.values(), one.beside)  # what makes messages equal, without asking them
        known = alike.get(same)
        if known is None:
            alike[same] = one
            continue
        if one.kind is not None and known.what != one.what:
            known.what = kind
        known.nodes += one.nodes
        known.holders |= one.holders
    lines = list(alike.values())
    if len(lines) <= LINES:
        return [one.message() for one in lines]
    lines.sort(key=lambda one: -len(one.nodes))
    rest = sum(len(one.nodes) for one in lines[LINES:])
    return [*(one.message() for one in lines[:LINES]), Message("more_obstacles", count=rest)]


def _obstacle(node: Node, demand: Demand, free: Mapping[str, FreeNode]) -> Obstacle:
    request = demand.request
    if not node.takes_tasks:
        return _state(node)
    if node.reserved is not None and not node.is_open_to(demand.owner):
        return Obstacle([node.name], node.reserved.why, set())
    if node.name in request.avoid:
        return Obstacle([node.name], Message("could_not_start_it"), set())
    need = (free.get(node.name) or FreeNode(node)).lack(request.needs)
    return Obstacle([node.name], Message("room"), set()) if need is None else _shortage(node, need)


def _state(node: Node) -> Obstacle:
    if node.state is NodeState.ONLINE:
        return Obstacle([node.name], Message("takes_no_tasks", why=node.why_not_open), set())
    if not node.reason:
        return Obstacle([node.name], Message("link", state=node.state), set())
    said, of_many = node.reason, impersonal(node.reason, node.spec.address)
    told = Message("link_because", state=node.state, said=said)
    return Obstacle([node.name], told, set(), kind=Message("link_because", state=node.state, said=of_many))


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
    beside = closed[:TASKS] or (() if holders else (Message("none_held"),))
    return Obstacle([node.name], row.told_short(node), set(holders.values()), beside)


def _taken(node: Node, need: Need, unit: str, numbers: Numbers) -> Obstacle:
    holders, there = numbers.holders(node), numbers.free(node)
    held = tuple(number for number in need.exact if number in holders)
    closed = _closed(
        node, [number for number in need.exact if number not in there and number not in holders], unit, numbers
    )
    if not held:
        return Obstacle([node.name], Message("pieces_closed", pieces=closed), set())
    what = Message("pieces_held", unit=unit, numbers=held)
    return Obstacle([node.name], what, {holders[number] for number in held}, closed)


def _closed(node: Node, pieces: list[int], unit: str, numbers: Numbers) -> tuple[Message, ...]:
    """What besides our tasks keeps pieces from being given out, pieces with the same reason together."""
    alike: dict[Message, list[int]] = {}
    for number in pieces:
        why = numbers.closed(node, number)
        if why is not None:
            alike.setdefault(why, []).append(number)
    return tuple(Message("closed", unit=unit, numbers=ids(which), why=why) for why, which in alike.items())
