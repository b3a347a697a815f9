"""The table of `muster node attempts`: what runs on a node and is no task."""

from __future__ import annotations

from client.text.quantities import moment
from client.text.table import render
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import UnknownAttempt

_TITLES = ["LAUNCH", "NAME", "ACCOUNT", "GPUS", "PID", "SINCE", "STATE", "LOG"]


def unknown_table(found: list[UnknownAttempt], room: int | None) -> str:
    """One line for each attempt. `room`: columns of the terminal, None for no cutting."""
    rows = [_row(one) for one in found]
    return render(_TITLES, rows, room, flexible=({"LOG": 8, "NAME": 6},), right=frozenset({"PID"}))


def _row(one: UnknownAttempt) -> list[str]:
    gpus = "unknown" if one["gpus"] is None else ",".join(map(str, one["gpus"])) or "-"
    state = "ending" if one["ended_by"] else "dismissed" if one.get("dismissed_by") else "held"
    started = one["started_at"]
    return [
        harmless(one["launch_id"]),
        harmless(one["name"]),
        harmless(one["account"]),
        gpus,
        str(one["pid"] or ""),
        "not begun" if started is None else moment(started),
        state,
        harmless(one["log_path"] or "unknown"),
    ]
