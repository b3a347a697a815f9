"""Queue ended tasks again, each as a new attempt of the same task."""

from __future__ import annotations

from client.cli.arguments import fields, ids
from client.cli.several import each
from client.states import ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster retry 7
  muster retry 3-12
  muster retry 12/ --state failed      (what failed of an array)
  muster retry --state failed          (all of yours that failed; with --all everybody's)"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser, "*")
    parser.add_argument(
        "--state", type=fields.states, action="extend", metavar="STATE[,…]", help="those of yours that ended so"
    )
    parser.add_argument("--all", action="store_true", help="with --state: everybody's")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    is_array = bool(options.ids) and all(isinstance(one, ids.Whole) for group in options.ids for one in group)
    neither_or_both = bool(options.ids) == bool(options.state) and not is_array
    if neither_or_both or (options.all and (is_array or not options.state)):
        parser.error("give task ids, or --state STATE (and --all for everybody's)")
    living = [state for state in options.state or () if state not in ENDED]
    if living:
        parser.error(
            f"--state: {living[0]} tasks have not ended; only {', '.join(sorted(ENDED))} ones can be tried again"
        )
    return options


def run(context: Context) -> int:
    """Do it."""
    if not context.options.state:
        return each.task(context, context.client.retry, "queued again", states=ENDED)
    if context.options.ids:
        wanted = ids.flat(context, context.options.state)
        return each.task(context, context.client.retry, "queued again", wanted=wanted)
    wanted = ids.of_state(context, context.options.state)
    if not wanted:
        context.say("no task is like that")
    return each.task(context, context.client.retry, "queued again", wanted=wanted)
