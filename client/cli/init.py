"""Write a conf.json that works on this machine, with a registry that holds this machine as the node `local`."""

from __future__ import annotations

import argparse
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster init                       here
  muster init lab && cd lab && muster up --detach"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("dir", nargs="?", default=".", metavar="DIR", help="the folder (default: this one)")
    parser.add_argument("--force", action="store_true", help="write over a conf.json that is there")


def run(context: Context) -> int:
    """Do it."""
    import subprocess

    from client.cli import master_process

    folder = os.path.abspath(context.options.dir)
    words = ["init", folder, *(["--force"] if context.options.force else [])]
    if not context.json:
        return master_process.run(*words)
    done = subprocess.run(
        master_process.command(*words), cwd=master_process.folder(), stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode == 0:
        context.print_json({"conf": os.path.join(folder, "conf.json")})
    return done.returncode
