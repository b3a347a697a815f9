"""The whole parser of a command, argparse's: for help, for what is wrong and for what is not plain (see
`client.cli.quick`, which reads all else)."""

from __future__ import annotations

import argparse
import re
from importlib import import_module

from client.cli.shared import declare
from client.cli.terminal import terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


_UNKNOWN = re.compile(r"(?:unrecognized arguments:|there is no option) (-\S+)")
_OPTION = re.compile(r"--[a-z][\w-]*")
_ELSEWHERE = {
    "--time": "--time-limit", "-t": "--time-limit", "--gres": "--gpus", "-G": "--gpus", "-J": "--name",
    "--job-name": "--name", "-c": "--cpus", "--cpus-per-task": "--cpus", "-d": "--after", "--dependency": "--after",
    "-o": "--log", "--output": "--log", "-w": "--node", "--nodelist": "--node", "-x": "--exclude", "-D": "--cwd",
    "--chdir": "--cwd", "--licenses": "--licence", "--license": "--licence", "-e": "--var", "--export": "--var",
    "--constraint": "--gpu-model", "--gpu-type": "--gpu-model", "--memory": "--mem", "--workdir": "--cwd",
}  # fmt: skip
"""What is typed by people who come from Slurm and other queues."""
_MOST_MEANT = 4


class Parser(argparse.ArgumentParser):
    """Wrong usage as one line in our form, exit 2."""

    def error(self, message: str) -> NoReturn:
        """Print the line and end. For an option that is not there, the one that was meant is named."""
        unknown = _UNKNOWN.search(message)
        meant = self.meant(unknown[1]) if unknown else ""
        self.exit(2, f"error: usage: {message}{meant}; see `{self.prog} --help`\n")

    def meant(self, option: str) -> str:
        """` (did you mean …?)` for an option that this command has not; "" where nothing is like it."""
        name = option.partition("=")[0]
        told = (line.strip().partition("  ")[0] for line in self.format_help().splitlines())
        known = [one for line in told if line.startswith("-") for one in _OPTION.findall(line)]
        if _ELSEWHERE.get(name) in known:
            found = [_ELSEWHERE[name]]
        elif name.startswith("--"):
            from difflib import get_close_matches

            found = get_close_matches(name, known, 1)
        else:
            found = [one for one in known if one[2:3] == name[1:2]]
        return f" (did you mean {' or '.join(found)}?)" if 0 < len(found) <= _MOST_MEANT else ""


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
