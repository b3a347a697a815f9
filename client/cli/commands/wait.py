"""Wait until tasks have ended. Exit 0 when all of them succeeded, else 1."""

from __future__ import annotations

import sys

from client.cli.arguments import fields, ids
from client.cli.screen import interrupt
from client.cli.screen.idle_note import IdleNote
from client.states import ALIVE, ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context
    from client.shapes import Task

EXAMPLES = """examples:
  muster wait 7
  muster wait 3-12 && echo all well
  muster wait 12/                      (all of an array)
  muster wait --mine                   (all of yours that wait or run now)
  muster wait --name bert              (all of yours of this name)
  muster wait --timeout 2h $(muster submit -- make data)"""
_SHOWN = 10
_CLEAR = "\r\x1b[K"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser, "*")
    parser.add_argument("--mine", action="store_true", help="all of yours that wait or run now")
    parser.add_argument(
        "--name", metavar="NAME", help="all of yours of this name, else the last one of them that ended"
    )
    parser.add_argument("--timeout", type=fields.seconds, metavar="TIME", help="give up after: 90, 5m, 2h")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    if options.name == "":
        parser.error("--name: a name is expected, this is empty")
    if sum((bool(options.ids), options.mine, options.name is not None)) != 1:
        parser.error("give one of: task ids, --mine, --name NAME")
    return options


def run(context: Context) -> int:
    """Do it."""
    wanted = _wanted(context)
    if not wanted:
        context.note("none of yours waits or runs")
    progress = _Progress(IdleNote(context, before=_CLEAR))
    try:
        with interrupt.LastWords(progress.end):
            known = context.client.wait(wanted, context.options.timeout, progress if sys.stderr.isatty() else None)
    except TimeoutError as error:
        context.note(f"error: timeout: {error}; `muster queue` shows what they do")
        return 1
    finally:
        progress.end()
    tasks = [known[task_id] for task_id in wanted]
    if context.json:
        context.print_json(tasks)
    return _judge(context, tasks)


def _wanted(context: Context) -> list[int]:
    if context.options.mine:
        return ids.of_state(context, None, with_allocations=False)
    name = context.options.name
    if name is None:
        return ids.flat(context)
    found = [task["id"] for task in context.client.named(name) if not task.get("is_allocation")]
    if found:
        return found
    # It may have ended before anybody could wait for it.
    from client import named

    ended = named.ended(context.client, name)
    if not ended:
        raise named.none_active(context.client, name)
    return [ended[0]["id"]]


def _judge(context: Context, tasks: list[Task]) -> int:
    from wire.exit_codes import signal_of
    from wire.harmless import harmless

    bad = [task for task in tasks if task["state"] != "succeeded"]
    for task in bad[:_SHOWN]:
        told = ", ".join(filter(None, (f"exit code {task['exit_code']}", signal_of(task["exit_code"]))))
        code = "" if task["exit_code"] is None else f" ({told})"
        reason = f": {task['reason']}" if task["reason"] and not task["reason"].startswith("exit code") else ""
        context.note(harmless(f"task {task['id']}: {task['state'].replace('_', ' ')}{code}{reason}"))
    if len(bad) > _SHOWN:
        context.note(f"… and {len(bad) - _SHOWN:,} more that did not succeed")
    return 1 if bad else 0


class _Progress:
    """One line on stderr, written over as things change. `note` has the lines above it."""

    def __init__(self, note: IdleNote) -> None:
        self.note = note
        self.shown = ""

    def __call__(self, known: dict[int, Task]) -> None:
        running = [task for task in known.values() if task["state"] == "running"]
        if [task for task in running if self.note(task["id"], task.get("warning"))]:
            self.shown = ""
        states = [task["state"] for task in known.values()]
        ended = sum(state in ENDED for state in states)
        alive = sum(state in ALIVE for state in states)
        line = f"{ended}/{len(states)} ended, {alive} running, {len(states) - ended - alive} waiting"
        if line != self.shown:
            sys.stderr.write(f"{_CLEAR}{line}")
            sys.stderr.flush()
        self.shown = line

    def end(self) -> None:
        """Take the line away."""
        if self.shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
