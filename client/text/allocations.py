"""Allocations for people: a table of them, and what there is to say of one."""

from __future__ import annotations

from client.text.quantities import counted, duration
from client.text.table import NARROW, needed, render
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from client.shapes import Allocated, Part, Place


_TITLES = ["ID", "NAME", "STATE", "OWNER", "GPUS", "FREE", "TASKS", "LEFT", "REASON"]
_SHRINK = (
    {"OWNER": 6, "REASON": 32},
    {"NAME": 8, "GPUS": 12, "FREE": 8},
    NARROW,
    {"REASON": 10},
)


def places_text(places: Sequence[Place | Part]) -> str:
    """`gpu1:0-3 gpu2:1`; nodes with no GPUs are left out."""
    from wire.ranges import ids_in_parts

    told = [(one["node"], ",".join(part for part, _ in ids_in_parts(one["gpus"]))) for one in places if one["gpus"]]
    return harmless(" ".join(f"{node}:{gpus}" for node, gpus in told))


def allocations_table(allocations: list[Allocated], room: int | None, now: float) -> str:
    """A line each; `now` in seconds since the epoch."""
    rows = [
        [
            str(one["id"]),
            harmless(one["name"]),
            "ending" if one["is_ending"] else one["state"],
            harmless(one["owner"]),
            places_text(one["held"]) or _asked(one),
            places_text(one["free"]),
            _tasks(one),
            "" if one["ends_at"] is None else duration(max(0.0, one["ends_at"] - now)),
            harmless(one["reason"] or ""),
        ]
        for one in allocations
    ]
    if room is not None and needed(_TITLES, rows) > room:
        rows = [[*row[:-1], _short_reason(one) or row[-1]] for row, one in zip(rows, allocations, strict=True)]
    return render(_TITLES, rows, room, flexible=_SHRINK, right=frozenset({"ID"}))


def _short_reason(one: Allocated) -> str | None:
    from client.text.short_reasons import short_reason

    return short_reason(one)


def _asked(one: Allocated) -> str:
    gpus = counted(one["gpus"], "GPU")
    return gpus if one["nodes"] == 1 else f"{one['nodes']} x {gpus}"


def _tasks(one: Allocated) -> str:
    running, waiting = len(one["tasks"]), len(one["waiting"])
    return f"{running} run, {waiting} wait" if waiting else f"{running} run" if running else ""
