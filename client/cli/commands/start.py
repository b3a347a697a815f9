"""Start waiting tasks before all others, whatever their priority, predecessors and hold say.

No GPU is taken from anybody: they start as soon as what they need is free.
"""

from __future__ import annotations

from client.cli.arguments import ids
from client.cli.several import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster start 7"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser)


def run(context: Context) -> int:
    """Do it."""
    return each.task(context, context.client.start, "starts as soon as its GPUs are free", states=ids.QUEUED)
