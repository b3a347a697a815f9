"""One verb for several tasks: goes on after a refusal, says which were refused, and gives the exit code."""

from __future__ import annotations

from client.cli import ids
from client.cli.text import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from client.cli.context import Context


def task(context: Context, verb: Callable[[int], Any], said: str, *, as_json: bool = True) -> int:
    """Call `verb` for each of the ids; `said` is told of each that went well. Gives 1 when one was refused.
    `as_json`: print the list of results with --json; without, the caller does."""
    from wire.errors import MusterError, UnreachableError

    results: list[Any] = []
    code = 0
    for task_id in ids.flat(context.options):
        try:
            results.append(verb(task_id))
        except UnreachableError:
            raise
        except MusterError as error:
            context.note(f"error: {error.code}: {harmless(str(error))}")
            code = 1
        else:
            context.say(f"task {task_id}: {said}")
    if context.json and as_json:
        context.print_json(results)
    return code
