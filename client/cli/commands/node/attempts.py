"""List the attempts on a node whose records the lab lost (`muster up --skip-damaged`, a backup). Each keeps running and
keeps its GPUs until somebody adopts, ends or dismisses it.

With --adopt it is a task again, with its end and its log; the command, and what it asked for besides GPUs, are not
known any more. With --end it is ended as by `muster cancel`. With --dismiss it is left alone, and holds no GPU but
those on which it is seen to compute: for what is known to be no task's, or must not be touched.
"""

from __future__ import annotations

import argparse
import sys

from client.cli.several import by_name, node_each
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import UnknownAttempt

EXAMPLES = """examples:
  muster node attempts a
  muster node attempts a --adopt 12.1.5f0c2a9b
  muster node attempts a --adopt 12.1.5f0c2a9b --gpu 0,1      where nobody can say which GPUs it has
  muster node attempts a --adopt 12.1.5f0c2a9b --owner wang
  muster node attempts a --end 12.1.5f0c2a9b
  muster node attempts a --dismiss 12.1.5f0c2a9b"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NAME", help="the node's name, see `muster nodes`")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--adopt", metavar="LAUNCH", help="make this one a task again")
    what.add_argument("--end", metavar="LAUNCH", help="end this one")
    what.add_argument("--dismiss", metavar="LAUNCH", help="leave this one alone, and let others have its GPUs")
    node_each.add_gpu(parser, "with --adopt: the GPUs that it has, where nobody can say which")
    parser.add_argument("--owner", metavar="NAME", help="with --adopt: the user whose task it is")
    parser.add_argument("--account", metavar="NAME", help="which one, where the agents of several accounts have it")
    by_name.add_yes(parser)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse what the parser cannot judge alone."""
    if options.gpus and not options.adopt:
        parser.error("--gpu goes with --adopt")
    if options.owner is not None and not options.adopt:
        parser.error("--owner goes with --adopt")
    if options.account is not None and not (options.adopt or options.end or options.dismiss):
        parser.error("--account goes with --adopt, --end or --dismiss")


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    if options.adopt:
        return _adopt(context, options.name, options.adopt)
    if options.end:
        return _end(context, options.name, options.end)
    if options.dismiss:
        return _dismiss(context, options.name, options.dismiss)
    found = context.client.unknown_attempts(options.name)
    if context.json:
        context.print_json(found)
    elif not found:
        context.say(f"node {harmless(options.name)}: no attempts of unknown origin")
    else:
        _print(context, found)
    return 0


def _adopt(context: Context, name: str, launch_id: str) -> int:
    options = context.options
    task = context.client.adopt_attempt(name, launch_id, options.gpus, owner=options.owner, account=options.account)
    if context.json:
        context.print_json(task)
    else:
        context.say(f"attempt {harmless(launch_id)} is task {task['id']} of {harmless(task['owner'])}: it runs")
    return 0


def _end(context: Context, name: str, launch_id: str) -> int:
    shown = f"attempt {harmless(launch_id)} on node {harmless(name)}"
    if not by_name.agreed(context, f"End {shown}?"):
        return 1
    one = context.client.end_attempt(name, launch_id, account=context.options.account)
    if context.json:
        context.print_json(one)
    else:
        context.say(f"{shown}: it is being ended")
    return 0


def _dismiss(context: Context, name: str, launch_id: str) -> int:
    shown = f"attempt {harmless(launch_id)} on node {harmless(name)}"
    if not by_name.agreed(context, f"Let others have the GPUs of {shown}, which runs on?"):
        return 1
    one = context.client.dismiss_attempt(name, launch_id, account=context.options.account)
    if context.json:
        context.print_json(one)
    else:
        context.say(f"{shown}: it is left alone, and holds no GPU but those on which it is seen to compute")
    return 0


def _print(context: Context, found: list[UnknownAttempt]) -> None:
    from client.cli.screen.terminal import terminal_width
    from client.text.unknown_attempts import unknown_table

    sys.stdout.write(unknown_table(found, terminal_width()))
    if any(not one["ended_by"] and not one.get("dismissed_by") for one in found):
        context.note("adopt one with --adopt LAUNCH, or end it with --end LAUNCH; until then it keeps its GPUs")
