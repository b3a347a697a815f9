"""Say that the master's clock is right, after it was ahead. Users who expired by the wrong time come back, and their
tasks that were held for it wait again. No log-in, token or link that has ended opens anything again. Only the account
that runs the master and root can do this, on the master's machine. Look at the clock (`date`) first."""

from __future__ import annotations

import argparse

from client.text.quantities import counted, moment
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  date && muster clock accept"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """This action has no options of its own."""


def run(context: Context) -> int:
    """Do it."""
    found = context.client.accept_clock()
    if context.json:
        context.print_json(found)
        return 0
    context.say(f"rights end by {moment(found['now'])} from now on, no more by {moment(found['was'])}")
    if found["users"]:
        context.say(f"not expired after all: {', '.join(map(harmless, found['users']))}")
    if found["tasks"]:
        context.say(f"{counted(len(found['tasks']), 'task')} of theirs wait again")
    if found["ended"]:
        context.say(f"log-ins, tokens and links that stay ended: {found['ended']}")
    return 0
