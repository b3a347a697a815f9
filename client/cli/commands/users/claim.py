"""Give the tasks of somebody who owned them before there were users (`lab`, `root`, `desktop`) to a user."""

from __future__ import annotations

import argparse

from client.text.quantities import counted
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster users claim lab wang"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("old", metavar="OLD", help="whose tasks they are")
    parser.add_argument("new", metavar="NEW", help="whose they are from now on")


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    claimed = context.client.people.claim(options.old, options.new)
    if context.json:
        context.print_json(claimed)
    context.say(
        f"{counted(claimed['count'], 'task')} of {harmless(options.old)}: {harmless(options.new)}'s from now on"
    )
    return 0
