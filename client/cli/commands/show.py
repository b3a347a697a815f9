"""Everything about a task, or about several."""

from __future__ import annotations

import time

from client.cli.arguments import ids
from client.cli.logs.log_end import MOST, log_end_of
from client.cli.screen.terminal import coloured, terminal_width
from client.text.attempts import attempts_table
from client.text.colours import painted_state
from client.text.task_page import log_end_lines, task_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context
    from client.shapes import TaskPage

EXAMPLES = """examples:
  muster show 7
  muster show 7 9-12
  muster show 7 --json | jq .log_path      (of several a list)"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser)


def run(context: Context) -> int:
    """Do it."""
    wanted = ids.flat(context)
    if len(wanted) == 1:
        task = context.client.show(wanted[0])
        log_end = log_end_of(context, task)
        if context.json:
            context.print_json({**task, **log_end})
        _tell(context, task, log_end)
        return 0
    return _several(context, wanted)


def _several(context: Context, wanted: list[int]) -> int:
    from client.cli.several.each import Refused
    from wire.errors import NotFoundError

    tasks: list[TaskPage] = []
    ends: list[dict[str, list[str]]] = []
    refused = Refused(context)
    for task_id in wanted:
        try:
            tasks.append(context.client.show(task_id))
            ends.append(log_end_of(context, tasks[-1]) if len(wanted) <= MOST else {})
        except NotFoundError as error:
            refused.add(task_id, error.code, str(error))
    if context.json:
        context.print_json([{**task, **log_end} for task, log_end in zip(tasks, ends, strict=True)])
    for number, (task, log_end) in enumerate(zip(tasks, ends, strict=True)):
        if number:
            context.say("")
        _tell(context, task, log_end)
    refused.tell()
    return 1 if refused else 0


def _tell(context: Context, task: TaskPage, log_end: dict[str, list[str]]) -> None:
    if context.json:
        return
    for label, value in task_page(task, time.time()):
        shown = painted_state(value) if label == "state" and coloured() else value
        context.say(f"{label + ':':<12}{shown}")
    attempts = task.get("attempts")  # masters before told of none
    if attempts:
        context.say("")
        for line in attempts_table(attempts, terminal_width()).splitlines():
            context.say(line)
    lines = log_end_lines(log_end.get("log_end") or [])
    if lines:
        context.say("")
    for line in lines:
        context.say(line)
