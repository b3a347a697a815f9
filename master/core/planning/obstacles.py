"""The obstacles of a request now, node by node: nodes of which the same is to be said are told together, however many
there are.

Pure. Whether a request could ever be met is the inventory's, what is done about it the scheduler's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from types import MappingProxyType

import msgspec
from msgspec.structs import force_setattr

from master.core.nodes.facts import NodeState
from master.core.nodes.inventory import NAMES, Inventory, obstacle
from master.core.nodes.node import Node
from master.core.nodes.resources import Free, FreeNode, Need, Numbers, Resource, row_of, rows_of_cluster
from master.core.planning.availability import Availability
from master.core.planning.free_nodes import FreeNodes
from master.core.tasks.request import Demand
from master.core.tasks.task import Task
from wire.message import Message, ids, names
from wire.ranges import impersonal

TASKS = 3
"""How many tasks are named of those that hold the GPUs of a node."""
LINES = 10
"""How many different obstacles are told."""
NOT_ITS_KIND = frozenset({"card_other_model", "card_too_small"})
"""Obstacles that no end of another task would change."""
NO_TASKS: Mapping[int, Task] = MappingProxyType({})
NOBODY: frozenset[int] = frozenset()


class Obstacle(msgspec.Struct, frozen=True):
    """An obstacle on a node. `holders`: the tasks whose GPUs are in the way, `users`: those that have some of what is
    short; `beside`: what else keeps GPUs back; `kind`: `what` as it is said of many, where it names the node's address;
    `alike`: what is the same for all of which the same is to be said."""

    node: str
    what: Message
    holders: frozenset[int] = NOBODY
    beside: tuple[Message, ...] = ()
    kind: Message | None = None
    users: frozenset[int] = NOBODY
    alike: tuple[object, ...] = ()

    def __post_init__(self) -> None:
        kind = self.kind or self.what
        force_setattr(self, "alike", (kind.key, *kind.args.values(), self.beside))  # what makes messages equal


def unready(inventory: Inventory) -> list[Message]:
    """Why nodes take no tasks at all."""
    return _told([_state(node) for node in inventory.nodes.values() if not node.takes_tasks])


def obstacles(
    demand: Demand,
    inventory: Inventory,
    free: FreeNodes | None = None,
    tasks: Mapping[int, Task] = NO_TASKS,
) -> list[Message]:
    """Return the obstacles of the demand now: of the cluster, else on the nodes that could ever take it. `free`: what
    is free on nodes, where somebody keeps that; `tasks`: by id, of which those are named that have what lacks."""
    need = _lacking(demand, inventory)
    if need is not None:
        return [_of_cluster(need, inventory, tasks)]
    if free is None:
        return _told(_on_nodes(demand, inventory, tasks))
    return _told(_on_nodes_as_kept(demand, inventory, free, tasks))


def in_the_way(demand: Demand, inventory: Inventory, tasks: Mapping[int, Task]) -> Collection[int]:
    """The tasks that have what lacks, all of them."""
    need = _lacking(demand, inventory)
    if need is not None:
        return _users((at for node in inventory.nodes.values() for at in node.active), need, tasks)
    return {at for one in _on_nodes(demand, inventory, tasks) for at in one.holders | one.users}


def _lacking(demand: Demand, inventory: Inventory) -> Need | None:
    return Free(inventory.cluster, rows_of_cluster(inventory.cluster)).lack(demand.request.shared)


def _of_cluster(need: Need, inventory: Inventory, tasks: Mapping[int, Task]) -> Message:
    what = row_of(need.resource).told_short(inventory.cluster)
    users = _users((at for node in inventory.nodes.values() for at in node.active), need, tasks)
    if not users:
        return Message("cluster_obstacle", what=what)
    return Message("cluster_obstacle_because", what=what, because=(Message("have_some", tasks=ids(users, TASKS)),))


def _on_nodes(demand: Demand, inventory: Inventory, tasks: Mapping[int, Task]) -> list[Obstacle]:
    able = [node for node in inventory.nodes.values() if obstacle(node, demand.request) is None]
    return [_obstacle(node, demand, tasks) for node in able]


def _on_nodes_as_kept(
    demand: Demand, inventory: Inventory, free: FreeNodes, tasks: Mapping[int, Task]
) -> list[Obstacle]:
    """The same, but a node is looked at only where it is not as it was when this request was asked for before.
    Obstacles on a node that is not open to all hold for one owner, and are not kept."""
    request, nodes = demand.request, inventory.nodes
    kept: dict[str, Obstacle | None] = free.answers_to(request)
    met = kept if demand.by_admin or demand.owner not in free.root_owners else {}
    for_him = []
    for name in nodes.keys() - met.keys():
        node = nodes[name]
        able = obstacle(node, request) is None
        met[name] = _obstacle(node, demand, tasks, free.free_on(name)) if able else None
        if not node.is_open_as_to_all(demand.owner, by_admin=demand.by_admin):
            for_him.append(name)
    found = [one for name in nodes if (one := met[name]) is not None]
    for name in for_him:
        del met[name]
    return found


def obstacles_within(
    demand: Demand, inventory: Inventory, available: Availability, tasks: Mapping[int, Task] = NO_TASKS
) -> list[Message]:
    """The same for a task within an allocation: on the nodes of that, of its GPUs and of all else there."""
    request = demand.request
    need = available.cluster.lack(request.shared)
    if need is not None:
        return [_of_cluster(need, inventory, tasks)]
    number = request.within or 0
    held, free, rest, found = inventory.leases(number), available.within(number), available.free.by_name(), []
    for name, lease in held.items():
        node = inventory.nodes[name]
        if name not in free or obstacle(node, request) is not None or not _is_open(node, demand):
            found.append(_obstacle(node, demand, tasks))
            continue
        lack = rest[name].lack(request.but_gpus.needs)
        if lack is not None:
            found.append(_shortage(node, lack, tasks))
            continue
        if free[name].lack(request.gpus_of(name)) is None:
            found.append(Obstacle(name, Message("room")))
            continue
        what = Message("allocation_free", id=number, free=len(lease.free_gpus), has=len(lease.gpus))
        found.append(Obstacle(name, what, _tasks_on(lease.gpu_holders.values())))
    return _told(found)


def _told(found: Iterable[Obstacle]) -> list[Message]:
    """One line for all nodes of which the same is to be said, the most frequent first where there are too many."""
    by_kind: dict[tuple[object, ...], list[Obstacle]] = {}
    for one in found:
        by_kind.setdefault(one.alike, []).append(one)
    lines = list(by_kind.values())
    if len(lines) <= LINES:
        return [_line(alike) for alike in lines]
    lines.sort(key=lambda alike: -len(alike))
    return [*map(_line, lines[:LINES]), Message("more_obstacles", count=sum(map(len, lines[LINES:])))]


def _line(alike: list[Obstacle]) -> Message:
    """Return the message for the nodes with the same obstacle, with everything that is in the way there."""
    first = alike[0]
    what, because = first.what, first.beside
    if first.kind is not None and any(one.what != what for one in alike):
        what = first.kind
    if users := NOBODY.union(*[one.users for one in alike]):
        because = (Message("have_some", tasks=ids(users, TASKS)), *because)
    if holders := NOBODY.union(*[one.holders for one in alike]):
        because = (Message("held_by", tasks=ids(holders, TASKS)), *because)
    where = names([one.node for one in alike], NAMES)
    if because:
        return Message("obstacle_because", nodes=where, what=what, because=because)
    return Message("obstacle", nodes=where, what=what)


def _is_open(node: Node, demand: Demand) -> bool:
    return node.is_open_to(demand.owner, by_admin=demand.by_admin)


def _obstacle(node: Node, demand: Demand, tasks: Mapping[int, Task], free: FreeNode | None = None) -> Obstacle:
    """`free`: what is free there, where somebody keeps that."""
    request = demand.request
    if not node.takes_tasks:
        return _state(node)
    if not node.is_open_as_to_all(demand.owner, by_admin=demand.by_admin):
        closed = node.why_not_open_to(demand.owner, by_admin=demand.by_admin)
        if closed is not None:
            return Obstacle(node.name, closed)
    if request.token and node.no_tokens is not None:
        return Obstacle(node.name, node.no_tokens)
    if node.name in request.avoid:
        return Obstacle(node.name, Message("could_not_start_it"))
    need = (FreeNode(node) if free is None else free).lack(request.needs_on(node.name))
    return Obstacle(node.name, Message("room")) if need is None else _shortage(node, need, tasks)


def _state(node: Node) -> Obstacle:
    if node.state is NodeState.ONLINE:
        return Obstacle(node.name, Message("takes_no_tasks", why=node.why_not_open))
    if not node.reason:
        return Obstacle(node.name, Message("link", state=node.state))
    said, of_many = node.reason, impersonal(node.reason, node.spec.address)
    told = Message("link_because", state=node.state, said=said)
    return Obstacle(node.name, told, kind=Message("link_because", state=node.state, said=of_many))


def _shortage(node: Node, need: Need, tasks: Mapping[int, Task]) -> Obstacle:
    row: Resource[Node] = row_of(need.resource)
    if row.numbers is None:
        return Obstacle(node.name, row.told_short(node), users=_users(node.active, need, tasks))
    if need.terms is not None:
        return _unsuited(node, need, row.unit, row.numbers)
    if need.exact:
        return _taken(node, need, row.unit, row.numbers)
    holders = row.numbers.holders(node)
    closed = _closed(
        node, [number for number in range(row.has(node) or 0) if number not in holders], row.unit, row.numbers
    )
    beside = closed[:TASKS] or (() if holders else (Message("none_held"),))
    return Obstacle(node.name, row.told_short(node), _tasks_on(holders.values()), beside)


def _unsuited(node: Node, need: Need, unit: str, numbers: Numbers) -> Obstacle:
    """Of the pieces that a task might be given there, what is wrong with each; of which the same is to be said,
    together."""
    terms = need.terms
    cards = [card for card in numbers.room(node).cards() if not need.exact or card.index in need.exact]
    alike: dict[Message, list[int]] = {}
    fitting = 0
    for card in cards:
        why = card.why_not(terms, node.rules) if terms is not None else None
        if why is None:
            fitting += 1
        elif why.key not in NOT_ITS_KIND:
            alike.setdefault(card.closed or why if why.key == "card_not_free" else why, []).append(card.index)
    told = tuple(Message("closed", unit=unit, numbers=ids(which), why=why) for why, which in alike.items())
    holders = numbers.holders(node)
    tasks = _tasks_on(holders.get(gpu, ()) for which in alike.values() for gpu in which)
    what = Message("suited", fitting=fitting, has=len(cards), unit=unit)
    return Obstacle(node.name, what, tasks, told[:TASKS])


def _taken(node: Node, need: Need, unit: str, numbers: Numbers) -> Obstacle:
    holders, there = numbers.holders(node), numbers.free(node)
    held = tuple(number for number in need.exact if number in holders)
    closed = _closed(
        node, [number for number in need.exact if number not in there and number not in holders], unit, numbers
    )
    if not held:
        return Obstacle(node.name, Message("pieces_closed", pieces=closed))
    what = Message("pieces_held", unit=unit, numbers=held)
    return Obstacle(node.name, what, _tasks_on(holders[number] for number in held), closed)


def _users(active: Iterable[int], need: Need, tasks: Mapping[int, Task]) -> frozenset[int]:
    """Those of these tasks that have some of what is needed, or may."""
    asked = row_of(need.resource).asked
    known = ((task_id, tasks.get(task_id)) for task_id in active)
    return frozenset(task_id for task_id, task in known if task is not None and asked(task))


def _tasks_on(holders: Iterable[Iterable[int]]) -> frozenset[int]:
    return frozenset(chain.from_iterable(holders))


def _closed(node: Node, pieces: list[int], unit: str, numbers: Numbers) -> tuple[Message, ...]:
    """Return the reasons besides our tasks that keep pieces from being given out, pieces with the same reason
    together."""
    alike: dict[Message, list[int]] = {}
    for number in pieces:
        why = numbers.closed(node, number)
        if why is not None:
            alike.setdefault(why, []).append(number)
    return tuple(Message("closed", unit=unit, numbers=ids(which), why=why) for why, which in alike.items())
