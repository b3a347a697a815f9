"""Tokens and log-ins, the oldest first, without their secrets."""

from __future__ import annotations

import argparse
import sys

from client.cli.screen.terminal import terminal_width
from client.text.people import tokens_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster tokens list
  muster tokens list --user wang
  muster tokens list --all"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--user", "-u", metavar="NAME", help="of this user (admins)")
    whose.add_argument("--all", action="store_true", help="of everybody (admins)")


def run(context: Context) -> int:
    """Do it."""
    found = context.client.people.tokens(context.options.user, everybody=context.options.all)
    if context.json:
        context.print_json(found)
    elif found:
        sys.stdout.write(tokens_table(found, terminal_width()))
    else:
        context.say("this user has no tokens and no log-ins")
    return 0
