"""Which of the nodes where a request fits is taken: a policy for each way to choose, by name.

Pure. A policy is given the request, once, and gives the key by which nodes are compared: the least is taken, of equals
the first in the registry. It sees what is free there after all that this round has placed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from master.core.nodes.resources import CPUS, GPUS, SLOTS, FreeNode, Need
from master.core.tasks.request import Request

Key: TypeAlias = Callable[[FreeNode], Any]
Policy: TypeAlias = Callable[[Request], Key]
DIGITS = 6
"""Decimal places of a score: a smaller difference does not count."""


def pack(request: Request) -> Key:
    """Best fit: first where the fewest GPUs are left without CPUs to go with them; then shares where the least memory
    is left over on their GPUs, and GPUs where the fewest are left, so that whole nodes stay free for large tasks; of a
    range first where most of it is free; tasks with neither GPUs nor CPUs where the most slots are free."""
    gpus = next((need for need in request.needs if need.resource == GPUS.name), None)
    cpus = sum(need.amount for need in request.needs if need.resource == CPUS.name)
    if gpus is None:
        return _fewest_stranded(None, cpus, _fewest_gpus) if cpus else _most_slots
    key = _tightest_share(gpus) if gpus.terms is not None and gpus.terms.share else _fewest_gpus
    key = _fewest_stranded(gpus, cpus, key)
    return _most_of_range(gpus, key) if gpus.most > gpus.amount else key


def _fewest_stranded(need: Need | None, cpus: int, of_equals: Key) -> Key:
    """How many more of the GPUs that are free there would have no CPUs to go with them. With each go as many as the
    node has for each of its GPUs; where nobody asks for CPUs, none is ever without."""

    def key(free: FreeNode) -> tuple[float, ...]:
        pieces, left, stranded = free.pieces[GPUS.name], free.counts[CPUS.name], 0.0
        if free.cpus and (cpus or left < free.cpus) and pieces.count:
            for_each, gpus = free.cpus / pieces.count, pieces.parts_free()
            taken = 0.0 if need is None else pieces.parts_taken(need.amount, need.terms)
            after, before = gpus - taken - (left - cpus) / for_each, gpus - left / for_each
            stranded = round(max(0.0, after) - max(0.0, before), DIGITS)
        return (stranded, *of_equals(free))

    return key


def _most_of_range(need: Need, of_equals: Key) -> Key:
    amounts = range(need.most, need.amount, -1)

    def key(free: FreeNode) -> tuple[float, ...]:
        pieces = free.pieces[GPUS.name]
        most = (amount for amount in amounts if pieces.chosen(amount, need.exact, need.terms) is not None)
        return (-next(most, need.amount), *of_equals(free))

    return key


def _tightest_share(need: Need) -> Key:
    terms = need.terms

    def key(free: FreeNode) -> tuple[int, ...]:
        left = free.pieces[GPUS.name].left_over(need.amount, terms) if terms is not None else 0
        return (left, *_fewest_gpus(free))

    return key


def _fewest_gpus(free: FreeNode) -> tuple[int, int]:
    return (free.counts[GPUS.name], -free.counts[CPUS.name])


def _most_slots(free: FreeNode) -> tuple[int, int]:
    return (-free.counts[SLOTS.name], free.pieces[GPUS.name].count)


POLICIES: dict[str, Policy] = {"pack": pack}
DEFAULT = "pack"
