"""One verb for several things by their names: goes on after a refusal, says which were refused, gives the exit code."""

from __future__ import annotations

import sys

from client.cli.screen.terminal import note, said_yes
from client.refusals import coded_error
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from client.cli.context import Context


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add --yes, for what is asked about first."""
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask; needed where nobody can be asked")


def each(context: Context, names: list[str], act: Callable[[str], Any]) -> int:
    """Call `act` for each name, once. With --json the list of what it gave is printed; None is left out and counts as
    not done. Gives 1 when one was refused or not done."""
    from wire.errors import MusterError, UnreachableError

    results: list[Any] = []
    code = 0
    for name in dict.fromkeys(names):
        try:
            result = act(name)
        except UnreachableError:
            raise
        except MusterError as error:
            context.note(f"error: {error.code}: {harmless(str(error))}")
            code = 1
        else:
            results += [] if result is None else [result]
            code = code if result is not None else 1
    if context.json:
        context.print_json(results)
    return code


def agreed(context: Context, question: str) -> bool:
    """Whether to go on: with --yes, or when somebody at the terminal says so. Raises BadRequestError where nobody can
    be asked."""
    if context.options.yes:
        return True
    if not sys.stdin.isatty():
        raise coded_error("bad_request", "nobody_to_ask", question=question)
    if said_yes(question):
        return True
    note("nothing was done")
    return False
