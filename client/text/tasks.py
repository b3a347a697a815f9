"""Text about tasks: the table of them, how long a task took, and why it is in its state."""

from __future__ import annotations

from client.states import ENDED
from client.text.command import command_in_brief
from client.text.quantities import duration
from client.text.table import NARROW, needed, render
from wire.exit_codes import with_signal
from wire.harmless import harmless
from wire.ranges import names_in_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Task

_SHRINK = (
    # Beyond that nobody reads them in a row.
    {"COMMAND": 40, "REASON": 50},
    {"COMMAND": 10, "OWNER": 5},
    {"REASON": 24},
    {"NAME": 8, "NODE": 6, "GPUS": 6},
    NARROW,
    {"COMMAND": 6},
    {"REASON": 10},
)
"""To how many columns which parts of the table may shrink, the first ones first: the reason stays readable."""
_TITLES = ["ID", "STATE", "NAME", "ARRAY", "OWNER", "GPUS", "NODE", "TIME", "COMMAND", "REASON"]


def table(tasks: list[Task], now: float, room: int | None, *, colour: bool) -> str:
    """The tasks as a table; `now` in seconds since the epoch."""
    rows = [_row(task, now) for task in tasks]
    if room is not None and any(row[-1] for row in rows) and needed(_TITLES, rows) > room:
        _shorten(tasks, rows)
    return render(
        _TITLES, rows, room, flexible=_SHRINK, right=frozenset({"ID", "TIME"}), coloured="STATE" if colour else None
    )


def _shorten(tasks: list[Task], rows: list[list[str]]) -> None:
    """Put the reasons of the rows into fewer words; those that say the same are looked at once."""
    known: dict[str, str] = {}
    for task, row in zip(tasks, rows, strict=True):
        told = row[-1]
        if told and told not in known:
            known[told] = reason(task, short=True)
        row[-1] = known.get(told, told)


def _row(task: Task, now: float) -> list[str]:
    gpus, node = _where(task)
    return [
        str(task["id"]),
        task["state"],
        harmless(task["name"]),
        array_place(task),
        harmless(task["owner"]),
        gpus,
        harmless(node),
        duration(took(task, now)),
        command_in_brief(task["command"]),
        reason(task),
    ]


def _where(task: Task) -> tuple[str, str]:
    held = task["allocation"]
    if not held:
        named = nodes_named(task)
        return (gpus_asked(task) if task["gpus"] else ""), names_in_short(named) if named else ""
    count = sum(len(part["gpus"]) for part in held)
    alike = list(dict.fromkeys(",".join(map(str, part["gpus"])) for part in held))
    ids = f"{alike[0]} on each" if len(held) > len(alike) == 1 else "; ".join(alike)
    return (f"{count} ({ids})" if count else ""), names_in_short(part["node"] for part in held)


def nodes_named(task: Task) -> list[str]:
    """The nodes that it is to run on, of which others than these are out of the question; empty: on any."""
    return [task["node"]] if task["node"] else [*(task.get("gpus_on") or task.get("node_list") or ())]


def gpus_asked(task: Task) -> str:
    """How many GPUs it asks for: `4`, `1-4`, `2x4` (on each of two nodes)."""
    each = f"{task['gpus']}-{task['gpus_max']}" if task.get("gpus_max") else str(task["gpus"])
    nodes = task.get("nodes") or 1
    return each if nodes == 1 else f"{nodes}x{each}"


def array_place(task: Task) -> str:
    """Which of an array it is: `12/3`, the array of which 12 is the first, and the index; "" for none."""
    place = task.get("array")
    return f"{place['id']}/{place['index']}" if place else ""


def took(task: Task, now: float) -> float | None:
    """How long it has run, or waited for room; None for what ended under an old system, which did not write when."""
    ended = task["ended_at"] or (None if task["state"] in ENDED else now)
    return (
        None
        if ended is None
        else max(0.0, ended - (task["started_at"] or task.get("eligible_at") or task["submitted_at"]))
    )


def reason(task: Task, *, without_needs: bool = False, short: bool = False) -> str:
    """Why it waits, what is odd about it while it runs, or why it ended as it did, on one line. `without_needs`: not
    what it needs, where that stands in a column; `short`: in a few words."""
    told = (
        (_in_short(task, without_needs=without_needs) if short else None)
        or task["reason"]
        or (f"exit code {with_signal(task['exit_code'])}" if task["exit_code"] else task.get("warning"))
        or ""
    )
    quoted = task.get("last_line")
    if quoted and task.get("reason_key") == "exit_code":  # else there is more to say than it does
        told = f"{told}: {quoted}"
    if without_needs and told.startswith("needs "):
        told = told.partition(": ")[2] or told
    if task.get("unsaved"):
        told = f"NOT SAVED; {told}" if told else "NOT SAVED"
    return harmless(told)


def _in_short(task: Task, *, without_needs: bool) -> str | None:
    if not (task.get("reason_key") or task["exit_code"]):
        return None
    from client.text.short_reasons import short_reason

    return short_reason(task, without_needs=without_needs)
