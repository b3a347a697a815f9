"""The allocations that are not over: which GPUs each has, which of them are free, and how many tasks use it."""

from __future__ import annotations

import argparse
import sys
import time

from client.cli.screen.terminal import terminal_width
from client.text.allocations import allocations_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster alloc list
  muster alloc list --json"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """This action has no options of its own."""


def run(context: Context) -> int:
    """Do it."""
    found = context.client.allocations.list()
    if context.json:
        context.print_json(found)
    elif found:
        sys.stdout.write(allocations_table(found, terminal_width(), time.time()))
    else:
        context.say("there is no allocation; `muster alloc NAME --gpus N` gets one")
    return 0
