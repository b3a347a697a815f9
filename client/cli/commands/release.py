"""Let held tasks wait again."""

from __future__ import annotations

from client.cli.arguments import ids
from client.cli.several import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster release 7"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser)


def run(context: Context) -> int:
    """Do it."""
    return each.task(context, context.client.release, "released", states=("held",))
