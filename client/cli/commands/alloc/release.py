"""Give an allocation back. It is refused while tasks run in it, or wait to; `muster cancel ID` ends these, too."""

from __future__ import annotations

import argparse

from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster alloc release exp
  muster alloc release exp --wait     (once the last of its tasks has ended; it takes no others)"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NAME", help="its name or id")
    parser.add_argument("--wait", action="store_true", help="wait for the tasks in it, then give it back")


def run(context: Context) -> int:
    """Do it."""
    options, client = context.options, context.client
    released = client.allocations.release(options.name, wait=options.wait)
    if options.wait:
        client.wait([released["id"]])
    if context.json:
        context.print_json(released)
    context.say(f"released {harmless(released['name'])}")
    return 0
