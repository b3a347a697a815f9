"""Everything about a task."""

from __future__ import annotations

import argparse
import time

from client.cli import ids
from client.cli.context import coloured
from client.cli.table import paint
from client.cli.text import command_line, duration, harmless, moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Task

EXAMPLES = """examples:
  muster show 7
  muster show 7 --json | jq .log_path"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("id", type=ids.one, metavar="ID", help="the task's id")


def run(context: Context) -> int:
    """Do it."""
    task = context.client.show(context.options.id)
    if context.json:
        context.print_json(task)
        return 0
    for label, value in _lines(task, time.time()):
        if value:
            shown = paint(value) if label == "state" and coloured() else value
            context.say(f"{label + ':':<12}{shown}")
    return 0


def _lines(task: Task, now: float) -> list[tuple[str, str]]:
    started, ended = task["started_at"], task["ended_at"]
    limit = task["time_limit_s"]
    return [
        ("id", str(task["id"])),
        ("name", harmless(task["name"])),
        ("state", task["state"]),
        ("reason", harmless(task["reason"] or "")),
        ("warning", harmless(task.get("warning") or "")),
        ("exit code", "" if task["exit_code"] is None else str(task["exit_code"])),
        ("owner", harmless(task["owner"])),
        ("project", harmless(task["project"])),
        ("command", command_line(task["command"])),
        ("folder", harmless(task["cwd"])),
        ("environment", harmless(task["env"])),
        ("log", harmless(task["log_path"])),
        ("needs", _needs(task)),
        ("runs on", "; ".join(_place(entry["node"], entry["gpus"]) for entry in task["allocation"])),
        ("after", ", ".join(f"{entry['id']}:{entry['on']}" for entry in task["after"])),
        ("priority", _priority(task)),
        ("time limit", duration(limit) if limit else ""),
        ("attempt", str(task["attempt"]) if task["attempt"] > 1 else ""),
        ("submitted", moment(task["submitted_at"])),
        ("started", moment(started) if started else ""),
        ("ended", moment(ended) if ended else ""),
        ("took" if ended else "runs for", duration((ended or now) - started) if started else ""),
        ("cancel", "asked for; the node is ending it" if task["cancel_requested"] and not ended else ""),
    ]


def _needs(task: Task) -> str:
    parts = [f"{task['gpus']} GPU{'s' if task['gpus'] != 1 else ''}" if task["gpus"] else "a slot, no GPU"]
    if task["node"]:
        parts.append(f"node {harmless(task['node'])}")
    return ", ".join(parts)


def _place(node: str, gpus: list[int]) -> str:
    return f"{harmless(node)}, GPU {','.join(map(str, gpus))}" if gpus else harmless(node)


def _priority(task: Task) -> str:
    words = [str(task["priority"])] if task["priority"] else []
    return ", ".join([*words, "urgent"] if task["urgent"] else words)
