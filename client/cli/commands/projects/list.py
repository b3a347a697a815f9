"""Projects that somebody said something of, or that tasks have which are not over."""

from __future__ import annotations

import argparse
import sys

from client.cli.screen.terminal import terminal_width
from client.text.people import projects_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster projects list"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """This action has no options of its own."""


def run(context: Context) -> int:
    """Do it."""
    found = context.client.people.projects()
    if context.json:
        context.print_json(found)
    elif found:
        sys.stdout.write(projects_table(found, terminal_width()))
    else:
        context.say("there is no project to be seen; `muster submit --project NAME` makes one")
    return 0
