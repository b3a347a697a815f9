"""Print conf.json or the registry as it lies on the master's disk; `******** 1` stands for a secret. --version prints
which version it is, for `muster conf edit --version`."""

from __future__ import annotations

import argparse
import sys

from client.cli.arguments import conf_changes
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster conf show
  muster conf show registry > nodes.json
  muster conf show --version"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    conf_changes.add_file(parser)
    parser.add_argument("--version", action="store_true", dest="only_version", help="only which version it is")


def run(context: Context) -> int:
    """Do it."""
    file = context.client.conf.read(context.options.file)
    if context.json:
        context.print_json(file)
    elif context.options.only_version:
        context.say(file["version"])
    else:
        lines = file["text"].splitlines()
        sys.stdout.writelines(f"{harmless(line) if sys.stdout.isatty() else line}\n" for line in lines)
    return 0
