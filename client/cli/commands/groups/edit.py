"""Say who belongs to a group, and who looks after its members. A mentor need not be a member."""

from __future__ import annotations

import argparse

from client.cli.arguments import fields
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster groups edit nlp --add wang,li
  muster groups edit nlp --add-mentor chen --remove li"""
_CHANGES = {
    "add": "users to add",
    "remove": "users to take out",
    "add_mentor": "users who look after the members from now on",
    "remove_mentor": "users who do so no more",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="GROUP", help="which")
    for dest, text in _CHANGES.items():
        option = "--" + dest.replace("_", "-")
        parser.add_argument(option, action="extend", type=fields.words, default=[], metavar="NAME[,…]", help=text)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """There is something to change."""
    if not any(getattr(options, dest) for dest in _CHANGES):
        parser.error("groups edit: give --add, --remove, --add-mentor or --remove-mentor")


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    group = context.client.people.edit_group(
        options.name,
        add=options.add,
        remove=options.remove,
        add_mentors=options.add_mentor,
        remove_mentors=options.remove_mentor,
    )
    if context.json:
        context.print_json(group)
    told = {"members": group["members"], "mentors": group["mentors"]}
    words = "; ".join(f"{what} {', '.join(map(harmless, names)) or 'none'}" for what, names in told.items())
    context.say(f"group {harmless(options.name)}: {words}")
    return 0
