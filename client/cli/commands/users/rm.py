"""Remove users none of whose tasks waits or runs. Their names stay with what they did."""

from __future__ import annotations

import argparse

from client.cli.several import by_name
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster users rm wang --yes"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="who")
    by_name.add_yes(parser)


def run(context: Context) -> int:
    """Do it."""

    def remove(name: str) -> Any:
        if not by_name.agreed(context, f"Remove the user {harmless(name)}?"):
            return None
        context.client.people.remove(name)
        context.say(f"user {harmless(name)}: removed")
        return {"name": name}

    return by_name.each(context, context.options.names, remove)
