"""The whole parser of a command, argparse's: for help, for what is wrong and for what is not plain (see
`client.cli.quick`, which reads all else)."""

from __future__ import annotations

import argparse
from importlib import import_module

from client.cli.shared import declare
from client.cli.terminal import terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Wrong usage as one line in our form, exit 2."""

    def error(self, message: str) -> NoReturn:
        """Print the line and end."""
        self.exit(2, f"error: usage: {message}; see `{self.prog} --help`\n")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse makes one of these for each option and would load shutil for it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=(terminal_width() or 100) - 2)


def build_parser(name: str, prog: str = "muster") -> Parser:
    """The parser of one command."""
    module = import_module(f"client.cli.commands.{name}")
    parser = Parser(
        prog=f"{prog} {name}",
        description=module.__doc__,
        epilog=module.EXAMPLES,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    declare(module, parser)
    return parser
