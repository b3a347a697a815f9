"""How the console, a program beside the master, does: whether it runs, in which version, and its certificate."""

from __future__ import annotations

import os
import time

from client.cli.programs.beside import CONSOLE, conf_of, task_info
from wire.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

FILE = "web.json"
ENDS_SOON_S = 14 * 86400


def found(options: argparse.Namespace) -> dict[str, Any] | None:
    """Return what the console beside the master in use tells of itself; None if conf.json configures none, or is not on
    this machine."""
    conf = conf_of(options)
    if conf is None or not CONSOLE.is_configured(conf):
        return None
    try:
        return told(conf)
    except PermissionError:
        return None  # another user's lab


def told(conf: str) -> dict[str, Any]:
    """Return what the console of this lab tells of itself: `pid version url certificate_ends certificate_fault`, and
    `last_word` of its log; of one that does not run pid, which is null, and that. Raises PermissionError for another
    user's lab."""
    import json

    pid = CONSOLE.pid(conf)
    said = {"pid": pid, "last_word": CONSOLE.last_word(conf)}
    try:
        with open(os.path.join(task_info(conf), FILE), encoding="ascii") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return said
    return {**found, **said} if pid is not None and isinstance(found, dict) and found.get("pid") == pid else said


def problems(console: dict[str, Any], now: float) -> list[tuple[str, str]]:
    """Return the console's problems, each with its cure. `now`: seconds since the epoch."""
    if console["pid"] is None:
        last = f" (its log ends: {console['last_word']})" if console["last_word"] else ""
        return [(f"does not run{last}", "`muster up` starts it")]
    found = []
    version, ends = console.get("version"), console.get("certificate_ends")
    if version != VERSION:
        what = f"is of version {version}" if version else "is of a version before this one"
        found.append((f"{what}, this is {VERSION}", f"`kill {console['pid']}`, then `muster up` starts it anew"))
    if console.get("certificate_fault"):
        found.append((f"shows an old certificate: {console['certificate_fault']}", "do what it says, within the hour"))
    elif ends is not None and ends < now + ENDS_SOON_S:
        when = "ended" if ends < now else "ends soon"
        found.append((f"shows a certificate that {when}", "renew the files of `web.tls`; they are read every hour"))
    return found


def lines(console: dict[str, Any]) -> list[str]:
    """The same for people: where it is, then its problems."""
    where = f"{console['url']}, pid {console['pid']}" if console.get("url") else f"pid {console['pid']}"
    first = [where] if console["pid"] is not None else []
    return first + [f"{what}: {cure}" for what, cure in problems(console, time.time())]
