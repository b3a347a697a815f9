"""Add groups of nobody."""

from __future__ import annotations

import argparse

from client.cli.several import by_name
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster groups add nlp vision"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="what to call them")


def run(context: Context) -> int:
    """Do it."""

    def add(name: str) -> Any:
        group = context.client.people.add_group(name)
        context.say(
            f"group {harmless(name)}: added; `muster groups edit {harmless(name)} --add NAME` says who belongs to it"
        )
        return group

    return by_name.each(context, context.options.names, add)
