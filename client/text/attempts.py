"""Text about the attempts of a task: a table of them, the oldest first."""

from __future__ import annotations

from client.text.quantities import moment
from client.text.table import NARROW, needed, render
from wire.exit_codes import with_signal
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Attempt

_TITLES = ["NO", "NODE", "GPUS", "STARTED", "ENDED", "HOW IT ENDED"]
_SHRINK = ({"HOW IT ENDED": 24}, {"NODE": 6, "GPUS": 6}, NARROW, {"HOW IT ENDED": 12})


def attempts_table(attempts: list[Attempt], room: int | None) -> str:
    """The attempts as a table; `room`: columns of the terminal, or None for no cutting."""
    rows = [_row(attempt) for attempt in attempts]
    if room is not None and needed(_TITLES, rows) > room:
        rows = [[*row[:-1], how_it_ended(attempt, short=True)] for row, attempt in zip(rows, attempts, strict=True)]
    return render(_TITLES, rows, room, flexible=_SHRINK, right=frozenset({"NO"}))


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


def how_it_ended(attempt: Attempt, *, short: bool = False) -> str:
    """Return who asked for the end of the attempt, and its result, on one line; `short`: in a few words."""
    asked, code = attempt["asked_end"], attempt["exit_code"]
    words = [f"cancelled{_by(asked['by'])}"] if asked is not None and asked["why"] == "cancel" else []
    if short and (brief := _in_short(attempt)):
        return harmless(": ".join([*words, brief]))
    words += [attempt["reason"] or ""] if attempt["reason"] or code is None else [f"exit code {with_signal(code)}"]
    return harmless(": ".join(filter(None, words)))


def _by(who: str) -> str:
    return f" by {who}" if who else ""


def _in_short(attempt: Attempt) -> str | None:
    from client.text.short_reasons import short_reason

    return short_reason(attempt)
