"""One machine, or several by their names: look at it, change its entry in the registry, set it aside, trust its key."""

from __future__ import annotations

import argparse
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster node show a
  muster node add b --ip 192.168.36.131 --user lab --gpus 2 --gpu-model RTX3090
  muster node trust b
  muster node drain a --reason "new fan" --wait
  muster node add --help"""
ACTIONS = {
    "list": "all machines, as `muster nodes`",
    "show": "all that is known of a node",
    "add": "write a node into the registry",
    "edit": "change its entry in the registry",
    "rm": "take nodes out of the registry; busy ones go after their last task",
    "drain": "let nodes, or single GPUs, finish what they have and take nothing new",
    "resume": "let drained nodes, or GPUs that were set aside, take tasks again",
    "doctor": "find out what ails nodes, with a cure for each finding",
    "trust": "look at a machine's host key and pin it",
    "token": "make the token with which a machine that the master cannot reach dials in",
    "lost": "give up what runs on machines that will not come back",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions, each a command of its own."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
    for name, text in ACTIONS.items():
        module = import_module(f"client.cli.commands.node.{name}")
        action = actions.add_parser(
            name,
            help=text,
            description=module.__doc__,
            epilog=module.EXAMPLES,
            formatter_class=parser.formatter_class,
            allow_abbrev=False,
        )
        module.arguments(action)
        _add_shared(action)


def _add_shared(parser: argparse.ArgumentParser) -> None:
    """What every command takes may stand behind the action, too. It has no defaults here: they would go before what
    was said in front of it."""
    for option in ("--conf", "--master", "--token", "--ca-fingerprint"):
        parser.add_argument(option, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    module = import_module(f"client.cli.commands.node.{options.action}")
    if hasattr(module, "check"):
        module.check(parser, options)
    return options


def run(context: Context) -> int:
    """Do it."""
    code: int = import_module(f"client.cli.commands.node.{context.options.action}").run(context)
    return code
