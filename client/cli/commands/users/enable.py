"""Enable disabled users. Tasks that were held for it wait again; log-ins and tokens stay revoked."""

from __future__ import annotations

import argparse

from client.cli.labs import closed_nodes
from client.cli.several import by_name
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster users enable wang"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="who")


def run(context: Context) -> int:
    """Do it."""

    def enable(name: str) -> Any:
        user = context.client.people.enable(name)
        context.say(f"user {harmless(name)}: enabled")
        return user

    code = by_name.each(context, context.options.names, enable)
    if code == 0:
        closed_nodes.tell(context)
    return code
