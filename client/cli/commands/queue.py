"""List the running tasks, then the waiting tasks in the order in which they will be tried."""

from __future__ import annotations

import sys
import time

from client.cli.arguments import fields
from client.cli.arguments.wrong import wrong
from client.cli.screen.terminal import coloured, terminal_width
from client.states import STATES
from client.text.quantities import counted
from client.text.tasks import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster queue                        running and waiting tasks, the first 50
  muster queue --all --limit 0        the ended ones too, all of them
  muster queue --mine --state waiting,held
  muster queue -a --since 2h          and what ended in the last two hours
  muster queue -u wang --sort gpus -r  the largest first
  muster queue --search bert --json | jq '.[].id'"""
ROWS = 50
SORTS = ("id", "name", "owner", "state", "gpus", "node", "priority", "submitted", "started", "ended", "time")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--all", "-a", action="store_true", help="the ended tasks too, newest first")
    parser.add_argument("--mine", "-m", action="store_true", help="only yours")
    parser.add_argument("--state", "-t", type=fields.states, action="extend", metavar="STATE[,…]",
                        help=f"only these: {', '.join(STATES)}")  # fmt: skip
    parser.add_argument("--user", "-u", metavar="NAME", help="only this person's")
    parser.add_argument("--search", metavar="TEXT", help="only those whose name or command holds this")
    parser.add_argument("--since", type=fields.moment, metavar="TIME",
                        help="what waits and runs, and what ended since: 30m, 2h, 3d, 2026-11-22T14:30")  # fmt: skip
    parser.add_argument("--sort", choices=SORTS, metavar="KEY", help=f"by {', '.join(SORTS)}")
    parser.add_argument("--reverse", "-r", action="store_true", help="the other way round")
    parser.add_argument("--limit", type=_limit, metavar="N", help=f"rows (default: {ROWS}; 0, or --json: all)")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    if options.mine and options.user:
        parser.error("--mine and --user: give one of them")
    return options


def run(context: Context) -> int:
    """Do it."""
    filters = _filters(context)
    tasks, total = context.client.list_tasks(**filters)
    for name, lines in sorted(context.client.unreadable.items()):
        context.note(f"history/{name}: {counted(lines, 'line')} cannot be read and are left out")
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


def _filters(context: Context) -> dict[str, Any]:
    options = context.options
    filters: dict[str, Any] = {}
    if options.state:
        filters.update(states=options.state, active=True, ended=True)
    elif options.all or options.since is not None:
        filters["ended"] = True
    said = {
        "mine": options.mine, "user": options.user, "search": options.search, "since": options.since,
        "sort": options.sort, "reverse": options.reverse,
    }  # fmt: skip
    filters.update({key: value for key, value in said.items() if value})
    limit = options.limit if options.limit is not None else 0 if context.json else ROWS
    if limit:
        filters["limit"] = limit
    return filters


def _nothing(context: Context) -> str:
    options = context.options
    if options.mine or options.state or options.user or options.search or options.since is not None:
        return "no task is like that; `muster queue --all` shows all of them"
    if options.all:
        return "there are no tasks yet; submit one with: muster submit -- CMD …"
    return "nothing waits or runs; submit with: muster submit -- CMD … (ended tasks: muster queue --all)"


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise wrong(f"{text!r} is not a number of rows")
