"""Say who belongs to a group, who looks after its members, and what their tasks may have at a time, all together
(quotas; `none` is no bound). A mentor need not be a member."""

from __future__ import annotations

import argparse

from client.cli.arguments import fields, pairs, quotas
from client.text.people import quota_text
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster groups edit nlp --add wang,li
  muster groups edit nlp --add-mentor chen --remove li
  muster groups edit nlp max_total_gpus=16"""
_CHANGES = {
    "add": "users to add",
    "remove": "users to take out",
    "add_mentor": "users who look after the members from now on",
    "remove_mentor": "users who do so no more",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="GROUP", help="which")
    text = f"keys: {', '.join(quotas.KEYS)}"
    pairs.add(parser, "changes", quotas.change, quotas.KEYS.__contains__, nargs="*", text=text)
    for dest, told in _CHANGES.items():
        option = "--" + dest.replace("_", "-")
        parser.add_argument(option, action="extend", type=fields.words, default=[], metavar="NAME[,…]", help=told)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """There is something to change."""
    if not options.changes and not any(getattr(options, dest) for dest in _CHANGES):
        parser.error("groups edit: give --add, --remove, --add-mentor, --remove-mentor, or KEY=VALUE")


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    group = context.client.people.edit_group(
        options.name,
        add=options.add,
        remove=options.remove,
        add_mentors=options.add_mentor,
        remove_mentors=options.remove_mentor,
        **dict(options.changes),
    )
    if context.json:
        context.print_json(group)
    told = {"members": group["members"], "mentors": group["mentors"]}
    words = "; ".join(f"{what} {', '.join(map(harmless, names)) or 'none'}" for what, names in told.items())
    bounds = quota_text(group["quota"])
    context.say(f"group {harmless(options.name)}: {words}" + (f"; {bounds}" if bounds else ""))
    return 0
