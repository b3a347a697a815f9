"""The nodes, what they have, and which task holds what: the ledger of allocations.

Pure: no I/O, no clock. It is told what the registry says, what agents reported and which tasks hold GPUs; it answers
what is free and whether a request could ever be met. Choosing among nodes is the scheduler's business.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from master.core.gpu_watch import GpuWatch
from master.core.task import Task

TOLD = 3
"""How many nodes a one-line reason names."""


class NodeState(StrEnum):
    """Whether the node can be talked to. Whether it may get tasks is `schedulable`, another matter."""

    CONNECTING = "connecting"
    ONLINE = "online"
    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the registry says of a node. `cpus` and `slots` are None where the registry leaves them to the node;
    `address` names the machine and the account there (`user@host:port`), empty for this one."""

    name: str
    address: str = ""
    gpu_models: tuple[str, ...] = ()
    gpu_memory_mib: tuple[int, ...] | None = None
    cpus: int | None = None
    slots: int | None = None
    schedulable: bool = True


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent said of the machine when it welcomed us."""

    boot_id: str
    state_id: str
    cpus: int
    memory_mib: int
    hostname: str = ""
    python: str = ""
    version: str = ""


class Request(msgspec.Struct, frozen=True):
    """What a task asks of a node. Tasks with equal requests are planned as one group, so planning costs what the
    number of different requests is, not the number of tasks."""

    gpus: int
    gpu_ids: tuple[int, ...] | None
    cpus: int | None
    node: str | None

    @property
    def takes_slot(self) -> bool:
        """A task with neither GPUs nor CPUs takes one of the node's slots; others are not counted against them."""
        return self.gpus == 0 and self.cpus is None

    def describe(self) -> str:
        """`2 GPUs on node a`, for people."""
        parts = []
        if self.gpu_ids is not None:
            parts.append(f"GPU {', '.join(map(str, self.gpu_ids))}")
        elif self.gpus:
            parts.append(f"{self.gpus} GPU{'s' if self.gpus > 1 else ''}")
        if self.cpus is not None:
            parts.append(f"{self.cpus} CPU{'s' if self.cpus > 1 else ''}")
        text = " and ".join(parts) or "a slot"
        return f"{text} on node {self.node}" if self.node else text


def request_of(task: Task) -> Request:
    """The part of a task that the planner looks at."""
    ids = tuple(task.gpu_ids) if task.gpu_ids is not None else None
    return Request(task.gpus, ids, task.cpus, task.node)


class Node:
    """One node: its spec, what is known of it, and what is held on it."""

    __slots__ = (
        "active",
        "aside",
        "clock_offset",
        "cordons",
        "cpus_held",
        "facts",
        "free_gpus",
        "gpu_holder",
        "kept_back",
        "load",
        "reason",
        "remnants",
        "slots_held",
        "spec",
        "state",
        "watch",
    )

    def __init__(self, spec: NodeSpec) -> None:
        self.spec = spec
        self.state = NodeState.CONNECTING
        self.reason: str | None = None
        self.facts: Facts | None = None
        self.gpu_holder: dict[int, int] = {}
        self.free_gpus: list[int] = list(range(len(spec.gpu_models)))
        self.slots_held = 0
        self.cpus_held = 0
        self.active: set[int] = set()
        self.cordons: dict[str, str] = {}
        self.remnants: set[str] = set()
        self.load: list[float] | None = None
        self.clock_offset: float | None = None
        self.watch = GpuWatch()
        self.kept_back: dict[int, str] = {}
        self.aside: dict[int, str] = {}

    @property
    def name(self) -> str:
        """Its name in the registry."""
        return self.spec.name

    @property
    def cpus(self) -> int:
        """Number of CPUs: the registry's word, else the machine's; 0 while neither is known."""
        return self.spec.cpus if self.spec.cpus is not None else (self.facts.cpus if self.facts else 0)

    @property
    def slots(self) -> int:
        """How many tasks without GPUs and CPUs may run at a time."""
        return self.spec.slots if self.spec.slots is not None else self.cpus

    @property
    def takes_tasks(self) -> bool:
        """May something be started there now?"""
        return self.state is NodeState.ONLINE and not self.cordons and self.spec.schedulable

    @property
    def closed_because(self) -> str | None:
        """Why it takes no tasks although it could be talked to; None if it takes some. `cordons` holds the reasons,
        by who gave them (`drained`, `leaving`, `folders` …)."""
        if self.cordons:
            return "; ".join(self.cordons.values())
        return None if self.spec.schedulable else "`schedulable` is false in the registry"

    def respec(self, spec: NodeSpec) -> None:
        """The registry says something else of it now. What is held stays held, also a GPU that it no longer has."""
        self.spec = spec
        self.count_free()

    def count_free(self) -> None:
        """Work out anew which GPUs may be given out: held by nobody, kept back for no reason (`kept_back`: what the
        last sample shows; `aside`: what is written down)."""
        count = range(len(self.spec.gpu_models))
        self.free_gpus = [gpu for gpu in count if gpu not in self.gpu_holder and self.why_closed(gpu) is None]

    def why_closed(self, gpu: int) -> str | None:
        """Why a GPU is not given out although no task holds it; None if it is."""
        return self.aside.get(gpu) or self.kept_back.get(gpu)

    def obstacle(self, request: Request) -> str | None:
        """Why this node could never take the request, even when empty; None if it could."""
        gpus = len(self.spec.gpu_models)
        if request.node is not None and request.node != self.name:
            return "another node is asked for"
        if request.gpu_ids is not None and any(gpu >= gpus for gpu in request.gpu_ids):
            return f"has no GPU {max(request.gpu_ids)} ({_range_of(gpus)})"
        if request.gpus > gpus:
            return f"has {gpus} GPU{'' if gpus == 1 else 's'}"
        cpus_known = self.spec.cpus is not None or self.facts is not None
        if request.cpus is not None and cpus_known and request.cpus > self.cpus:
            return f"has {self.cpus} CPUs"
        if request.takes_slot and self.spec.slots == 0:
            return "has no slots for tasks without GPUs"
        return None

    def take(self, task: Task, gpus: list[int]) -> None:
        """Book. Raises ValueError for a GPU that is held already: booking twice is a defect, never a state."""
        for gpu in gpus:
            if gpu in self.gpu_holder:
                raise ValueError(
                    f"GPU {gpu} of {self.name} is held by task {self.gpu_holder[gpu]}, not free for {task.id}"
                )
        for gpu in gpus:
            self.gpu_holder[gpu] = task.id
            if gpu in self.free_gpus:
                self.free_gpus.remove(gpu)
        request = request_of(task)
        self.slots_held += request.takes_slot
        self.cpus_held += request.cpus or 0
        self.active.add(task.id)

    def give_back(self, task: Task, gpus: list[int]) -> None:
        """Undo `take`."""
        for gpu in gpus:
            if self.gpu_holder.pop(gpu, None) is not None and not task.share:
                self.watch.released(gpu, task.id)
        self.kept_back = {**self.kept_back, **self.watch.settling()}
        self.count_free()
        request = request_of(task)
        self.slots_held -= request.takes_slot
        self.cpus_held -= request.cpus or 0
        self.active.discard(task.id)


def _range_of(gpus: int) -> str:
    return f"only 0 to {gpus - 1}" if gpus else "it has none"


class Inventory:
    """All nodes, by name, in the registry's order."""

    def __init__(self, specs: tuple[NodeSpec, ...] = ()) -> None:
        self.nodes: dict[str, Node] = {spec.name: Node(spec) for spec in specs}

    def node_for_ledger(self, name: str) -> Node:
        """The node of an allocation. One that left the registry while it was busy is kept, without taking tasks."""
        node = self.nodes.get(name)
        if node is None:
            node = self.nodes[name] = Node(NodeSpec(name=name))
            node.state = NodeState.UNREACHABLE
            node.reason = "not in the registry any more: add it again, or give its tasks up with `muster node lost`"
            node.cordons["leaving"] = "it left the registry while tasks ran there"
        return node

    def take(self, task: Task) -> None:
        """Book everything in the task's allocation."""
        for part in task.allocation:
            self.node_for_ledger(part.node).take(task, part.gpus)

    def give_back(self, task: Task) -> None:
        """Give back everything in the task's allocation."""
        for part in task.allocation:
            self.node_for_ledger(part.node).give_back(task, part.gpus)

    def why_never(self, request: Request) -> str | None:
        """Why no node could ever meet the request; None if one could."""
        obstacles = []
        for node in self.nodes.values():
            obstacle = node.obstacle(request)
            if obstacle is None:
                return None
            obstacles.append((node.name, obstacle))
        if request.node is not None and request.node not in self.nodes:
            known = ", ".join(self.nodes) or "none"
            return f"there is no node {request.node!r} (nodes: {known})"
        if not obstacles:
            return "the registry has no nodes: add one with `muster node add`"
        told = [f"node {name} {text}" for name, text in obstacles if text != "another node is asked for"]
        more = f" and {len(told) - TOLD} more" if len(told) > TOLD else ""
        return f"it asks for {request.describe()}, but {', '.join(told[:TOLD])}{more}"
