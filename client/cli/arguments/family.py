"""A command that is a family: `muster node drain`, `muster users add`. Each action is a module of its own in the
command's package, made like a command; `check(parser, options)` looks at what argparse cannot."""

from __future__ import annotations

import argparse
from importlib import import_module

from client.cli.arguments.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from client.cli.context import Context

    Arguments: TypeAlias = Callable[[argparse.ArgumentParser], None]
    Parse: TypeAlias = Callable[[argparse.ArgumentParser, list[str]], argparse.Namespace]
    Run: TypeAlias = Callable[[Context], int]

_SHARED = {"--conf": "conf", "--master": "master", "--token": "token", "--ca-fingerprint": "ca_fingerprint"}
_PROXY = "--proxy"


class _Family:
    """The command that a package of `actions` is; each has a line in its help."""

    def __init__(self, package: str, actions: dict[str, str]) -> None:
        self._package = package
        self._actions = actions
        self._parsers: dict[str, argparse.ArgumentParser] = {}

    def _module(self, action: str) -> Any:
        return import_module(f"{self._package}.{action}")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the actions, each a command of its own."""
        found = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
        for name, text in self._actions.items():
            module = self._module(name)
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
            self._parsers[name] = action

    def parse(self, parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
        """Read the command line. Without an action it is `list`, where there is that."""
        if "list" in self._actions and not _names_action(argv):
            argv = ["list", *argv]
        options, stray = parser.parse_known_args(argv)
        if stray:
            whole: argparse.ArgumentParser = self._parsers[options.action]
            whole.error(f"unrecognized arguments: {' '.join(stray)}")
        module = self._module(options.action)
        if hasattr(module, "check"):
            module.check(parser, options)
        return options

    def run(self, context: Context) -> int:
        """Do the action."""
        code: int = self._module(context.options.action).run(context)
        return code


def of(package: str, actions: dict[str, str]) -> tuple[Arguments, Parse, Run]:
    """The `arguments`, `parse` and `run` of a family: all that its package has besides its actions."""
    family = _Family(package, actions)
    return family.arguments, family.parse, family.run


def _names_action(argv: list[str]) -> bool:
    """Does a word stand there that is no option, nor the value of one, or is help asked for?"""
    before = ""
    for word in argv:
        if word in ("-h", "--help", "--") or not (word.startswith("-") or before in (*_SHARED, _PROXY)):
            return True
        before = word
    return False


def _add_shared(parser: argparse.ArgumentParser) -> None:
    """Accept the options of every command behind the action, too. They have no defaults here: a default would override
    a value that was given before the action."""
    own = parser.format_usage()
    shared = _SHARED if _PROXY in own else {**_SHARED, _PROXY: "socks"}  # the proxy on the way to a node is another
    for option, dest in shared.items():
        parser.add_argument(option, dest=dest, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    if isinstance(parser, Parser):
        parser.besides = (*_SHARED, _PROXY, "--json")
