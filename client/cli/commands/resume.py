"""Let paused tasks go on (SIGCONT). A node that was drained takes tasks again with `muster node resume NAME`."""

from __future__ import annotations

from client.cli.arguments import ids
from client.cli.several import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster resume 7
  muster resume 3-12 15"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser)


def run(context: Context) -> int:
    """Do it."""
    return each.task(context, context.client.resume, "told to go on", states=("starting", "running", "paused"))
