"""Why a task waits, or why it ended as it did."""

from __future__ import annotations

from client.cli.arguments import ids
from client.text.task_page import why_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

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
    for line in why_lines(why):
        context.say(line)
    return 0
