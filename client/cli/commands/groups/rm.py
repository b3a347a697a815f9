"""Remove groups; their users stay."""

from __future__ import annotations

import argparse

from client.cli.several import by_name
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster groups rm nlp --yes"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="which")
    by_name.add_yes(parser)


def run(context: Context) -> int:
    """Do it."""

    def remove(name: str) -> Any:
        if not by_name.agreed(context, f"Remove the group {harmless(name)}?"):
            return None
        context.client.people.remove_group(name)
        context.say(f"group {harmless(name)}: removed")
        return {"name": name}

    return by_name.each(context, context.options.names, remove)
