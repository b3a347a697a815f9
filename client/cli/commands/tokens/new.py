"""Make a token for a program, and print it, this once: alone, so that a script can take it.

A program with the token may do what its user may, or only what its scopes allow, until it expires or is revoked. Keep
it in a file of mode 0600 or in MUSTER_TOKEN, never on a command line.
"""

from __future__ import annotations

import argparse

from client.cli.arguments import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster tokens new --scopes read --expires 90d --label dashboard
  (umask 077; muster tokens new --scopes read,submit --label nightly > ~/.nightly-token)
  muster tokens new --user hall --scopes wall --label "screen in the hall"
  muster tokens new --user wang --expires 2027-07-31"""
SCOPES = ("read", "submit", "files", "account", "nodes", "admin", "wall")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--scopes", type=_scopes, metavar="NAME[,…]",
                        help=f"confine it to some of {', '.join(SCOPES)} (default: all)")  # fmt: skip
    parser.add_argument(
        "--expires", type=fields.until, metavar="TIME", help="it ends then: 90d, 2027-07-31 (default: never)"
    )
    parser.add_argument("--label", default="", metavar="TEXT", help="what it is for")
    parser.add_argument("--user", "-u", metavar="NAME", help="whose it is (admins; default: yours)")


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    made = context.client.people.new_token(
        options.user, scopes=options.scopes, expires_at=options.expires, label=options.label
    )
    context.done.append(f"token {made['id']} was made (`muster tokens revoke {made['id']}` ends it)")
    if context.json:
        context.print_json(made)
    context.say(made["token"])
    context.note(f"shown this once; `muster tokens revoke {made['id']}` ends it")
    return 0


def _scopes(text: str) -> list[str]:
    found = fields.words(text)
    for word in found:
        if word not in SCOPES:
            raise argparse.ArgumentTypeError(f"there is no scope {word!r}; there are {', '.join(SCOPES)}")
    return found
