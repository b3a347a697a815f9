"""Groups, with members and mentors: all for admins, for others those that they belong to or look after."""

from __future__ import annotations

import argparse
import sys

from client.cli.screen.terminal import terminal_width
from client.text.people import groups_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster groups list"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """This action has no options of its own."""


def run(context: Context) -> int:
    """Do it."""
    found = context.client.people.groups()
    if context.json:
        context.print_json(found)
    elif found:
        sys.stdout.write(groups_table(found, terminal_width()))
    else:
        context.say("there is no group to be seen; `muster groups add NAME` adds one")
    return 0
