"""Queue ended tasks again, each as a new attempt of the same task."""

from __future__ import annotations

import argparse

from client.cli import each, ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster retry 7
  muster retry 3-12"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser)


def run(context: Context) -> int:
    """Do it."""
    return each.task(context, context.client.retry, "queued again")
