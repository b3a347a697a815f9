"""Show your user, role, groups, how you logged in, and until when. Exits with 1 if the master does not know you."""

from __future__ import annotations

from client.text.people import who_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster whoami
  muster whoami --json | jq -r .user"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """This command has no options of its own."""


def run(context: Context) -> int:
    """Do it."""
    who = context.client.people.whoami()
    if context.json:
        context.print_json(who)
    for line in who_lines(who):
        context.say(line)
    return 0 if who["user"] is not None else 1
