"""What is told of the attempts of a task: a table of them, the oldest first."""

from __future__ import annotations

from client.text.quantities import moment
from client.text.table import render
from wire.exit_codes import with_signal
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Attempt

_TITLES = ["NO", "NODE", "GPUS", "STARTED", "ENDED", "HOW IT ENDED"]
_FLEXIBLE = {"NODE": 6, "GPUS": 6, "HOW IT ENDED": 12}


def attempts_table(attempts: list[Attempt], room: int | None) -> str:
    """The attempts as a table; `room`: columns of the terminal, or None for no cutting."""
    return render(_TITLES, [_row(attempt) for attempt in attempts], room, flexible=_FLEXIBLE, right=frozenset({"NO"}))


def _row(attempt: Attempt) -> list[str]:
    started, ended, parts = attempt["started_at"], attempt["ended_at"], attempt["parts"]
    return [
        str(attempt["no"]),
        harmless("; ".join(part["node"] for part in parts)),
        "; ".join(",".join(map(str, part["gpus"])) for part in parts),
        moment(started) if started else "",
        moment(ended) if ended else "",
        how_it_ended(attempt),
    ]


def how_it_ended(attempt: Attempt) -> str:
    """Who wanted its end, and what came of it, on one line."""
    asked, code = attempt["asked_end"], attempt["exit_code"]
    words = [f"cancelled{_by(asked['by'])}"] if asked is not None and asked["why"] == "cancel" else []
    words += [attempt["reason"] or ""] if attempt["reason"] or code is None else [f"exit code {with_signal(code)}"]
    return harmless(": ".join(filter(None, words)))


def _by(who: str) -> str:
    return f" by {who}" if who else ""
