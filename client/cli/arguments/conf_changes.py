"""Shared code of the commands that change the master's own files: which file, what is shown and asked before it is
written, and the password, where one is required."""

from __future__ import annotations

from client.cli.screen import asking
from client.cli.several import by_name
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Protocol, TypeAlias

    from client.cli.context import Context
    from client.shapes import FileWritten

    Written: TypeAlias = FileWritten

    class Write(Protocol):
        """Makes the change, or looks at it."""

        def __call__(self, *, dry_run: bool, password: str | None) -> Written:
            """Do it."""


FILES = ("conf", "registry")
NOW, START = "it holds from now on", "it holds from the next start of the master"


def add_file(parser: argparse.ArgumentParser) -> None:
    """Which of the files."""
    parser.add_argument("file", nargs="?", choices=FILES, default="conf", help="conf.json (default), or the registry")


def add(parser: argparse.ArgumentParser) -> None:
    """How it is changed."""
    parser.add_argument("--dry-run", action="store_true", help="only show what it would change")
    parser.add_argument("--version", metavar="VERSION", help="only while it is of this version")
    parser.add_argument("--password-file", metavar="FILE", help="read one's own password from FILE, or stdin (`-`)")
    by_name.add_yes(parser)


def make(context: Context, write: Write) -> int:
    """Show the difference, ask, and write it. Gives the exit code."""
    looked = write(dry_run=True, password=None)
    for line in looked["diff"]:
        context.say(harmless(line))
    if not looked["diff"]:
        context.note("it is so already: nothing was changed")
    if context.options.dry_run or not looked["diff"]:
        if context.json:
            context.print_json(looked)
        return 0
    if not by_name.agreed(context, f"Change {', '.join(map(harmless, looked['changed']))}?"):
        return 1
    made = _write(context, write)
    if context.json:
        context.print_json(made)
    context.say(f"written: {when(made)}; the file before is {harmless(made['kept'] or '')}")
    return 0


def when(made: Written) -> str:
    """When what was written holds."""
    if made["counts"] == "now":
        return NOW
    keys = made.get("at_start") or ()  # an older master names none
    rest = "; the rest holds from now on" if set(keys) != set(made["changed"]) else ""
    return f"{', '.join(map(harmless, keys))}: takes effect at the next start{rest}" if keys else START


def _write(context: Context, write: Write) -> Written:
    """Write it, with one's password where one is wanted and can be had."""
    from wire.errors import ForbiddenError

    file = context.options.password_file
    try:
        return write(dry_run=False, password=None if file is None else asking.read_password(file))
    except ForbiddenError as error:
        if error.key != "password_again" or file is not None or not asking.is_terminal():
            raise
    return write(dry_run=False, password=asking.ask_password("Your password"))
