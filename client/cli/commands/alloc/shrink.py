"""Give some GPUs of an allocation back. Those that tasks in it use stay; whole allocations: `muster alloc release`."""

from __future__ import annotations

import argparse

from client.cli.arguments import fields
from client.text.allocations import places_text
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster alloc shrink exp --gpus 1"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NAME", help="its name or id")
    parser.add_argument(
        "--gpus", type=fields.whole, required=True, metavar="N", help="so many less, on each of its nodes"
    )


def run(context: Context) -> int:
    """Do it."""
    options, client = context.options, context.client
    resized = client.allocations.shrink(options.name, options.gpus)
    if context.json:
        context.print_json(resized)
    context.say(f"allocation {harmless(resized['name'])}: {places_text(resized['held'])}")
    return 0
