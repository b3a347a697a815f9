"""Run the console, for browsers and scripts, until Ctrl-C; `muster up` starts it where conf.json has `web`."""

from __future__ import annotations

import os

from client import address
from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster web                                 where conf.json says: {"web": {"port": 8443}}
  muster web --port 9443 --conf /srv/lab/conf.json"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--port", type=int, metavar="N", help="another port than web.port of conf.json")


def run(context: Context) -> int:
    """Do it."""
    from client.cli.programs.beside import CONSOLE
    from client.cli.programs.master_process import environment, folder
    from client.cli.screen.interrupt import LeftToTheChild

    if context.options.master:
        raise coded_error("bad_request", "web_is_local")
    conf = os.path.abspath(address.conf_path(context.options.conf))
    port = [] if context.options.port is None else ["--port", str(context.options.port)]
    import subprocess

    with LeftToTheChild():
        code = subprocess.Popen([*CONSOLE.command(conf), *port], cwd=folder(), env=environment()).wait()
    return 128 - code if code < 0 else code
