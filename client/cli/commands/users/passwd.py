"""Set a password, one's own or, as an admin, another's: asked for twice at the terminal, never an argument. All log-ins
of that user but this one end. A lost one of an admin's is set anew by the user who runs the master, or root, on its
machine, be it up or down."""

from __future__ import annotations

import argparse

from client.cli.screen import asking
from client.refusals import coded_error
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Who
    from wire.errors import UnreachableError

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
    from wire.errors import UnreachableError

    options, people = context.options, context.client.people
    try:
        who = people.whoami()
    except UnreachableError as error:
        return _offline(context, error)
    name: str = options.name or who["user"] or ""
    old = _old(context, who, name)
    password = None if options.remove else asking.chosen_password(options, harmless(name))
    people.set_password(password, options.name, old)
    _tell(context, name, has_password=password is not None)
    return 0


def _tell(context: Context, name: str, *, has_password: bool) -> None:
    if context.json:
        context.print_json({"name": name, "has_password": has_password})
    context.say(f"user {harmless(name)}: " + ("the password is set" if has_password else "has no password now"))


def _offline(context: Context, error: UnreachableError) -> int:
    """The master does not answer. Where its conf.json lies here it is asked for no longer: what counts then is whose
    its files are, so nobody comes this way with a token."""
    import subprocess

    from client.cli.programs import master_process

    options, where = context.options, context.address
    if where.conf is None or context.client.token != where.token:
        raise error
    if not options.name:
        raise coded_error("bad_request", "whose_password", why=error.args[0])
    context.note(f"note: the master at {where} does not answer: the password is set in its files")
    password = None if options.remove else asking.chosen_password(options, harmless(options.name))
    words = ["--conf", where.conf, "passwd", options.name, *(["--remove"] if options.remove else [])]
    done = subprocess.run(
        master_process.command(*words), cwd=master_process.folder(), env=master_process.environment(),
        input=f"{password or ''}\n".encode(), check=False,
    )  # fmt: skip
    if done.returncode == 0:
        _tell(context, options.name, has_password=password is not None)
    return done.returncode


def _old(context: Context, who: Who, name: str) -> str | None:
    """The old password, which only one's own wants; the kernel's word is enough, too."""
    if who["user"] != name or who["via"] == "owner":
        return None
    if context.options.old_password_file is not None:
        return asking.read_password(context.options.old_password_file)
    return asking.ask_password("Old password (none yet: Enter)") if asking.is_terminal() else None
