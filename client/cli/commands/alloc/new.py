"""Ask for GPUs, and wait until they are yours. They are until you release them or their time is over, whether anything
runs on them or not; they count for your quota all that while.
"""

from __future__ import annotations

import argparse
import sys

from client.cli.arguments import fields
from client.cli.screen import interrupt
from client.text.allocations import places_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster alloc exp --gpus 2
  muster alloc exp --gpus 4 --gpu-model A100 --time-limit 4h
  muster alloc pair --gpus 8 --nodes 2 --no-wait"""
OPTIONS = (
    "gpus", "gpu-ids", "gpus-on", "gpu-model", "gpu-mem", "nodes", "node", "exclude", "project", "priority",
    "time-limit", "begin",
)  # fmt: skip
"""Those of `submit` that make sense for what runs nothing."""
HELD = ("running", "paused")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NAME", help="what to call it: `muster submit --in NAME`")
    for option in OPTIONS:
        field, read, metavar, text = fields.VALUES[option]
        action = fields.REPEATED.get(option, "store")
        told = _HELP.get(option, text)
        parser.add_argument(f"--{option}", dest=field, type=read, metavar=metavar, help=told, action=action)
    others = {field for option, (field, *_) in fields.VALUES.items() if option not in (*OPTIONS, "name")}
    parser.set_defaults(**dict.fromkeys((*others, "variables", "share", "elastic", "hold")))
    parser.add_argument("--urgent", action="store_true", help="before everything that is not urgent")
    parser.add_argument("--no-wait", action="store_true", help="print its id at once, and let it wait by itself")


_HELP = {
    "gpus": "how many GPUs; 1-4: as many of these as are free then",
    "gpu-mem": "only GPUs with so much memory: 8000, 8g",
    "time-limit": "give it back after this long, and end what runs in it: 90 (seconds), 45m, 2h, 1-12:00",
}


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Of which GPUs?"""
    if options.gpus is None and options.gpu_ids is None and options.gpus_on is None:
        parser.error("alloc: --gpus N says how many GPUs (or --gpu-ids which)")


def run(context: Context) -> int:
    """Do it."""
    options, client = context.options, context.client
    said = {field: value for field, value in fields.spec(options).items() if field != "name"}
    asked: list[int] = []
    with interrupt.LastWords(lambda: interrupt.tell(_left(options.name, *asked))):
        task_id = client.allocations.new(options.name, **said)
        asked.append(task_id)
        context.done.append(f"allocation {options.name} (task {task_id}) was queued")
        if options.no_wait:
            if context.json:
                context.print_json({"id": task_id})
            context.say(str(task_id))
            return 0
        if sys.stderr.isatty():
            context.note(f"allocation {options.name} (task {task_id}); Ctrl-C leaves it waiting")
        task = client.allocations.granted(task_id)
    if task["state"] not in HELD:
        from wire.harmless import harmless

        reason = f": {task['reason']}" if task["reason"] else ""
        context.note(harmless(f"allocation {options.name}: {task['state'].replace('_', ' ')}{reason}"))
        return 1
    if context.json:
        context.print_json(task)
    context.say(f"allocation {options.name} (task {task_id}): {places_text(task['allocation'])}")
    return 0


def _left(name: str, task_id: int | None = None) -> str:
    """Return the note about an allocation that nobody waits for any more. `task_id`: None before the master
    answered."""
    if task_id is None:
        return f"\nif the master has heard of allocation {name}, it goes on waiting: `muster alloc list` shows it"
    return f"\nallocation {name} goes on waiting: `muster alloc list` shows it, `muster cancel {task_id}` ends it"
