"""Write what the system around the lab needs, from conf.json and the registry: systemd units, NFS exports and fstab
lines, smb.conf, a compose file for InfluxDB and Grafana, and a README of the steps. Nothing is installed or changed.
"""

from __future__ import annotations

import os

from client.cli.arguments import file_name
from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster deploy setup && less setup/README.md
  muster deploy setup --json

Run it again after a change of conf.json or the registry: files that somebody changed are kept."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("dir", type=file_name.folder, metavar="DIR", help="the folder to write into, made if need be")
    parser.add_argument("--force", action="store_true", help="also over files that somebody changed")


def run(context: Context) -> int:
    """Do it."""
    from client import address
    from client.cli.programs import master_process

    options = context.options
    if options.master:
        raise coded_error("bad_request", "deploy_is_local")
    conf = os.path.abspath(address.conf_path(options.conf))
    words = ["--conf", conf, "deploy", os.path.abspath(os.path.expanduser(options.dir))]
    for name, wanted in (("--force", options.force), ("--json", context.json)):
        words += [name] if wanted else []
    return master_process.run(*words)
