"""What somebody who has a link types on his own PC: one line, with all that it takes; and many of them, as a file."""

from __future__ import annotations

import os
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

    from client.cli.context import Context
    from client.shapes import Link


def invitation(context: Context) -> Callable[[str], str]:
    """A maker of that line, of a link's secret. It names the master as others reach it, as far as we know, and the
    authority that it will show, so that nobody has to compare fingerprints."""
    from client.address import DEFAULT_DATA_PORT

    where = context.address
    host = _name_of_this() if where.is_here else where.host
    host = f"[{host}]" if ":" in host else host
    place = host if where.data == DEFAULT_DATA_PORT else f"{host}:{where.data}"
    authority = (context.client.info().get("tls") or {}).get("authority")
    pinned = f" --ca-fingerprint {authority}" if authority else ""
    return lambda link: f"muster login {shlex.quote(place)} --link {shlex.quote(link)}{pinned}"


def _name_of_this() -> str:
    import socket

    return socket.gethostname()


def write_links(path: str, users: dict[str, dict[str, Any]], links: list[Link], line: Callable[[str], str]) -> None:
    """Write links into a new file of mode 0600 (`-`: stdout), as CSV. `users`: `display` and `mail` by name. Raises
    OSError."""
    if path == "-":
        with open(1, "w", encoding="utf-8", closefd=False) as file:
            _write(file, users, links, line)
        return
    with open(path, "w", encoding="utf-8", opener=_new) as file:
        _write(file, users, links, line)


def _new(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o600)


def _write(file: TextIO, users: dict[str, dict[str, Any]], links: list[Link], line: Callable[[str], str]) -> None:
    import csv
    from datetime import datetime

    table = csv.writer(file, lineterminator="\n")
    table.writerow(["name", "display", "mail", "link", "until", "command"])
    for link in links:
        user, until = users[link["name"]], datetime.fromtimestamp(link["until"]).astimezone()
        known = [link["name"], user.get("display", ""), user.get("mail", "")]
        table.writerow([*known, link["link"], until.isoformat(timespec="minutes"), line(link["link"])])
