"""People for people: who somebody is, tables of users, groups and tokens."""

from __future__ import annotations

from client.text.quantities import moment
from client.text.table import render
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from client.shapes import Group, Link, Token, User, Who

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


def users_table(users: list[User], room: int | None) -> str:
    """All users, a line each; `room`: columns of the terminal, or None for no cutting."""
    titles = ["NAME", "DISPLAY", "ROLE", "STATE", "GROUPS", "MENTOR OF", "PASSWORD", "LOG-INS", "TOKENS", "MAIL"]
    rows = [
        [
            harmless(user["name"]),
            harmless(user["display"]),
            "-" if user["is_owner_only"] else user["role"],
            _state(user),
            harmless(", ".join(user["groups"])),
            harmless(", ".join(user["mentors"])),
            "yes" if user["has_password"] else "-",
            str(user["log_ins"] or "-"),
            str(user["tokens"] or "-"),
            harmless(user["mail"]),
        ]
        for user in users
    ]
    flexible = {"NAME": 6, "DISPLAY": 6, "STATE": 8, "GROUPS": 6, "MENTOR OF": 6, "MAIL": 6}
    return render(titles, rows, room, flexible=flexible, right=frozenset({"LOG-INS", "TOKENS"}))


def _state(user: User) -> str:
    if user["is_owner_only"]:
        return "owns tasks, was not added"
    if user["disabled"] is not None:
        return f"disabled by {harmless(user['disabled'])}"
    return f"until {moment(user['expires_at'])}" if user["expires_at"] is not None else ""


def groups_table(groups: list[Group], room: int | None) -> str:
    """Groups, a line each."""
    rows = [
        [harmless(one["name"]), *(harmless(", ".join(one[key])) or "-" for key in ("members", "mentors"))]
        for one in groups
    ]
    return render(["NAME", "MEMBERS", "MENTORS"], rows, room, flexible={"NAME": 6, "MEMBERS": 10, "MENTORS": 10})


def tokens_table(tokens: list[Token], room: int | None) -> str:
    """Tokens and log-ins, a line each."""
    titles = ["ID", "USER", "KIND", "LABEL", "SCOPES", "MADE", "BY", "FROM", "ENDS", "USED"]
    kinds = {"session": "log-in"}
    rows = [
        [
            harmless(one["id"]) + ("*" if one["is_this"] else ""),
            harmless(one["user"]),
            kinds.get(one["kind"], one["kind"]),
            harmless(one["label"]),
            "all" if one["scopes"] is None else ", ".join(one["scopes"]) or "none",
            _day(one["made_at"]),
            harmless(one["made_by"]) if one["made_by"] != one["user"] else "",
            harmless(one["from"]),
            _day(one["expires_at"]),
            _day(one["used_on"]),
        ]
        for one in tokens
    ]
    flexible = {"USER": 6, "LABEL": 8, "SCOPES": 6, "BY": 4, "FROM": 8}
    return render(titles, rows, room, flexible=flexible)


def links_table(links: list[Link], line: Callable[[str], str]) -> str:
    """Whom to send which line. Lines are never cut: half a link opens nothing."""
    rows = [[harmless(link["name"]), line(link["link"])] for link in links]
    return render(["NAME", "TO BE TYPED ON THE PC"], rows, None, flexible={})


def _day(at: float | None) -> str:
    return "-" if at is None else moment(at).split(" ")[0]
