"""Set a password, one's own or, as an admin, another's: asked for twice at the terminal, never an argument. All log-ins
of that user but this one end. A lost one of an admin's is set anew by the user who runs the master, or root, on its
machine, while it is up."""

from __future__ import annotations

import argparse

from client.cli import asking
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Who

EXAMPLES = """examples:
  muster users passwd
  muster users passwd wang
  pwgen 20 1 | muster users passwd wang --password-file -
  muster users passwd wang --remove"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="whose (default: yours)")
    parser.add_argument("--remove", action="store_true", help="let that user have no password (admins)")
    parser.add_argument("--old-password-file", metavar="FILE", help="read the old one of your own from FILE")
    asking.add_option(parser)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """A password is set, or taken away."""
    if options.remove and options.password_file is not None:
        parser.error("--remove and --password-file: give one of them")


def run(context: Context) -> int:
    """Do it."""
    options, people = context.options, context.client.people
    who = people.whoami()
    name: str = options.name or who["user"] or ""
    old = _old(context, who, name)
    password = None if options.remove else asking.chosen_password(options, harmless(name))
    people.set_password(password, options.name, old)
    if context.json:
        context.print_json({"name": name, "has_password": password is not None})
    context.say(f"user {harmless(name)}: " + ("the password is set" if password is not None else "has no password now"))
    return 0


def _old(context: Context, who: Who, name: str) -> str | None:
    """The old password, which only one's own wants; the kernel's word is enough, too."""
    if who["user"] != name or who["via"] == "owner":
        return None
    if context.options.old_password_file is not None:
        return asking.read_password(context.options.old_password_file)
    return asking.ask_password("Old password (none yet: Enter)") if asking.is_terminal() else None
