"""What the master can be asked: every verb, who may call it, what it takes and gives. Asks no master: it is what this
version of Muster knows.
"""

from __future__ import annotations

import argparse
import sys

from client.cli.terminal import terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster api
  muster api task
  muster api task.submit
  muster api --json
  muster api --openapi > openapi.json"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("verb", nargs="?", metavar="VERB", help="tell all about this one, or list those of a noun")
    parser.add_argument("--openapi", action="store_true", help="print the OpenAPI 3.1 document of all verbs")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    if options.openapi and options.verb:
        parser.error("--openapi prints the document of all verbs: leave VERB out")
    return options


def run(context: Context) -> int:
    """Do it."""
    from client.text.verbs import verb_page, verbs_table
    from client.verbs import Verbs, openapi

    asked = context.options.verb
    if context.options.openapi:
        sys.stdout.write(openapi())
        return 0
    verbs = Verbs()
    wanted = verbs.of(asked)
    told = verbs.whole(asked) if asked in wanted else [verbs.brief(name) for name in wanted]
    if context.json:
        context.print_json(told)
    elif isinstance(told, dict):
        sys.stdout.write(verb_page(told, terminal_width()))
    else:
        sys.stdout.write(verbs_table(told, terminal_width()))
    return 0
