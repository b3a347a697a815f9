"""What is told of tasks: the table of them, how long one took, and why it is where it is."""

from __future__ import annotations

from client.states import ENDED
from client.text.command import command_in_brief
from client.text.quantities import duration
from client.text.table import render
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Task

_TITLES = ["ID", "STATE", "NAME", "OWNER", "GPUS", "NODE", "TIME", "COMMAND", "REASON"]
_FLEXIBLE = {"NAME": 8, "OWNER": 5, "NODE": 6, "GPUS": 6, "COMMAND": 10, "REASON": 10}


def table(tasks: list[Task], now: float, room: int | None, *, colour: bool) -> str:
    """The tasks as a table; `now` in seconds since the epoch."""
    rows = [_row(task, now) for task in tasks]
    return render(
        _TITLES, rows, room, flexible=_FLEXIBLE, right=frozenset({"ID", "TIME"}), coloured="STATE" if colour else None
    )


def _row(task: Task, now: float) -> list[str]:
    gpus, node = _where(task)
    return [
        str(task["id"]),
        task["state"],
        harmless(task["name"]),
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
        return str(task["gpus"]) if task["gpus"] else "", task["node"] or ""
    gpus = held[0]["gpus"]
    return f"{len(gpus)} ({','.join(map(str, gpus))})" if gpus else "", held[0]["node"]


def took(task: Task, now: float) -> float | None:
    """How long it has waited or run; None for what ended under an old system, which did not write when."""
    ended = task["ended_at"] or (None if task["state"] in ENDED else now)
    return None if ended is None else ended - (task["started_at"] or task["submitted_at"])


def reason(task: Task, *, without_needs: bool = False) -> str:
    """Why it waits, what is odd about it while it runs, or why it ended as it did, on one line. `without_needs`: not
    what it needs, where that stands in a column."""
    told = task["reason"] or (f"exit code {task['exit_code']}" if task["exit_code"] else task.get("warning")) or ""
    needs, _, rest = told.partition(": ")
    if without_needs and rest and needs.startswith("needs "):
        told = rest
    if task.get("unsaved"):
        told = f"NOT SAVED; {told}" if told else "NOT SAVED"
    return harmless(told)
