"""Print a completion script for a shell. It is static: completing starts no Python and asks no master."""

from __future__ import annotations

import argparse
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster completion bash > ~/.local/share/bash-completion/completions/muster
  muster completion zsh > ~/.zfunc/_muster      (with fpath+=~/.zfunc in .zshrc)"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("shell", choices=["bash", "zsh"], help="which shell")


def run(context: Context) -> int:
    """Do it."""
    import shtab

    script = shtab.complete(_whole_parser(), shell=context.options.shell)
    if context.json:
        context.print_json({"shell": context.options.shell, "script": script})
    else:
        sys.stdout.write(script + "\n")
    return 0


def _whole_parser() -> argparse.ArgumentParser:
    import shtab

    from client.cli.arguments.parser import build_parser
    from client.cli.commands import COMMANDS
    from client.verbs import Verbs

    whole = argparse.ArgumentParser(prog="muster")
    commands = whole.add_subparsers()
    for name, text in COMMANDS.items():
        one = build_parser(name)
        for action in one._actions:  # noqa: SLF001  (the way that shtab documents)
            if action.dest in ("conf", "script", "batch", "log"):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.dest in ("dir", "cwd"):
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif action.dest == "verb":
                action.choices = Verbs().names
            elif (name, action.dest) == ("set", "name"):
                action.choices = Verbs().examples("setting.set", "name")
        commands.add_parser(name, help=text, parents=[one], add_help=False, usage=argparse.SUPPRESS)
    return whole
