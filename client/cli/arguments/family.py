"""A command that is a family: `muster node drain`, `muster users add`. Each action is a module of its own in the
command's package, made like a command; `check(parser, options)` looks at what argparse cannot."""

from __future__ import annotations

import argparse
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

_SHARED = {"--conf": "conf", "--master": "master", "--token": "token", "--ca-fingerprint": "ca_fingerprint"}
_PROXY = "--proxy"


def add_actions(parser: argparse.ArgumentParser, package: str, actions: dict[str, str]) -> None:
    """Add the actions, which are told in a line each."""
    found = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
    for name, text in actions.items():
        module = import_module(f"{package}.{name}")
        action = found.add_parser(
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
    own = parser.format_usage()
    shared = _SHARED if _PROXY in own else {**_SHARED, _PROXY: "socks"}  # the proxy on the way to a node is another
    for option, dest in shared.items():
        parser.add_argument(option, dest=dest, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def parse(parser: argparse.ArgumentParser, argv: list[str], package: str) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    module = import_module(f"{package}.{options.action}")
    if hasattr(module, "check"):
        module.check(parser, options)
    return options


def run(context: Context, package: str) -> int:
    """Do the action."""
    code: int = import_module(f"{package}.{context.options.action}").run(context)
    return code
