"""Hold more GPUs under a name, on the nodes that the allocation has: those that are free, if nobody waits for them."""

from __future__ import annotations

import argparse

from client.cli.arguments import fields
from client.text.allocations import places_text
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster alloc grow exp --gpus 2      (two more, at once or not at all)"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NAME", help="its name or id")
    parser.add_argument(
        "--gpus", type=fields.whole, required=True, metavar="N", help="so many more, on each of its nodes"
    )


def run(context: Context) -> int:
    """Do it."""
    options, client = context.options, context.client
    resized = client.allocations.grow(options.name, options.gpus)
    if context.json:
        context.print_json(resized)
    context.say(f"allocation {harmless(resized['name'])}: {places_text(resized['held'])}")
    return 0
