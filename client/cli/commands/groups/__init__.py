"""Who belongs together, and who looks after whom: a mentor sees, cancels, holds and moves the tasks of the members."""

from __future__ import annotations

import argparse

from client.cli.arguments import family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster groups add nlp
  muster groups edit nlp --add wang,li --add-mentor chen
  muster groups list"""
ACTIONS = {
    "list": "groups, with members and mentors; for who is no admin, one's own",
    "add": "add groups of nobody",
    "edit": "say who belongs to a group, and who looks after it",
    "rm": "remove groups; their users stay",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions, each a command of its own."""
    family.add_actions(parser, __name__, ACTIONS)


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    return family.parse(parser, argv, __name__)


def run(context: Context) -> int:
    """Do it."""
    return family.run(context, __name__)
