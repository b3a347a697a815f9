"""The audit log as a table: who did what, the newest first."""

from __future__ import annotations

from client.text.quantities import moment
from client.text.table import render
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import AuditEntry

_TITLES = ["TIME", "USER", "FROM", "VERB", "TARGET", "RESULT"]
_FLEXIBLE = {"USER": 5, "FROM": 9, "VERB": 10, "TARGET": 12, "RESULT": 6}


def audit_table(entries: list[AuditEntry], room: int | None) -> str:
    """The lines as a table; `room`: columns of the terminal, or None for no cutting."""
    return render(_TITLES, [_row(entry) for entry in entries], room, flexible=_FLEXIBLE)


def _row(entry: AuditEntry) -> list[str]:
    left_out = entry.get("left_out")
    nobody, target = ("-", entry["target"]) if left_out is None else ("", f"{left_out:,} left out")
    if left_out is not None and entry["result"] == "ok":
        target = f"{left_out:,} calls: {entry['target']}"
    return [
        moment(entry["at"]),
        harmless(entry["user"] or nobody) + (f" (task {entry['task']})" if entry.get("task") else ""),
        harmless(entry["from"]),
        harmless(entry["verb"]),
        harmless(target),
        harmless(entry["result"]),
    ]
