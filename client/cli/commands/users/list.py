"""All users, by name: role, groups, and how they log in."""

from __future__ import annotations

import argparse
import sys

from client.cli.screen.terminal import terminal_width
from client.text.people import users_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster users list
  muster users list --json | jq -r '.[] | select(.disabled) | .name'"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """This action has no options of its own."""


def run(context: Context) -> int:
    """Do it."""
    found = context.client.people.users()
    if context.json:
        context.print_json(found)
    elif found:
        sys.stdout.write(users_table(found, terminal_width()))
    else:
        context.say("there are no users yet: the queue is one person's; `muster users add NAME` adds the first")
    return 0
