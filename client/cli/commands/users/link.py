"""Make a link with which a user chooses a password, once, within three days; the one before it works no more.

Send it to nobody but that user."""

from __future__ import annotations

import argparse

from client.cli.labs.invitation import invitation, page, tell_reach
from client.text.quantities import moment
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster users link wang
  muster users link wang --json | jq -r .link"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NAME", help="who")


def run(context: Context) -> int:
    """Do it."""
    link = context.client.people.link(context.options.name)
    line, url = invitation(context)(link["link"]), page(context)(link["link"])
    if context.json:
        context.print_json({**link, "command": line, "url": url})
    context.note(f"for {harmless(link['name'])} alone, once, until {moment(link['until'])}; to be typed on the PC:")
    context.say(line)
    if url is not None:
        context.note("or to be opened in a browser:")
        context.say(url)
    tell_reach(context)
    return 0
