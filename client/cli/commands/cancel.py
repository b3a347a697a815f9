"""End tasks: waiting ones leave the queue, running ones get TERM and, after a grace, KILL, with their whole tree."""

from __future__ import annotations

import sys

from client.cli.arguments import fields, ids
from client.cli.several import each
from client.states import ENDED, STATES
from client.text.quantities import counted
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context
    from client.shapes import Cancelled

EXAMPLES = """examples:
  muster cancel 7
  muster cancel 3-12 15
  muster cancel 12/                    (what waits or runs of the array of which 12 is the first)
  muster cancel --mine
  muster cancel bert                   (the only active one of yours of this name)
  muster cancel --name bert            (all of yours of this name)
  muster cancel --state waiting,held       (of yours; with --all everybody's)"""


_NONE: Cancelled = {"cancelled": [], "signalled": [], "refused": {}, "codes": {}, "messages": {}}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser, "*")
    parser.add_argument("--mine", action="store_true", help="all of yours")
    parser.add_argument("--all", action="store_true", help="everybody's; at a terminal it asks first")
    parser.add_argument("--name", metavar="NAME", help="all of yours of this name")
    parser.add_argument(
        "--state", type=fields.states, action="extend", metavar="STATE[,…]", help="those of yours in such a state"
    )
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    if options.mine and options.all:
        parser.error("--mine and --all: give one of them")
    if options.name == "":
        parser.error("--name: a name is expected, this is empty")
    if options.all and options.name is not None:
        parser.error("--name means your own tasks: leave out --all, or give ids")
    if bool(options.ids) == bool(options.mine or options.all or options.state or options.name is not None):
        parser.error("give one of: task ids, --mine, --all, --state STATE, --name NAME")
    over = [state for state in options.state or () if state in ENDED]
    if over:
        parser.error(f"--state: {over[0]} tasks have ended already (`muster rm` deletes them)")
    return options


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    if options.all and not _agreed(context):
        return 1
    wanted = ids.flat(context, set(STATES) - ENDED) if options.ids else []
    if options.ids and not wanted:
        done = _NONE
    elif options.ids:
        done = context.client.cancel(wanted)
    else:
        # The master looks which are in the state: one that has started meanwhile is not ended as a waiting one.
        done = context.client.cancel(
            everything=options.all, mine=not options.all, states=options.state, name=options.name
        )
    names = done.get("names") or {}
    cancelled = f"cancelled: {each.ids_and_names(done['cancelled'], names)}" if done["cancelled"] else ""
    told_to_end = f"told to end: {each.ids_and_names(done['signalled'], names)}" if done["signalled"] else ""
    if cancelled or told_to_end:
        context.done.append("; ".join(filter(None, (cancelled, told_to_end))))
    if context.json:
        context.print_json(done)
    if cancelled:
        context.say(cancelled)
    if told_to_end:
        context.say(f"{told_to_end} (`muster wait` waits until they have)")
    if not (done["cancelled"] or done["signalled"] or done["refused"]):
        named = "" if options.name is None else f": no active task of yours is called {harmless(repr(options.name))}"
        context.say(f"nothing to cancel{named}")
    refused = each.Refused(context)
    codes = done.get("codes") or {}
    for task_id, why in done["refused"].items():
        refused.add(int(task_id), codes.get(task_id, "conflict"), why)
    refused.tell()
    return 1 if refused else 0


def _agreed(context: Context) -> bool:
    """Whether to end everybody's tasks. Only somebody at a terminal is asked: a script means what it says."""
    if context.options.yes or not sys.stdin.isatty():
        return True
    counts = context.client.info().get("tasks") or {}
    wanted = context.options.state or [state for state in STATES if state not in ENDED]
    count = sum(counts.get(state, 0) for state in wanted)
    if not count:
        return True
    from client.cli.several.by_name import agreed

    return agreed(context, f"This ends {counted(count, 'task')}, whoever submitted them. Go on?")
