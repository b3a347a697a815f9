"""Keep waiting tasks from starting until they are released."""

from __future__ import annotations

from client.cli.arguments import ids
from client.cli.several import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster hold 7
  muster hold 12/                      (what still waits of the array of which 12 is the first)
  muster release 7"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser)


def run(context: Context) -> int:
    """Do it."""
    return each.task(context, context.client.hold, "held", states=ids.QUEUED)
