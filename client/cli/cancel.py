"""End tasks: waiting ones leave the queue, running ones get TERM and, after a grace, KILL, with their whole tree."""

from __future__ import annotations

import argparse

from client.cli import ids
from client.cli.text import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster cancel 7
  muster cancel 3-12 15
  muster cancel --mine"""
_SHOWN = 10


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser, "*")
    parser.add_argument("--mine", action="store_true", help="all of yours")
    parser.add_argument("--all", action="store_true", help="everybody's")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    if sum([bool(options.ids), options.mine, options.all]) != 1:
        parser.error("give one of: task ids, --mine, --all")
    return options


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    done = context.client.cancel(ids.flat(options), everything=options.all, mine=options.mine)
    refused = done.get("refused") or {}
    if context.json:
        context.print_json(done)
    if done["cancelled"]:
        context.say(f"cancelled: {listed(done['cancelled'])}")
    if done["signalled"]:
        context.say(f"told to end: {listed(done['signalled'])} (`muster wait` waits until they have)")
    if not (done["cancelled"] or done["signalled"] or refused):
        context.say("nothing to cancel")
    codes = done.get("codes") or {}
    for task_id, why in list(refused.items())[:_SHOWN]:
        context.note(f"error: {codes.get(task_id, 'conflict')}: {harmless(why)}")
    if len(refused) > _SHOWN:
        context.note(f"… and {len(refused) - _SHOWN:,} more were refused")
    return 1 if refused else 0


def listed(task_ids: list[int]) -> str:
    """Ids with ranges folded: 3-12, 15."""
    parts: list[list[int]] = []
    for task_id in sorted(task_ids):
        if parts and parts[-1][1] == task_id - 1:
            parts[-1][1] = task_id
        else:
            parts.append([task_id, task_id])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
