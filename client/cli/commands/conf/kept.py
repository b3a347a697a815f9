"""The versions of conf.json or the registry that changes from afar have replaced, the newest first."""

from __future__ import annotations

import argparse
import sys

from client.cli.arguments import conf_changes
from client.cli.screen.terminal import terminal_width
from client.text.quantities import moment
from client.text.table import render
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster conf kept
  muster conf kept registry --json"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    conf_changes.add_file(parser)


def run(context: Context) -> int:
    """Do it."""
    found = context.client.conf.kept(context.options.file)
    if context.json:
        context.print_json(found)
    elif found:
        rows = [[harmless(one["name"]), moment(one["at"]), str(one["size"])] for one in found]
        sys.stdout.write(render(["NAME", "REPLACED", "BYTES"], rows, terminal_width(), flexible={}))
    else:
        context.say("none: nothing was changed from afar yet")
    return 0
