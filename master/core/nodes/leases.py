"""The share of an allocation on one node, as the tasks within it see that: some of the GPUs, as if there were no
others.

Pure. The node's own books have these GPUs as the allocation's, whole; which task within uses which is written down
here, by the same rules. Of everything that is no GPU, those tasks take what the node has for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from wire.message import Message

if TYPE_CHECKING:
    from master.config.settings import Scheduling
    from master.core.nodes.gpu_watch import GpuWatch
    from master.core.nodes.node import Node, NodeSpec

Booked: TypeAlias = dict[int, dict[int, int | None]]
"""Of each GPU that is held the tasks, and how many MiB each may use; None for all of it."""


def hold(holders: Booked, gpus: Sequence[int], task_id: int, mib: int | None, where: str) -> None:
    """Book GPUs, or `mib` of each. Raises ValueError, and has booked nothing, for one that is held already, unless both
    are shares."""
    for gpu in gpus:
        held = holders.get(gpu, {})
        if task_id in held or (held and (mib is None or None in held.values())):
            others = ", ".join(map(str, sorted(held)))
            raise ValueError(f"GPU {gpu} of {where} is held by task {others}, not free for {task_id}")
    for gpu in gpus:
        holders.setdefault(gpu, {})[task_id] = mib


class Lease:
    """Where GPUs are looked for, chosen and booked, it stands for its node. `gpus`: those that the allocation holds,
    none before it is granted; `gpu_holders`: the tasks within, by GPU."""

    __slots__ = ("_node", "gpu_holders", "gpus")

    def __init__(self, node: Node) -> None:
        self.gpus: tuple[int, ...] = ()
        self.gpu_holders: Booked = {}
        self._node = node

    @property
    def name(self) -> str:
        """Its node's."""
        return self._node.name

    @property
    def spec(self) -> NodeSpec:
        """Its node's."""
        return self._node.spec

    @property
    def rules(self) -> Scheduling:
        """Its node's."""
        return self._node.rules

    @property
    def watch(self) -> GpuWatch:
        """Its node's."""
        return self._node.watch

    @property
    def held(self) -> Counter[str]:
        """Return the resources without numbers that are held, which are the node's."""
        return self._node.held

    @property
    def free_gpus(self) -> list[int]:
        """Those that may be given out whole to a task within."""
        there = range(len(self._node.spec.gpu_models))
        return [gpu for gpu in self.gpus if gpu in there and gpu not in self.gpu_holders and not self.why_closed(gpu)]

    def why_closed(self, gpu: int) -> Message | None:
        """Why a GPU is not given out within although no task there holds it; None if it is."""
        return self._node.why_closed(gpu) if gpu in self.gpus else Message("gpu_of_no_lease")

    def gpu_memory_mib(self, gpu: int) -> int | None:
        """See `Node`."""
        return self._node.gpu_memory_mib(gpu)

    def hold_gpus(self, gpus: Sequence[int], task_id: int, mib: int | None = None) -> None:
        """See `Node`."""
        hold(self.gpu_holders, gpus, task_id, mib, self.name)

    def free_up_gpus(self, gpus: Sequence[int], task_id: int) -> None:
        """See `Node`."""
        self._node.let_go(self.gpu_holders, gpus, task_id)

    def __bool__(self) -> bool:
        return bool(self.gpus or self.gpu_holders)
