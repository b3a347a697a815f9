"""Rules by which tasks could be packed onto GPUs, as the literature has them: what the planner's own is compared with.

Pure, and a cluster of their own: a node is what is left there, a rule gives a number for what would be left behind a
task, and the least is taken, of equals the first node. Shares of a GPU, and what is left of one, are in thousandths.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import NamedTuple

GPU = 1000
"""The whole of a GPU."""


class Ask(NamedTuple):
    """A task's request to one node: a number of GPUs, and a share of each (less than the whole only of a single
    GPU)."""

    cpu: int
    memory: int
    gpus: int
    share: int
    models: tuple[str, ...] = ()

    @property
    def gpu_total(self) -> int:
        """Return the share that it gets of all its GPUs together."""
        return self.gpus * self.share


class Left(NamedTuple):
    """The free resources of a node; of its GPUs, which are all of a model, the smallest rest first."""

    cpu: int
    memory: int
    gpus: tuple[int, ...]
    model: str = ""


Rule = Callable[[Left, Left], float]
"""How bad it is that the second is left of the first."""


def choices(left: Left, ask: Ask) -> list[Left]:
    """Return the possible rests of a node after a task, by which GPU it gets; the tightest comes first."""
    if left.cpu < ask.cpu or left.memory < ask.memory or (ask.models and left.model not in ask.models):
        return []
    cpu, memory, gpus = left.cpu - ask.cpu, left.memory - ask.memory, left.gpus
    if not ask.gpus:
        return [Left(cpu, memory, gpus, left.model)]
    if ask.share == GPU:
        rest = len(gpus) - ask.gpus
        fits = gpus.count(GPU) >= ask.gpus
        return [Left(cpu, memory, (0,) * ask.gpus + gpus[:rest], left.model)] if fits else []
    found = []
    for rest in sorted({rest for rest in gpus if rest >= ask.share}):
        at = gpus.index(rest)
        after = tuple(sorted((*gpus[:at], rest - ask.share, *gpus[at + 1 :])))
        found.append(Left(cpu, memory, after, left.model))
    return found


def first_fit(_before: Left, _after: Left) -> float:
    """The first node where it fits."""
    return 0.0


def best_fit(nodes: Iterable[Left]) -> Rule:
    """The node with the least left, of CPUs, memory and GPUs together, each as a part of the most that a node has."""
    everywhere = list(nodes)
    cpu, memory = (max(column) for column in zip(*((one.cpu, one.memory) for one in everywhere), strict=True))
    gpus = max(sum(one.gpus) for one in everywhere)

    def rule(_before: Left, after: Left) -> float:
        return float(after.cpu / cpu + after.memory / memory + sum(after.gpus) / gpus)

    return rule


def best_fit_by_gpus(nodes: Iterable[Left]) -> Rule:
    """The node with the least left of GPUs, and of equals the one with the fewest CPUs left."""
    cpu = max(one.cpu for one in nodes) + 1
    return lambda _before, after: sum(after.gpus) + after.cpu / cpu


def fragmentation(asked: Iterable[Ask]) -> Rule:
    """Fragmentation gradient descent (Weng et al., "Beware of Fragmentation", ATC 2023): by how much the part of what
    is left of the GPUs grows that the next task, drawn from those that are `asked` for, could not use."""
    counted = Counter(asked)
    chances = [(ask, count / counted.total()) for ask, count in counted.items()]
    sizes = sorted({ask.share for ask in counted})
    useless: dict[tuple[int, ...], dict[int, int]] = {}
    known: dict[Left, float] = {}

    def fragments(left: Left) -> float:
        found = known.get(left)
        if found is None:
            small = useless.get(left.gpus)
            if small is None:
                small = {size: sum(rest for rest in left.gpus if rest < size) for size in sizes}
                useless[left.gpus] = small
            total, whole = sum(left.gpus), left.gpus.count(GPU)
            found = known[left] = sum(
                chance * (small[ask.share] if _could_use(left, whole, ask) else total) for ask, chance in chances
            )
        return found

    return lambda before, after: fragments(after) - fragments(before)


def _could_use(left: Left, whole: int, ask: Ask) -> bool:
    if not ask.gpus or left.cpu < ask.cpu or left.memory < ask.memory:
        return False
    return (whole >= ask.gpus or ask.gpus == 1) and (not ask.models or left.model in ask.models)


class _Choice(NamedTuple):
    """The rest after a choice, and how bad it is."""

    bad: float
    after: Left


class Cluster:
    """Nodes that a rule fills. Nodes of which the same is left are looked at once."""

    def __init__(self, nodes: list[Left], rule: Rule) -> None:
        self._rule = rule
        self._alike: dict[Left, list[int]] = {}
        for at, left in enumerate(nodes):
            self._alike.setdefault(left, []).append(at)
        self._found: dict[Ask, dict[Left, _Choice | None]] = {}

    def place(self, ask: Ask) -> bool:
        """Give a task its place; False where there is none."""
        found = self._found.setdefault(ask, {})
        best: tuple[float, int] | None = None
        chosen: tuple[Left, Left] | None = None
        for left, places in self._alike.items():
            if left not in found:
                found[left] = self._choose(left, ask)
            choice = found[left]
            if choice is not None and (best is None or (choice.bad, places[0]) < best):
                best, chosen = (choice.bad, places[0]), (left, choice.after)
        if chosen is not None:
            self._move(*chosen)
        return chosen is not None

    def _choose(self, left: Left, ask: Ask) -> _Choice | None:
        """The best of what can be left there."""
        after = [_Choice(self._rule(left, one), one) for one in choices(left, ask)]
        return min(after, key=attrgetter("bad"), default=None)

    def _move(self, before: Left, after: Left) -> None:
        places = self._alike[before]
        at = heapq.heappop(places)
        if not places:
            del self._alike[before]
        heapq.heappush(self._alike.setdefault(after, []), at)
