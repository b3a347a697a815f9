"""Which waiting task goes where, now. Pure: backlog and inventory in, placements out.

First come, first served within urgency and priority, and a task that does not fit never stands in the way of one that
does. Among the nodes where a request fits, the fullest one is taken, so that whole nodes stay free for large tasks
(best fit); tasks without GPUs go where the most slots are free.
"""

from __future__ import annotations

import heapq

import msgspec

from master.core.backlog import Backlog
from master.core.inventory import TOLD, Inventory, Node, NodeState, Request
from master.core.task import Allocation


class Placement(msgspec.Struct, frozen=True):
    """The decision to start a task."""

    task_id: int
    node: str
    gpus: list[int]


class Room:
    """What would be free after the placements made so far in this round."""

    def __init__(self, inventory: Inventory) -> None:
        self.nodes = {name: _Free(node) for name, node in inventory.nodes.items() if node.takes_tasks}

    def place(self, request: Request) -> Allocation | None:
        """Choose a node and book it in this room; None if the request fits nowhere."""
        if request.node is not None:
            one = self.nodes.get(request.node)
            best = one if one is not None and one.fits(request) else None
        else:
            fitting = (free for free in self.nodes.values() if free.fits(request))
            best = min(fitting, key=lambda free: free.rank(request), default=None)
        return best.book(request) if best else None


class _Free:
    __slots__ = ("cpus", "gpus", "name", "slots", "total")

    def __init__(self, node: Node) -> None:
        self.name = node.name
        self.gpus = list(node.free_gpus)
        self.slots = node.slots - node.slots_held
        self.cpus = node.cpus - node.cpus_held
        self.total = len(node.spec.gpu_models)

    def fits(self, request: Request) -> bool:
        if request.takes_slot:
            return self.slots > 0
        if request.cpus is not None and request.cpus > self.cpus:
            return False
        if request.gpu_ids is not None:
            return all(gpu in self.gpus for gpu in request.gpu_ids)
        return request.gpus <= len(self.gpus)

    def rank(self, request: Request) -> tuple[int, int]:
        return (len(self.gpus), -self.cpus) if request.gpus else (-self.slots, self.total)

    def book(self, request: Request) -> Allocation:
        chosen = list(request.gpu_ids) if request.gpu_ids is not None else self.gpus[: request.gpus]
        self.gpus = [gpu for gpu in self.gpus if gpu not in chosen]
        self.slots -= request.takes_slot
        self.cpus -= request.cpus or 0
        return Allocation(self.name, chosen)


def plan(backlog: Backlog, inventory: Inventory) -> list[Placement]:
    """Take every task out of the backlog that can start now, in the order of the queue."""
    heads = list(backlog.groups())
    if not heads:
        return []  # the usual case: something ended, and nobody waits
    room = Room(inventory)
    if not room.nodes:
        return []
    heapq.heapify(heads)
    placements = []
    while heads:
        _, request = heads[0]
        allocation = room.place(request)
        if allocation is None:
            heapq.heappop(heads)
            continue
        placements.append(Placement(backlog.take(request), allocation.node, allocation.gpus))
        following = backlog.first(request)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (following, request))
    return placements


def explain(request: Request, inventory: Inventory) -> str:
    """Why a task with this request cannot start now, in one line."""
    never = inventory.why_never(request)
    if never is not None:
        return f"can never start: {never}"
    room = Room(inventory)
    if not room.nodes:
        return "no node is ready: " + "; ".join(_node_state(node) for node in list(inventory.nodes.values())[:TOLD])
    if room.place(request) is not None:
        return "next: the planner is about to start it"
    return f"needs {request.describe()}: " + "; ".join(details(request, inventory)[:2])


def details(request: Request, inventory: Inventory) -> list[str]:
    """For each node that could ever take the request, what stands in the way there now."""
    lines = []
    for node in inventory.nodes.values():
        if node.obstacle(request) is not None:
            continue
        lines.append(_node_state(node) if not node.takes_tasks else f"{node.name}: {_shortage(node, request)}")
    return lines


def _node_state(node: Node) -> str:
    if node.state is NodeState.ONLINE:
        return f"{node.name}: takes no tasks ({node.closed_because})"
    return f"{node.name}: {node.state}" + (f" ({node.reason})" if node.reason else "")


def _shortage(node: Node, request: Request) -> str:
    if request.takes_slot:
        return f"{node.slots_held} of {node.slots} slots taken"
    if request.gpu_ids is not None and (taken := [gpu for gpu in request.gpu_ids if gpu not in node.free_gpus]):
        return ", ".join(_taken(node, gpu) for gpu in taken)
    if request.gpus > len(node.free_gpus):
        return f"{len(node.free_gpus)} of {len(node.spec.gpu_models)} GPUs free ({_takers(node)})"
    if request.cpus is not None and node.cpus_held + request.cpus > node.cpus:
        return f"{node.cpus - node.cpus_held} of {node.cpus} CPUs free"
    return "room"


def _taken(node: Node, gpu: int) -> str:
    holder = node.gpu_holder.get(gpu)
    return f"GPU {gpu} held by task {holder}" if holder is not None else f"GPU {gpu}: {node.why_closed(gpu)}"


def _takers(node: Node) -> str:
    """Who has the GPUs of a node: our tasks by id, and what else keeps one from being given out."""
    holders = sorted(set(node.gpu_holder.values()))
    tasks = f"tasks {', '.join(map(str, holders[:TOLD]))}{'…' if len(holders) > TOLD else ''}" if holders else ""
    closed = [gpu for gpu in range(len(node.spec.gpu_models)) if gpu not in node.gpu_holder and node.why_closed(gpu)]
    others = [f"GPU {gpu}: {node.why_closed(gpu)}" for gpu in closed[:TOLD]]
    return "; ".join(filter(None, [tasks, *others])) or "none held"
