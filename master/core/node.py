"""One node: what the registry and its agent say of it, who may use it, and who holds what of it.

Pure: no I/O, no clock. What a task needs of it is told by the table of resources; choosing among nodes is the
scheduler's business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from master.core.gpu_watch import GpuWatch
from wire.message import Message

LEAVING = "leaving"
"""The cordon of a node that the registry has no more, while tasks run there."""


NOT_SCHEDULABLE = Message("not_schedulable")


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
    """What the agent said of the machine when it welcomed us. `login_fault`: why tasks there do not begin with what a
    log-in gives, "" where they do. `machine`: its own id, "" where it has none. `uid`: the agent's, and that of tasks
    unless it `can_run_as` their owners; None: not said. `account`: the name of that, "" if it was not said."""

    boot_id: str
    state_id: str
    cpus: int
    memory_mib: int
    hostname: str = ""
    python: str = ""
    version: str = ""
    login_fault: str = ""
    protocol: int = 1
    machine: str = ""
    uid: int | None = None
    account: str = ""
    can_run_as: bool = False

    @property
    def identity(self) -> str:
        """Which of the machines of one boot id it is: by its own id, else by its name, for containers share their
        kernel's boot id and often have no machine id."""
        return self.machine or self.hostname


class Reserved(msgspec.Struct, frozen=True):
    """That a node takes the tasks of some owners only, and why, to be said to others."""

    owners: frozenset[str]
    why: Message


class Node:
    """One node: its spec, what is known of it, and what is held on it. `held`: how much, of each resource that has no
    numbers."""

    __slots__ = (
        "active",
        "aside",
        "clock_offset",
        "cordons",
        "facts",
        "faulted",
        "free_gpus",
        "gpu_holder",
        "held",
        "kept_back",
        "load",
        "reason",
        "remnants",
        "reserved",
        "rests",
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
        self.held: Counter[str] = Counter()
        self.active: set[int] = set()
        self.cordons: dict[str, Message] = {}
        self.remnants: set[str] = set()
        self.reserved: Reserved | None = None
        self.load: list[float] | None = None
        self.clock_offset: float | None = None
        self.watch = GpuWatch()
        self.kept_back: dict[int, Message] = {}
        self.aside: dict[int, str] = {}
        self.faulted: dict[int, str] = {}
        self.rests = 0

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

    def is_open_to(self, owner: str) -> bool:
        """May tasks of this owner be started there, if any may?"""
        return self.reserved is None or owner in self.reserved.owners

    @property
    def closed_because(self) -> str | None:
        """Why it takes no tasks although it could be talked to, as a sentence; None if it takes some."""
        return "; ".join(map(str, self.why_not_open)) or None

    @property
    def why_not_open(self) -> tuple[Message, ...]:
        """Why it takes no tasks although it could be talked to; nothing if it takes some. `cordons` holds the reasons,
        by who gave them (`drained`, `leaving`, `folders` …)."""
        if self.cordons:
            return tuple(self.cordons.values())
        return () if self.spec.schedulable else (NOT_SCHEDULABLE,)

    def respec(self, spec: NodeSpec) -> None:
        """The registry says something else of it now. What is held stays held, also a GPU that it no longer has."""
        self.spec = spec
        self.count_free()

    def count_free(self) -> None:
        """Work out anew which GPUs may be given out: held by nobody, kept back for no reason (`kept_back`: what the
        last sample shows; `aside`: what is written down)."""
        count = range(len(self.spec.gpu_models))
        self.free_gpus = [gpu for gpu in count if gpu not in self.gpu_holder and self.why_closed(gpu) is None]

    def why_closed(self, gpu: int) -> Message | None:
        """Why a GPU is not given out although no task holds it; None if it is."""
        aside = self.aside.get(gpu)
        return Message("gpu_aside", said=aside) if aside else self.kept_back.get(gpu)

    def hold_gpus(self, gpus: Sequence[int], task_id: int) -> None:
        """Book GPUs. Raises ValueError for one that is held already: booking twice is a defect, never a state."""
        for gpu in gpus:
            if gpu in self.gpu_holder:
                raise ValueError(
                    f"GPU {gpu} of {self.name} is held by task {self.gpu_holder[gpu]}, not free for {task_id}"
                )
        for gpu in gpus:
            self.gpu_holder[gpu] = task_id
            if gpu in self.free_gpus:
                self.free_gpus.remove(gpu)

    def free_up_gpus(self, gpus: Sequence[int], task_id: int) -> None:
        """Undo `hold_gpus`; where samples tell of their memory, they are kept back until it is free."""
        for gpu in gpus:
            if self.gpu_holder.pop(gpu, None) is not None:
                self.watch.released(gpu, task_id)
        self.kept_back = {**self.kept_back, **self.watch.settling()}
        self.count_free()
