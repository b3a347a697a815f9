"""The lines of the tasks, with as many columns as there is room for. Pure."""

from __future__ import annotations

from typing import NamedTuple

from client.states import ENDED
from client.text import cells
from client.text.colours import STATE_KINDS
from client.text.columns import fit, width
from client.text.command import command_in_brief
from client.text.quantities import duration
from client.text.tasks import array_place, gpus_asked, nodes_named, reason, took
from wire.harmless import harmless
from wire.ranges import ids_in_short, names_in_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from client.shapes import Part as TaskPart
    from client.shapes import Task
    from client.text.cells import Line, Part

_NARROW, _WIDE, _VERY_WIDE = 60, 110, 150
_LEAST = 8


class Column(NamedTuple):
    """A title, its columns on the screen (0: what is left), and what stands there; `now`: seconds since the epoch."""

    title: str
    size: int
    cell: Callable[[Task, float], str]
    right: bool = False
    short: Callable[[Task, float], str] | None = None
    """The text in place of a cell that is too long."""


def columns(size: int, *, arrays: bool = False) -> list[Column]:
    """The columns for a screen of `size`; exactly one takes what is left. `arrays`: some of the tasks are of one, which
    has a column where there is room."""
    chosen = [Column("ID", 6, _id, right=True), Column("STATE", 9, _state)]
    if size < _NARROW:
        return [*chosen, Column("OWNER", 8, _owner), Column("WHAT", 0, _what_or_why, short=_short_what_or_why)]
    wide, very = size >= _WIDE, size >= _VERY_WIDE
    chosen += [Column("OWNER", 10 if wide else 8, _owner), Column("NAME", 28 if very else 20 if wide else 12, _name)]
    if arrays and wide:
        chosen += [Column("ARRAY", 9, lambda task, _now: array_place(task))]
    chosen += [Column("WHERE", 16 if wide else 12, _where), Column("TIME", 7, _time, right=True)]
    if very:
        return [*chosen, Column("PRIO", 6, _priority, right=True), Column("COMMAND", 44, _command), _why(0)]
    return [*chosen, _why_or_what(0)]


def has_arrays(tasks: Iterable[Task | None]) -> bool:
    """Is one of these tasks of an array?"""
    return any(task is not None and task.get("array") for task in tasks)


def head(size: int, *, arrays: bool = False) -> str:
    """The titles over the tasks; `arrays`: as for `columns`."""
    chosen = columns(size, arrays=arrays)
    room = _left(chosen, size)
    return " ".join(fit(column.title, column.size or room, right=column.right) for column in chosen)


def task_line(task: Task, size: int, now: float, *, arrays: bool = False) -> Line:
    """A task in `size` columns; `now`: seconds since the epoch; `arrays`: as for `columns`."""
    chosen = columns(size, arrays=arrays)
    room = _left(chosen, size)
    parts: list[Part] = []
    for column in chosen:
        text = fit(_cell(column, task, now, column.size or room), column.size or room, right=column.right)
        kind = STATE_KINDS.get(task["state"], "") if column.title == "STATE" else ""
        parts += [(text, kind), (" ", "")]
    return cells.fit_line(tuple(parts[:-1]), size)


def _cell(column: Column, task: Task, now: float, size: int) -> str:
    text = column.cell(task, now)
    return text if column.short is None or width(text) <= size else column.short(task, now)


def _left(chosen: list[Column], size: int) -> int:
    return max(_LEAST, size - sum(column.size for column in chosen) - (len(chosen) - 1))


def _id(task: Task, _now: float) -> str:
    return str(task["id"])


def _state(task: Task, _now: float) -> str:
    return "ending" if task["cancel_requested"] and task["state"] not in ENDED else task["state"]


def _owner(task: Task, _now: float) -> str:
    return harmless(task["owner"])


def _name(task: Task, now: float) -> str:
    return harmless(task["name"]) or _command(task, now)


def _command(task: Task, _now: float) -> str:
    return command_in_brief(task["command"])


def _priority(task: Task, _now: float) -> str:
    return "urgent" if task["urgent"] else str(task["priority"] or "")


def _time(task: Task, now: float) -> str:
    return duration(took(task, now))


def _where(task: Task, _now: float) -> str:
    """Where it runs, with its GPUs; or what it asks for."""
    if task["allocation"]:
        return "; ".join(_place(names, gpus) for gpus, names in _by_gpus(task["allocation"]).items())
    nodes = task.get("nodes") or 1
    if task["gpus"]:
        asked = f"{gpus_asked(task)} GPU{'' if gpus_asked(task) == '1' else 's'}"
    else:
        asked = "no GPU" if nodes == 1 else f"{nodes} nodes"
    named = nodes_named(task)
    return f"{harmless(names_in_short(named).replace(' ', ''))} {asked}" if named else asked


def _by_gpus(parts: list[TaskPart]) -> dict[str, list[str]]:
    """The nodes of its parts, by the GPUs that they have there."""
    by_gpus: dict[str, list[str]] = {}
    for part in parts:
        by_gpus.setdefault(ids_in_short(part["gpus"]).replace(" ", ""), []).append(part["node"])
    return by_gpus


def _place(names: list[str], gpus: str) -> str:
    told = harmless(names_in_short(names).replace(" ", ""))
    return f"{told}:{gpus}" if gpus else told


def why(task: Task, *, short: bool = False) -> str:
    """Why it is where it is, `short` in a few words; what it needs stands in a column."""
    return reason(task, without_needs=True, short=short)


def _why(size: int) -> Column:
    return Column("WHY", size, lambda task, _now: why(task), short=lambda task, _now: why(task, short=True))


def _why_or_what(size: int) -> Column:
    def cell(task: Task, now: float, *, short: bool = False) -> str:
        return why(task, short=short) or (_command(task, now) if task["name"] else "")

    return Column("WHY / COMMAND", size, cell, short=lambda task, now: cell(task, now, short=True))


def _what_or_why(task: Task, now: float, *, short: bool = False) -> str:
    told = why(task, short=short)
    return f"{_name(task, now)}: {told}" if told else _name(task, now)


def _short_what_or_why(task: Task, now: float) -> str:
    return _what_or_why(task, now, short=True)
