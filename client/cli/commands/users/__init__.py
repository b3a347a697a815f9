"""The people of the lab: who may come in, as what, and how. For admins, but for one's own password."""

from __future__ import annotations

import argparse

from client.cli.arguments import family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster users list
  muster users add wang --display 王伟 --links
  muster users add --from lab.csv --links
  muster users edit wang role=admin
  muster users passwd
  muster users disable wang
  muster users add --help"""
ACTIONS = {
    "list": "all users: who they are, how they come in",
    "add": "add one, or all of a CSV file",
    "edit": "change role, display name, mail, language or the day of the end",
    "disable": "let users in no more, and hold what waits",
    "enable": "undo that",
    "rm": "remove users none of whose tasks waits or runs",
    "passwd": "set a password",
    "link": "make a link with which a user chooses a password, once",
    "claim": "give the tasks of an owner from before there were users to a user",
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
