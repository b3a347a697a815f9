"""The full parser of a command, built with argparse: for help, for errors and for complex command lines.
`client.cli.arguments.quick` parses the simple ones."""

from __future__ import annotations

import argparse
import re
from importlib import import_module

from client.cli.arguments.shared import declare
from client.cli.screen.terminal import terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


_UNKNOWN = re.compile(r"(?<=^unrecognized arguments: )-\S+")
_CHOICE = re.compile(r"invalid choice: '([^']*)'(?= \(choose from (.*)\)$)")
_OPTION = re.compile(r"--[a-z][\w-]*")


class Parser(argparse.ArgumentParser):
    """Reports a usage error as one line, exit status 2."""

    is_key: Callable[[str], bool] | None = None
    """Tells whether a word is a key of the KEY=VALUE arguments; None if the command has none."""
    besides: tuple[str, ...] = ()
    """Options that the command takes and its help does not show."""

    said: tuple[str, ...] = ()
    """The words of the last call."""

    def error(self, message: str) -> NoReturn:
        """Print the error with the most similar option or key, and exit."""
        self.exit(2, f"error: usage: {self._with_meant(message)}; see `{self.prog} --help`\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """See ArgumentParser."""
        self.said = tuple(args or ())
        return super().parse_known_args(args, namespace)

    def _with_meant(self, message: str) -> str:
        wrong = _UNKNOWN.search(message)
        meant = self.meant(wrong[0]) if wrong else ""
        if not meant and self.is_key is not None:
            from client.cli.arguments import pairs

            found = pairs.otherwise(self.said, self.is_key, self._told())
            if found is not None:
                return f"{found[0]} is written {found[1]}"
        choice = _CHOICE.search(message)
        if choice:
            from client.cli.arguments import nearest

            wrong, meant = choice, nearest.key(choice[1], choice[2].replace("'", "").split(", "))
        return f"{message[: wrong.end()]}{meant}{message[wrong.end() :]}" if wrong else message

    def meant(self, option: str) -> str:
        """Return ` (did you mean …?)` for an unknown option; "" if no option is similar."""
        from client.cli.arguments import nearest

        return nearest.option(option.partition("=")[0], self._told())

    def _told(self) -> list[str]:
        """Return the options of the command."""
        told = (line.strip().partition("  ")[0] for line in self.format_help().splitlines())
        return [*(one for line in told if line.startswith("-") for one in _OPTION.findall(line)), *self.besides]


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse creates one of these for each option; its own loads shutil."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=(terminal_width() or 100) - 2)


def build_parser(name: str, prog: str = "muster") -> Parser:
    """Return the parser of one command."""
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
