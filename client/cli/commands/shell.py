"""A shell on a node, by the way the master goes there: its key or password, its host keys, its proxy."""

from __future__ import annotations

import os

from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster shell node1
  echo nvidia-smi | muster shell node1       without a terminal it is a pipe; its exit code is the shell's"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NODE", help="the node's name, see `muster nodes`")


def run(context: Context) -> int:
    """Do it."""
    from client import address
    from client.cli.programs import master_process

    if context.options.master:
        raise coded_error("bad_request", "shell_is_local")
    conf = os.path.abspath(address.conf_path(context.options.conf))
    return master_process.run("--conf", conf, "shell", context.options.name)
