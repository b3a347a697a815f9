"""Pause running tasks, with all of their processes (SIGSTOP), until they are resumed.

They keep their GPUs and what they have in memory, and a time limit goes on counting. A task is `paused` once its node
says that all of it stands; `muster why ID` tells what it waits for until then.
"""

from __future__ import annotations

from client.cli.arguments import ids
from client.cli.several import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster pause 7
  muster resume 7"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser)


def run(context: Context) -> int:
    """Do it."""
    return each.task(
        context,
        context.client.pause,
        "told to pause (`muster resume` lets go on)",
        states=("starting", "running", "paused"),
    )
