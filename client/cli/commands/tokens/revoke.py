"""Revoke tokens, or log-ins: connections that use them are closed at once."""

from __future__ import annotations

import argparse

from client.text.quantities import counted
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster tokens revoke 7f3a91c2
  muster tokens revoke --all                 every token and log-in of yours, this one too
  muster tokens revoke --all --user wang"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="which, see `muster tokens list`")
    parser.add_argument("--all", action="store_true", help="all of one user's")
    parser.add_argument("--user", "-u", metavar="NAME", help="with --all: whose (admins; default: yours)")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Some are named, or all are meant."""
    if bool(options.ids) == options.all:
        parser.error("tokens revoke: give IDs, or --all")
    if options.user and not options.all:
        parser.error("tokens revoke: --user goes with --all; an ID says whose it is")


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    done = context.client.people.revoke_tokens(options.ids, name=options.user, everything=options.all)
    _forget(context, done["ids"])
    if context.json:
        context.print_json(done)
    context.say(f"{counted(len(done['ids']), 'token')} revoked: {harmless(', '.join(done['ids'])) or 'there was none'}")
    return 0


def _forget(context: Context, ids: list[str]) -> None:
    """Remove the log-in that this PC keeps, if its token is among the revoked ones."""
    where = context.address
    if where.token and where.token.split("_")[1:2] and where.token.split("_")[1] in ids:
        from client.address import logins_folder
        from client.logins import Logins

        Logins(logins_folder()).forget(where.name)
        context.note("the log-in of this PC was among them: `muster login` makes another")
