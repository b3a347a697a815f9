"""Come in: show name and password once; from then on every command on this PC is this user's, and finds this master.

Without HOST it is the master that the other commands would ask. The first time, the fingerprint of its authority is
shown; `muster status` on its own machine tells which is right. On that machine itself you are asked whether the account
that has the master's port is right, unless that is root or you. The log-in is kept as a token, in a file of mode 0600
in ~/.config/muster/logins, for 30 days or until `muster logout`.
"""

from __future__ import annotations

import os

from client.cli.screen import asking
from client.refusals import coded_error
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from client.address import Address
    from client.api import Client
    from client.cli.context import Context

EXAMPLES = """examples:
  muster login queue.lab
  muster login queue.lab --user wang --ca-fingerprint sha256:1f3c…
  muster login queue.lab --link SECRET          with the link that an admin made (`muster users link`)
  muster login queue.lab --proxy socks5h://127.0.0.1:1080
  MUSTER_TOKEN=… muster queue                   programs bring a token instead (`muster tokens new`)"""
_TRIES = 3
_LABEL_SIZE = 80


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("host", nargs="?", metavar="HOST[:PORT]", help="where the master is")
    parser.add_argument("--user", metavar="NAME", help="the user to log in as (asked for otherwise)")
    parser.add_argument("--label", metavar="TEXT", help="what the log-in is called in `muster tokens list`")
    parser.add_argument("--link", metavar="LINK", help="choose a password with a link that works once (`-`: asked for)")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    if options.host and (options.master or options.conf):
        parser.error("HOST and --master or --conf: give one of them")
    if options.link and options.user:
        parser.error("--link and --user: a link is one user's")
    return options


def run(context: Context) -> int:
    """Do it."""
    from client.api import Client

    if not asking.is_terminal():
        raise coded_error("bad_request", "log_in_needs_terminal")
    where = context.find(context.options.host, closed=False)
    before, where.token = where.token, None
    where.end.ask = _ask_account
    with Client(where) as client:
        account = client.session.check_unheard()
        if not client.people.whoami()["is_shared"]:
            raise coded_error("conflict", "no_users_there", at=str(where))
        came = _redeem(context, client) if context.options.link else _log_in(context, client)
        _keep(where, came, account, tls=client.session.is_encrypted)
        if before is not None:
            _end(where, before)
        _tell(context, where, came)
    return 0


def _log_in(context: Context, client: Client) -> dict[str, Any]:
    """Ask for name and password, and again while they are wrong."""
    from wire.errors import UnauthenticatedError

    name = context.options.user or asking.ask_name("User", _account())
    for left in reversed(range(_TRIES)):
        password = asking.ask_password(f"Password of {harmless(name)} at {client.address}")
        try:
            return dict(client.people.log_in(name, password, _label(context)))
        except UnauthenticatedError as error:
            if not left:
                raise
            context.note(f"{harmless(str(error))}; try again")
    raise AssertionError("unreachable")


def _redeem(context: Context, client: Client) -> dict[str, Any]:
    """Of an address that an admin sent, the secret is what stands behind the `#`."""
    link = asking.ask_password("Link") if context.options.link == "-" else str(context.options.link)
    secret = link.rpartition("#")[2].strip()
    return dict(client.people.redeem(secret, asking.new_password("your log-in"), _label(context)))


def _ask_account(uid: int) -> bool:
    """Whether somebody at the terminal trusts an account of this machine that has the master's port. Others may have
    taken it while the master is down."""
    from client.cli.screen.terminal import said_yes
    from wire.listener import name_of

    return said_yes(
        f"The master's port on this machine is held by {harmless(name_of(uid))}.\n"
        "Is that the account that runs the master? Only then go on. Trust it from now on?"
    )


def _keep(where: Address, came: dict[str, Any], account: int | None, *, tls: bool) -> None:
    from client.address import PLAIN, logins_folder
    from client.logins import Login, Logins

    master = str(where) if where.trust is not None or where.is_here else f"{PLAIN}{where}"
    login = Login(
        where.name,
        came["token"],
        user=came["user"],
        until=came["until"],
        master=master,
        conf=where.conf,
        proxy=where.proxy,
        account=account,
        tls=tls,
    )
    Logins(logins_folder()).keep(login)


def _end(where: Address, token: str) -> None:
    """Revoke the log-in that this one replaces; it may have ended before."""
    from client.api import Client
    from wire.errors import MusterError

    with Client(where, token) as client:
        try:
            client.people.log_out()
        except MusterError:
            return


def _tell(context: Context, where: Address, came: dict[str, Any]) -> None:
    from client.text.quantities import moment

    if context.json:
        context.print_json({"master": str(where), **{key: came[key] for key in ("user", "role", "id", "until")}})
    context.say(
        f"logged in at {where} as {harmless(came['user'])} ({came['role']}) until {moment(came['until'])}; "
        "`muster logout` ends it"
    )


def _label(context: Context) -> str:
    import socket

    label: str = context.options.label or f"{_account()}@{socket.gethostname()}"
    return label[:_LABEL_SIZE]


def _account() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""
