"""Invitations with a link: the line that a user types on their PC, the address to open in a browser if there is a
console, and a file with the lines of many users."""

from __future__ import annotations

import os
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

    from client.address import Address
    from client.cli.context import Context
    from client.shapes import Link

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""With what a formula begins, in one program or another."""


def invitation(context: Context) -> Callable[[str], str]:
    """A maker of that line, of a link's secret. It names the master as others reach it, as far as we know, and the
    authority that it will show, so that nobody has to compare fingerprints."""
    info = context.client.info()
    place = reached_at(context.address, info.get("bind") or "")
    authority = (info.get("tls") or {}).get("authority")
    pinned = f" --ca-fingerprint {authority}" if authority else ""
    return lambda link: login_line(place, link) + pinned


def tell_reach(context: Context) -> None:
    """Say so where the lines that were made are of use on this machine only."""
    from client.address import is_loopback
    from wire.message import Message

    if is_loopback(context.client.info().get("bind") or ""):
        context.note(Message("this_machine_only"))


def login_line(place: str, link: str) -> str:
    """Return the command that logs in with a link's secret. `place`: HOST or HOST:PORT."""
    return f"muster login {shlex.quote(place)} --link {shlex.quote(link)}"


def reached_at(where: Address, bind: str) -> str:
    """HOST or HOST:PORT of a master that we reach at `where`, as others reach it. `bind`: its address in conf.json."""
    from client.address import DEFAULT_DATA_PORT, is_loopback

    # A master that listens on loopback alone is reached by no name of this machine: those are in its network.
    is_named = where.is_here and not is_loopback(bind)
    host = _name_of_this() if is_named else where.host
    host = f"[{host}]" if ":" in host else host
    return host if where.data == DEFAULT_DATA_PORT else f"{host}:{where.data}"


def page(context: Context) -> Callable[[str], str | None]:
    """A maker of the address that opens the console with a link's secret, None where there is no console. The secret
    stands behind `#`: no server and no proxy gets to see it."""
    console = context.client.info().get("console")
    return lambda link: f"{console}#link={link}" if console else None


def _name_of_this() -> str:
    import socket

    return socket.gethostname()


def write_links(context: Context, path: str, users: dict[str, dict[str, Any]], links: list[Link]) -> None:
    """Write links into a new file of mode 0600 (`-`: stdout), as CSV. `users`: `display` and `mail` by name. Raises
    OSError."""
    line, at = invitation(context), page(context)
    if path == "-":
        with open(1, "w", encoding="utf-8", closefd=False) as file:
            _write(file, users, links, line, at)
        return
    with open(path, "w", encoding="utf-8", opener=_new) as file:
        _write(file, users, links, line, at)


def _as_text(cell: str) -> str:
    """Return the cell so that no spreadsheet takes it for a formula, whoever chose the words."""
    return f"'{cell}" if cell[:1] in FORMULA else cell


def _new(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o600)


def _write(
    file: TextIO,
    users: dict[str, dict[str, Any]],
    links: list[Link],
    line: Callable[[str], str],
    at: Callable[[str], str | None],
) -> None:
    import csv
    from datetime import datetime

    table = csv.writer(file, lineterminator="\n")
    table.writerow(["name", "display", "mail", "link", "until", "command", "url"])
    for link in links:
        user, until = users[link["name"]], datetime.fromtimestamp(link["until"]).astimezone()
        known = [link["name"], _as_text(user.get("display", "")), _as_text(user.get("mail", ""))]
        secret = link["link"]
        table.writerow([*known, secret, until.isoformat(timespec="minutes"), line(secret), at(secret) or ""])
