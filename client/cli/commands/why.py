"""Why a task waits, or why it ended as it did."""

from __future__ import annotations

from client.cli.arguments import ids
from client.cli.logs.log_end import MOST, log_end_of
from client.text.task_page import log_end_lines, why_lines

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
    log_end = log_end_of(context, why)
    if context.json:
        context.print_json({**why, **log_end})
        return 0
    _tell(context, why, log_end)
    return 0


def _tell(context: Context, why: Why, log_end: dict[str, list[str]]) -> None:
    for line in (*why_lines(why), *(f"  {line}" for line in log_end_lines(log_end.get("log_end") or []))):
        context.say(line)


def _several(context: Context, wanted: list[int]) -> int:
    from client.cli.several.each import Refused
    from wire.errors import NotFoundError

    refused = Refused(context)
    found: list[Why] = []
    ends: list[dict[str, list[str]]] = []
    for task_id in wanted:
        try:
            found.append(context.client.why(task_id))
            ends.append(log_end_of(context, found[-1]) if len(wanted) <= MOST else {})
        except NotFoundError as error:
            refused.add(task_id, error.code, str(error))
    if context.json:
        context.print_json([{**why, **log_end} for why, log_end in zip(found, ends, strict=True)])
    for why, log_end in zip(found, ends, strict=True):
        _tell(context, why, log_end)
    refused.tell()
    return 1 if refused else 0
