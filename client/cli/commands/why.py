"""Why a task waits, or why it ended as it did."""

from __future__ import annotations

from client.cli.arguments import ids
from client.text.task_page import why_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context
    from client.shapes import Why

EXAMPLES = """examples:
  muster why 7
  muster why 7 9-12"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser)


def run(context: Context) -> int:
    """Do it."""
    wanted = ids.flat(context)
    if len(wanted) != 1:
        return _several(context, wanted)
    why = context.client.why(wanted[0])
    if context.json:
        context.print_json(why)
        return 0
    for line in why_lines(why):
        context.say(line)
    return 0


def _several(context: Context, wanted: list[int]) -> int:
    from client.cli.each import Refused
    from wire.errors import NotFoundError

    refused = Refused(context)
    found: list[Why] = []
    for task_id in wanted:
        try:
            found.append(context.client.why(task_id))
        except NotFoundError as error:
            refused.add(task_id, error.code, str(error))
    if context.json:
        context.print_json(found)
    for why in found:
        for line in why_lines(why):
            context.say(line)
    refused.tell()
    return 1 if refused else 0
