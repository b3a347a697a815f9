"""The differences of two tasks for a viewer. Pure: it compares only data that the viewer may see.

Fields that differ between any two tasks (ids, times of the clock, the names of their logs) are no difference. Of times,
durations are compared: how long the task waited, and how long it ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from master.core.tasks.task import TaskView, Terms
from master.views.sight import Sight

_FIRST = ("command", "cwd", "env", "setup")
_APART = frozenset({*_FIRST, "name", "project", "variables"})
ASKED = ("owner", "name", "project", *_FIRST, *(name for name in Terms.__struct_fields__ if name not in _APART))
"""The requested properties, in the order in which they are shown."""
BECAME = ("state", "exit_code", "last_line", "attempt", "gpu_peak_mib")
"""The properties of the result."""


class Difference(msgspec.Struct, frozen=True):
    """A `field` as task.show has it, or `variables.NAME`, `sweep.NAME`, `where` (of each part its node and GPUs),
    `runs_as`, `waited_s`, `took_s`: what of it one task has (`here`), and the other (`there`); null for nothing."""

    field: str
    here: Any
    there: Any


def differences(here: TaskView, there: TaskView, sight: Sight) -> tuple[list[Difference], list[str]]:
    """Return the differences, requests first, and the fields that the viewer may not see."""
    hidden = _hidden(here, there, sight)
    one, other = dict(_facts(here)), dict(_facts(there))
    names = [name for name in dict.fromkeys((*one, *other)) if name.partition(".")[0] not in hidden]
    pairs = ((name, one.get(name), other.get(name)) for name in names)
    return [Difference(*pair) for pair in pairs if pair[1] != pair[2]], hidden


def _hidden(here: TaskView, there: TaskView, sight: Sight) -> list[str]:
    """Of what one is not told, nothing follows from its not being there."""
    owners = {here.owner, there.owner}
    found = []
    if not sight.sees_all and owners != {sight.user}:
        found.append("variables")
        if not sight.is_admin and not owners <= {sight.user, *sight.mentored}:
            found.append("last_line")
    return found


def _facts(task: TaskView) -> Iterator[tuple[str, Any]]:
    for name in ASKED:
        yield name, getattr(task, name)
    yield from _each("variables", task.variables)
    if task.array is not None:
        yield "array", task.array.id
    yield from _each("sweep", task.sweep)
    folder, _, log = task.log_path.rpartition("/")
    yield "log_path", folder if log == f"{task.id}.log" else task.log_path
    for name in BECAME:
        yield name, getattr(task, name)
    yield "reason", task.reason if task.ended_at is not None else None  # why one waits is `why`'s to say
    yield "where", [{"node": part.node, "gpus": part.gpus} for part in task.allocation] or None
    yield "runs_as", [part.run_as or part.account for part in task.allocation] or None
    yield "waited_s", _between(task.eligible_at or task.submitted_at, task.started_at)
    yield "took_s", _between(task.started_at, task.ended_at)


def _each(field: str, values: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    return ((f"{field}.{name}", value) for name, value in values.items())


def _between(begin: float | None, end: float | None) -> int | None:
    """Whole seconds."""
    return None if begin is None or end is None else max(0, round(end - begin))
