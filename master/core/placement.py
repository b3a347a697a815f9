"""Which of the nodes where a request fits is taken: a policy for each way to choose, by name.

Pure. A policy is given the request, once, and gives the key by which nodes are compared: the least is taken, of equals
the first in the registry. It sees what is free there after all that this round has placed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from master.core.request import Request
from master.core.resources import CPUS, GPUS, SLOTS, FreeNode

Policy: TypeAlias = Callable[[Request], Callable[[FreeNode], Any]]


def pack(request: Request) -> Callable[[FreeNode], tuple[int, int]]:
    """Best fit: GPUs where the fewest are left, so that whole nodes stay free for large tasks; tasks without GPUs where
    the most slots are free."""
    return _fewest_gpus if request.asks(GPUS.name) else _most_slots


def _fewest_gpus(free: FreeNode) -> tuple[int, int]:
    return (free.counts[GPUS.name], -free.counts[CPUS.name])


def _most_slots(free: FreeNode) -> tuple[int, int]:
    return (-free.counts[SLOTS.name], GPUS.has(free.node) or 0)


POLICIES: dict[str, Policy] = {"pack": pack}
DEFAULT = "pack"
