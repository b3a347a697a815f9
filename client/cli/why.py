"""Why a task waits, or why it ended as it did."""

from __future__ import annotations

import argparse

from client.cli import ids
from client.cli.text import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster why 7"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("id", type=ids.one, metavar="ID", help="the task's id")


def run(context: Context) -> int:
    """Do it."""
    why = context.client.why(context.options.id)
    if context.json:
        context.print_json(why)
        return 0
    told = why["reason"] or why.get("warning") or "nothing special"
    context.say(f"task {why['id']} ({why['state']}): {harmless(told)}")
    for detail in why.get("details") or []:
        context.say(f"  {harmless(detail)}")
    blocked = why.get("blocked_by") or []
    if blocked:
        context.say(f"  waits for: {', '.join(harmless(str(entry)) for entry in blocked)}")
    return 0
