"""What waits and runs: the running tasks first, then the waiting ones in the order in which they will be tried."""

from __future__ import annotations

import argparse
import sys
import time

from client.api import ENDED
from client.cli.context import coloured, terminal_width
from client.cli.table import render
from client.cli.text import command_in_brief, duration, harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context
    from client.shapes import Task

EXAMPLES = """examples:
  muster queue                        running and waiting tasks, the first 50
  muster queue --all --limit 0        the ended ones too, all of them
  muster queue --mine --state waiting,held
  muster queue --search bert --json | jq '.[].id'"""
ROWS = 50
STATES = (
    "waiting", "held", "starting", "running", "paused", "succeeded", "failed", "cancelled", "timed_out", "lost",
)  # fmt: skip
_TITLES = ["ID", "STATE", "NAME", "OWNER", "GPUS", "NODE", "TIME", "COMMAND", "REASON"]
_FLEXIBLE = {"NAME": 8, "OWNER": 5, "NODE": 6, "GPUS": 6, "COMMAND": 10, "REASON": 10}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--all", action="store_true", help="the ended tasks too, newest first")
    parser.add_argument("--mine", action="store_true", help="only yours")
    parser.add_argument("--state", type=states, metavar="STATE[,…]", help=f"only these: {', '.join(STATES)}")
    parser.add_argument("--user", metavar="NAME", help="only this person's")
    parser.add_argument("--search", metavar="TEXT", help="only those whose name or command holds this")
    parser.add_argument("--limit", type=_limit, metavar="N", help=f"rows (default: {ROWS}; 0, or --json: all)")


def states(text: str) -> list[str]:
    """State names with commas. Raises ArgumentTypeError."""
    found = [word.strip().lower() for word in text.split(",")]
    for word in found:
        if word not in STATES:
            raise argparse.ArgumentTypeError(f"there is no state {word!r}; there are {', '.join(STATES)}")
    return found


def run(context: Context) -> int:
    """Do it."""
    filters = _filters(context)
    tasks, total = context.client.list_tasks(**filters)
    if context.json:
        context.print_json(tasks)
        return 0
    if not tasks:
        context.say(_nothing(context))
        return 0
    sys.stdout.write(table(tasks, time.time(), terminal_width(), colour=coloured()))
    if total > len(tasks):
        context.say(f"… and {total - len(tasks):,} more; see them with --limit N (0: all), --state, --mine or --search")
    return 0


def table(tasks: list[Task], now: float, room: int | None, *, colour: bool) -> str:
    """The tasks as a table; `now` in seconds since the epoch."""
    rows = [_row(task, now) for task in tasks]
    return render(
        _TITLES, rows, room, flexible=_FLEXIBLE, right=frozenset({"ID", "TIME"}), coloured="STATE" if colour else None
    )


def _row(task: Task, now: float) -> list[str]:
    reason = task["reason"]
    if not reason and task["exit_code"]:
        reason = f"exit code {task['exit_code']}"
    reason = reason or task.get("warning")
    gpus, node = _where(task)
    return [
        str(task["id"]),
        task["state"],
        harmless(task["name"]),
        harmless(task["owner"]),
        gpus,
        harmless(node),
        duration(_took(task, now)),
        command_in_brief(task["command"]),
        harmless(reason) if reason else "",
    ]


def _took(task: Task, now: float) -> float | None:
    """How long it has waited or run; None for what ended under an old system, which did not write when."""
    ended = task["ended_at"] or (None if task["state"] in ENDED else now)
    return None if ended is None else ended - (task["started_at"] or task["submitted_at"])


def _where(task: Task) -> tuple[str, str]:
    held = task["allocation"]
    if not held:
        return str(task["gpus"]) if task["gpus"] else "", task["node"] or ""
    gpus = held[0]["gpus"]
    return f"{len(gpus)} ({','.join(map(str, gpus))})" if gpus else "", held[0]["node"]


def _filters(context: Context) -> dict[str, Any]:
    options = context.options
    filters: dict[str, Any] = {}
    if options.state:
        filters.update(states=options.state, active=True, ended=True)
    elif options.all:
        filters["ended"] = True
    user = _me() if options.mine else options.user
    if user:
        filters["user"] = user
    if options.search:
        filters["search"] = options.search
    limit = options.limit if options.limit is not None else 0 if context.json else ROWS
    if limit:
        filters["limit"] = limit
    return filters


def _nothing(context: Context) -> str:
    options = context.options
    if options.mine or options.state or options.user or options.search:
        return "no task is like that; `muster queue --all` shows all of them"
    if options.all:
        return "there are no tasks yet; submit one with: muster submit -- CMD …"
    return "nothing waits or runs; submit with: muster submit -- CMD … (ended tasks: muster queue --all)"


def _me() -> str:
    import os
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows")
