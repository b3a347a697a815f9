"""The verbs `alloc.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import allocations
from master.verbs.base import Nothing, Verb
from master.verbs.submit import Submitted

VERBS: dict[str, Verb] = {
    "alloc.new": Verb(allocations.NewAllocation, Submitted, allocations.new, "user", "submit", "none"),
    "alloc.list": Verb(
        Nothing,
        list[allocations.Allocated],
        allocations.list_allocations,
        "viewer",
        "read",
        "none",
        repeatable=True,
    ),
    "alloc.grow": Verb(allocations.Grow, allocations.Allocated, allocations.grow, "user", "submit", "group"),
    "alloc.shrink": Verb(allocations.Shrink, allocations.Allocated, allocations.shrink, "user", "submit", "group"),
    "alloc.release": Verb(allocations.Release, allocations.Allocated, allocations.release, "user", "submit", "group"),
}
