"""Show the audit log, the newest entry first: who changed what, and who was refused. For admins."""

from __future__ import annotations

import sys

from client.cli.arguments import fields
from client.cli.arguments.wrong import wrong
from client.cli.screen.terminal import terminal_width
from client.text.audit import audit_table
from client.text.quantities import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster audit                          the last 50 lines
  muster audit --since 2h --verb file   what became of files in the last two hours
  muster audit --user wang --verb task.cancel
  muster audit --since 2026-11-22 --json | jq -r .[].target"""
ROWS, MOST = 50, 10_000


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--since", type=fields.moment, metavar="TIME",
                        help="nothing older: 30m, 2h, 3d, 2026-11-22T14:30")  # fmt: skip
    parser.add_argument("--user", "-u", metavar="NAME", help="only what this person did")
    parser.add_argument("--verb", metavar="VERB", help="only this verb (task.cancel), or all of a noun (task)")
    parser.add_argument("--limit", type=_limit, metavar="N",
                        help=f"so many lines (default: {ROWS}; with --json {MOST:,}, which is the most)")  # fmt: skip


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    limit = options.limit or (MOST if context.json else ROWS)
    page = context.client.audit(since=options.since, user=options.user, verb=options.verb, limit=limit)
    entries = page["entries"]
    if page["unreadable"]:
        context.note(f"{counted(page['unreadable'], 'line')} of the audit log cannot be read and are left out")
    if len(entries) == limit:
        context.note(
            f"there may be older ones; see them with --limit N (at most {MOST:,}), or fewer with --user, --verb"
        )
    if context.json:
        context.print_json(entries)
    elif entries:
        sys.stdout.write(audit_table(entries, terminal_width()))
    else:
        context.say("nothing is written down of that")
    return 0


def _limit(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= MOST:
        return int(text)
    raise wrong(f"{text!r} is not a number of lines from 1 to {MOST}")
