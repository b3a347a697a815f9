"""In what two tasks differ, as lines: what each of them has, one below the other; of scripts the lines that differ."""

from __future__ import annotations

import json
from difflib import unified_diff

from client.text.command import command_line
from client.text.quantities import counted, duration
from client.text.snapshots import snapshot_line
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from client.shapes import Diff, Difference

_LABELS = {"cwd": "folder", "log_path": "log", "where": "runs on", "waited_s": "waited", "took_s": "took"}
_MARKS = {"changed": "~", "added": "+", "removed": "-"}
_FILES = 50
"""So many of the files that differ are named."""
_HEAD = 2
"""So many lines a difference begins with that name the files."""
_NOT_TOLD = {"variables": "variables", "last_line": "the last lines of their logs"}


def difference_lines(diff: Diff) -> Iterator[str]:
    """Yield the lines of a difference, a head line for each field."""
    for one in diff["fields"]:
        yield f"{_label(one['field'])}:"
        for mark, text in _both(diff, one):
            yield f"  {mark} {text}"
    if not diff["fields"]:
        yield f"tasks {diff['id']} and {diff['other']} do not differ"
    if diff["hidden"]:
        untold = " and ".join(_NOT_TOLD.get(name, harmless(name)) for name in diff["hidden"])
        yield f"(not compared, for they are their owner's: {untold})"


def code_lines(changes: dict[str, str]) -> Iterator[str]:
    """Which files differ between the copies of the code in which both ran."""
    if changes:
        yield "code:"
    for name in list(changes)[:_FILES]:
        yield f"  {_MARKS[changes[name]]} {harmless(name)}"
    if len(changes) > _FILES:
        yield f"  and {counted(len(changes) - _FILES, 'file')} more (--json has all)"


def _label(field: str) -> str:
    name, dot, rest = field.partition(".")
    return harmless(f"{_LABELS.get(name, name.replace('_', ' '))}{' ' if dot else ''}{rest}")


def _both(diff: Diff, one: Difference) -> Iterator[tuple[str, str]]:
    here, there = one["here"], one["there"]
    if isinstance(here, str) and isinstance(there, str) and "\n" in f"{here.strip()}{there.strip()}":
        lines = unified_diff(here.splitlines(), there.splitlines(), lineterm="", n=0)
        for number, line in enumerate(lines):
            if number >= _HEAD and not line.startswith("@@"):
                yield line[0], harmless(line[1:])
        return
    width = len(str(max(diff["id"], diff["other"])))
    yield str(diff["id"]).rjust(width), _value(one["field"], here)
    yield str(diff["other"]).rjust(width), _value(one["field"], there)


def _value(field: str, value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "-"
    if field == "command":
        return command_line(value)
    if field == "snapshot":
        return snapshot_line(value)
    if field == "where":
        return harmless("; ".join(_place(part) for part in value))
    if field.endswith("_s"):
        return duration(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str | int) for item in value):
        return harmless(", ".join(map(str, value)))
    return harmless(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _place(part: dict[str, Any]) -> str:
    return f"{part['node']}, GPU {','.join(map(str, part['gpus']))}" if part["gpus"] else part["node"]
