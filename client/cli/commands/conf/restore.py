"""Put a version back that a change from afar has replaced, as `muster conf kept` names it, secrets and all. The
difference is shown, and asked about; what stands there now is kept in its turn."""

from __future__ import annotations

import argparse

from client.cli.arguments import conf_changes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster conf restore conf.json.20261124T081500Z-0a1b2c3d
  muster conf restore gpu_slaver_info.json.20261124T081500Z-0a1b2c3d registry --dry-run"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("kept", metavar="NAME", help="which version")
    conf_changes.add_file(parser)
    conf_changes.add(parser)


def run(context: Context) -> int:
    """Do it."""
    options, conf = context.options, context.client.conf
    version = options.version or conf.read(options.file)["version"]

    def write(*, dry_run: bool, password: str | None) -> conf_changes.Written:
        return conf.restore(options.file, options.kept, version, dry_run=dry_run, password=password)

    return conf_changes.make(context, write)
