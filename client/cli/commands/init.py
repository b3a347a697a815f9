"""Write a conf.json and a registry that work on this machine; with --from, take over the lab of an old system."""

from __future__ import annotations

import argparse
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster init                       here
  muster init lab && cd lab && muster up --detach
  muster init --from ~/master --dry-run
  muster init --from ~/master --bind 192.168.36.10 --networks 192.168.36.0/24
  muster init --back ~/master       to the old system, with what has run meanwhile as run"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("dir", nargs="?", metavar="DIR", help="the folder (default: this one)")
    parser.add_argument(
        "--force", action="store_true", help="write over what is there; with --from: though the old master runs"
    )
    group = parser.add_argument_group("taking over an old system")
    group.add_argument("--from", dest="old", metavar="OLD", help="its `master` folder, or the one above")
    group.add_argument("--back", metavar="OLD", help="the way back: its files as they were, what has run marked as run")
    group.add_argument("--bind", metavar="ADDRESS", help="where to listen (default: 127.0.0.1, or asked)")
    group.add_argument("--networks", metavar="NET,…", help="where desktop clients may come from: 192.168.36.0/24,…")
    group.add_argument(
        "-y", "--yes", action="store_true", help="hold waiting tasks that seem to have run; ask nothing of it"
    )
    group.add_argument("--dry-run", action="store_true", help="tell all, write nothing")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Parse, and refuse options that mean nothing together."""
    options = parser.parse_args(argv)
    if options.old is not None and options.dir is not None:
        parser.error("--from takes the lab over where it lies: no DIR with it")
    if options.back is not None and (options.dir is not None or options.old is not None):
        parser.error("--back goes alone")
    for name in ("bind", "networks", "dry_run", "yes"):
        if options.old is None and getattr(options, name):
            parser.error(f"--{name.replace('_', '-')} goes with --from")
    return options


def run(context: Context) -> int:
    """Do it."""
    if context.options.back is not None:
        return _go_back(context)
    return _take_over(context) if context.options.old is not None else _write(context)


def _write(context: Context) -> int:
    import subprocess

    from client.cli import master_process

    folder = os.path.abspath(context.options.dir or ".")
    words = ["init", folder, *(["--force"] if context.options.force else [])]
    if not context.json:
        return master_process.run(*words)
    done = subprocess.run(
        master_process.command(*words), cwd=master_process.folder(), stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode == 0:
        context.print_json({"conf": os.path.join(folder, "conf.json")})
    return done.returncode


def _go_back(context: Context) -> int:
    from client.cli import master_process

    words = ["init", "--back", os.path.abspath(os.path.expanduser(context.options.back))]
    return master_process.run(*words, *(["--json"] if context.json else []))


def _take_over(context: Context) -> int:
    from client.cli import master_process

    options = context.options
    words = ["init", "--from", os.path.abspath(os.path.expanduser(options.old))]
    for name, value in (("--bind", options.bind), ("--networks", options.networks)):
        words += [f"{name}={value}"] if value is not None else []
    for name, wanted in (
        ("--force", options.force),
        ("--dry-run", options.dry_run),
        ("--yes", options.yes),
        ("--json", context.json),
    ):
        words += [name] if wanted else []
    return master_process.run(*words)
