"""What programs come in with: tokens, and the log-ins, which are tokens too. One's own; for admins, those of others."""

from __future__ import annotations

import argparse

from client.cli.arguments import family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster tokens list
  MUSTER_TOKEN=$(muster tokens new --scopes read,submit --expires 90d --label nightly)
  muster tokens revoke 7f3a91c2"""
ACTIONS = {
    "list": "tokens and log-ins, without their secrets",
    "new": "make a token for a program, and print it, this once",
    "revoke": "let tokens, or log-ins, open nothing any more",
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
