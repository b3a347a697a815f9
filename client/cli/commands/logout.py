"""End the log-in that this PC keeps for a master, there and here. Tokens that programs have go on."""

from __future__ import annotations

import os

from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster logout
  muster logout queue.lab
  muster tokens revoke --all      all log-ins and tokens, wherever they are"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("host", nargs="?", metavar="HOST[:PORT]", help="where the master is")


def run(context: Context) -> int:
    """Do it."""
    from client.address import logins_folder
    from client.api import Client
    from client.logins import Logins
    from wire.errors import UnauthenticatedError, UnreachableError

    where = context.find(context.options.host, closed=False)
    if where.token is None:
        raise coded_error("conflict", "no_log_in_kept", at=str(where))
    try:
        with Client(where, where.token) as client:
            client.people.log_out()
    except UnauthenticatedError:
        context.note("the master had ended this log-in before")
    except UnreachableError:
        context.note("forgotten here; there it goes on until it ends by itself, or `muster tokens revoke` ends it")
        raise
    finally:  # nobody wants it any more, whatever the master says
        Logins(logins_folder()).forget(where.name)
    if os.environ.get("MUSTER_TOKEN"):
        context.note("MUSTER_TOKEN is set: commands still show that token")
    if context.json:
        context.print_json({"master": str(where)})
    context.say(f"logged out at {where}")
    return 0
