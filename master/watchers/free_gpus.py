"""Which GPUs have fallen free since that was told last, as somebody sees who looks at the nodes now and then.

Pure. A GPU has fallen free when it was taken and now is free for anybody. While nobody can say how it is (its node is
away, no sample has told of it yet) it is as it was: a connection that breaks, or a start of the master, frees nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from master.core.nodes.gpu_watch import RETURNED, UNSEEN
from master.core.nodes.node import Node
from master.core.nodes.notes import DRAINED, SICK, STOPPED

EVERY_S = 10.0
"""GPUs that fall free within so many seconds are told together."""
SET_BY_PEOPLE = (DRAINED, STOPPED, SICK)
"""Cordons that stay until somebody takes them away; the others pass, mostly soon."""
NONE: frozenset[int] = frozenset()


def free_and_taken(node: Node, kept: Collection[int] = ()) -> tuple[frozenset[int], frozenset[int]]:
    """The GPUs of a node that are free for anybody, and those that are not; those of neither nobody knows. `kept`: for
    whoever waits with a reservation there."""
    every = frozenset(range(len(node.spec.gpu_models)))
    if node.restriction is not None or not node.spec.schedulable or any(one in node.cordons for one in SET_BY_PEOPLE):
        return NONE, every
    if not node.takes_tasks:
        return NONE, every & node.gpu_holders.keys()
    free = frozenset(node.free_gpus).difference(kept)
    unseen = {gpu for gpu, why in node.kept_back.items() if why in (UNSEEN, RETURNED)}
    return free, every - free - (unseen - node.gpu_holders.keys())


class FreeGpus:
    """Remembers how the GPUs were, and what has not been told. Times are seconds of a clock that is never set."""

    def __init__(self) -> None:
        self._free: dict[str, frozenset[int]] = {}
        self._taken: dict[str, frozenset[int]] = {}
        self._untold: dict[str, frozenset[int]] = {}
        self._told_at: float | None = None

    def seen(self, node: str, free: frozenset[int], taken: frozenset[int]) -> None:
        """A node is so now. GPUs that are taken again before they were told are not told."""
        before = self._taken.get(node, NONE)
        self._free[node] = free
        self._taken[node] = (before - free) | taken
        self._untold[node] = (self._untold.get(node, NONE) | (before & free)) - taken

    def took(self, node: str, gpus: Collection[int]) -> None:
        """Tasks hold these just now, be it only until the next look."""
        if gpus:
            self._taken[node] = self._taken.get(node, NONE).union(gpus)

    def gone(self, node: str) -> None:
        """There is no such node any more."""
        for known in (self._free, self._taken, self._untold):
            known.pop(node, None)

    @property
    def due_at(self) -> float | None:
        """From when on there is something to tell; None if there is nothing."""
        if not any(self._news(node) for node in self._untold):
            return None
        return 0.0 if self._told_at is None else self._told_at + EVERY_S

    def tell(self, now: float) -> Mapping[str, list[int]]:
        """By node what has fallen free, told with this; nothing before it is due."""
        due_at = self.due_at
        if due_at is None or now < due_at:
            return {}
        self._told_at = now
        told = {node: sorted(news) for node in self._untold if (news := self._news(node))}
        for node, gpus in told.items():
            self._untold[node] -= frozenset(gpus)
        return told

    @property
    def count(self) -> int:
        """How many GPUs are free for anybody, of all nodes."""
        return sum(map(len, self._free.values()))

    def _news(self, node: str) -> frozenset[int]:
        return self._untold[node] & self._free[node]
