"""People for people: who somebody is, tables of users, groups and tokens."""

from __future__ import annotations

from client.text.quantities import moment
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import Who

_WAYS = {
    "owner": "this machine says so: no log-in is needed",
    "local": "this machine says so",
    "desktop": "the desktop client",
    "token": "a token",
    "session": "a log-in",
    "task": "the token of a task",
}


def who_lines(who: Who) -> list[str]:
    """Who somebody is, a line each."""
    if who["user"] is None:
        return ["nobody: `muster login`, or give a token (MUSTER_TOKEN)"]
    until = "" if who["until"] is None else f", until {moment(who['until'])}"
    lines = [
        f"user    {called(who['user'], who['display'])}",
        f"role    {who['role']}",
        f"by      {_WAYS.get(who['via'], who['via'])}{until}",
    ]
    if who["groups"]:
        lines.append(f"groups  {', '.join(map(harmless, who['groups']))}")
    lines.append(f"may     {', '.join(who['scopes']) or 'nothing'}")
    return lines


def called(name: str, display: str) -> str:
    """`wang (王伟)`."""
    return f"{harmless(name)} ({harmless(display)})" if display else harmless(name)
