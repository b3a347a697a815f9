"""People for people: who somebody is, tables of users, groups and tokens."""

from __future__ import annotations

from client.text.quantities import counted, moment, size_text
from client.text.table import render
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from client.shapes import Account, Group, Link, Project, Quota, Share, Token, Use, User, UserShare, Who

_WAYS = {
    "owner": "this machine says so: no log-in is needed",
    "local": "this machine says so",
    "desktop": "the desktop client",
    "token": "a token",
    "session": "a log-in",
    "task": "the token of a task",
}


def who_lines(who: Who) -> list[str]:
    """Return the lines about the caller's identity."""
    if who["user"] is None:
        why = who.get("barred")  # an earlier master does not say
        return [f"nobody: {harmless(why)}" if why else "nobody: `muster login`, or give a token (MUSTER_TOKEN)"]
    until = "" if who["until"] is None else f", until {moment(who['until'])}"
    lines = [
        f"user    {called(who['user'], who['display'])}",
        f"role    {who['role']}",
        f"by      {_WAYS.get(who['via'], who['via'])}{until}",
    ]
    if who["groups"]:
        lines.append(f"groups  {', '.join(map(harmless, who['groups']))}")
    lines.append(f"may     {', '.join(who['scopes']) or 'nothing'}")
    lines += [f"quota   {_account(one)}" for one in who.get("quotas", ())]
    return lines + [f"queue   {words}" for words in share_lines(who.get("share"))]  # an earlier master does not say


OWN_PART = 0.5
"""From this part of what they may have on, users are told of their share."""
FULL_PART = 0.8
"""From this part of the limit on, admins are told that the queue fills up."""


def share_lines(share: Share | None, part: float = OWN_PART) -> list[str]:
    """Return lines about a share of the queue, where that `part` of what it may be or more is taken."""
    if share is None:
        return []
    found = []
    if share["waiting"] and share["waiting"] >= part * share["most_waiting"]:
        found.append(f"{share['waiting']:,} tasks wait, and {share['most_waiting']:,} may")
    if share["bytes"] and share["bytes"] >= part * share["most_bytes"]:
        found.append(f"large tasks hold {size_text(share['bytes'])}, and may hold {size_text(share['most_bytes'])}")
    return found


def share_mark(share: Share | None) -> str:
    """`yours 50,000/100,000`; nothing where less than half of the share is taken."""
    if share is None or not share_lines(share):
        return ""
    if share["waiting"] >= OWN_PART * share["most_waiting"]:
        return f"yours {share['waiting']:,}/{share['most_waiting']:,}"
    return f"yours {size_text(share['bytes'])}/{size_text(share['most_bytes'])}"


def full_queue(info: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is nearly full of the queue, with what to do about it, for admins."""
    told: Share | None = info.get("filled")
    near: list[UserShare] = info.get("near_shares") or []
    if told is None:
        return []
    found = []
    if told["waiting"] >= FULL_PART * told["most_waiting"]:
        text = f"{told['waiting']:,} of {told['most_waiting']:,} tasks wait (limits.waiting_tasks)"
        users = [(one["waiting"], one["user"]) for one in near if 2 * one["waiting"] >= told["waiting"]]
        found.append(_filled(text, "waiting_tasks", [(f"{count:,}", user) for count, user in users]))
    if told["bytes"] >= FULL_PART * told["most_bytes"]:
        text = f"large tasks hold {size_text(told['bytes'])} of {size_text(told['most_bytes'])} (limits.task_bytes)"
        users = [(one["bytes"], one["user"]) for one in near if 2 * one["bytes"] >= told["bytes"]]
        found.append(_filled(text, "task_bytes", [(size_text(size), user) for size, user in users]))
    return found


def _filled(text: str, setting: str, users: list[tuple[str, str]]) -> tuple[str, str]:
    """`users`: how much who has, of those with half of it or more."""
    cure = f"raise it (`muster set limits.{setting} N`)"
    for amount, user in users[:1]:
        name = harmless(user)
        text += f", {amount} of {name}"
        cure = f"ask {name} to cancel some (`muster queue --user {name}`), lower limits.user_share, or {cure}"
    return f"is nearly full: {text}", cure


def quota_text(quota: Quota) -> str:
    """`max_total_gpus=8 max_running=20`; nothing where there is no bound."""
    return " ".join(f"{key}={value}" for key, value in quota.items() if value is not None)


def project_text(project: Project) -> str:
    """Return a line about a project."""
    group = f"of group {harmless(project['group'])}" if project["group"] else "of no group"
    return f"{group}; {quota_text(project['quota']) or 'no quota'}; in use: {_in_use(project['use'])}"


def projects_table(projects: list[Project], room: int | None) -> str:
    """Projects, a line each."""
    rows = [
        [
            harmless(one["name"]),
            harmless(one["group"] or "-"),
            str(one["tasks"]),
            _in_use(one["use"]),
            quota_text(one["quota"]) or "-",
        ]
        for one in projects
    ]
    titles = ["NAME", "GROUP", "TASKS", "IN USE", "QUOTA"]
    return render(titles, rows, room, flexible={"NAME": 8, "GROUP": 6, "QUOTA": 10}, right=frozenset({"TASKS"}))


def _account(one: Account) -> str:
    whose = "all people together" if one["kind"] == "cluster" else f"{one['kind']} {harmless(one['name'])}"
    return f"{whose}: {quota_text(one['quota'])}; in use: {_in_use(one['use'])}"


def _in_use(use: Use) -> str:
    if not use["running"] and not use["gpus"]:
        return "nothing"
    manual = f" ({use['manual']} in allocations)" if use.get("manual") else ""  # an earlier master does not say
    return f"{counted(use['gpus'], 'GPU')}{manual}, {counted(use['running'], 'task')}"


def called(name: str, display: str) -> str:
    """`wang (王伟)`."""
    return f"{harmless(name)} ({harmless(display)})" if display else harmless(name)


def users_table(users: list[User], room: int | None) -> str:
    """All users, a line each; `room`: columns of the terminal, or None for no cutting."""
    titles = [
        "NAME", "DISPLAY", "ROLE", "STATE", "GROUPS", "MENTOR OF", "PASSWORD", "LOG-INS", "TOKENS", "MAIL", "QUOTA",
    ]  # fmt: skip
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
            quota_text(user["quota"]) or "-",
        ]
        for user in users
    ]
    flexible = {"NAME": 6, "DISPLAY": 6, "STATE": 8, "GROUPS": 6, "MENTOR OF": 6, "MAIL": 6, "QUOTA": 6}
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
        [
            harmless(one["name"]),
            *(harmless(", ".join(one[key])) or "-" for key in ("members", "mentors")),
            _in_use(one["use"]),
            quota_text(one["quota"]) or "-",
        ]
        for one in groups
    ]
    flexible = {"NAME": 6, "MEMBERS": 10, "MENTORS": 10, "QUOTA": 10}
    return render(["NAME", "MEMBERS", "MENTORS", "IN USE", "QUOTA"], rows, room, flexible=flexible)


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


def links_table(links: list[Link], line: Callable[[str], str], page: Callable[[str], str | None]) -> str:
    """Return a table of the line to send to each user, and of the address if there is a console. Neither is ever cut:
    half a link is useless."""
    rows = []
    for link in links:
        rows.append([harmless(link["name"]), line(link["link"])])
        if (url := page(link["link"])) is not None:
            rows.append(["", url])
    what = "TO BE TYPED ON THE PC" if len(rows) == len(links) else "TO BE TYPED ON THE PC, OR OPENED IN A BROWSER"
    return render(["NAME", what], rows, None, flexible={})


def _day(at: float | None) -> str:
    return "-" if at is None else moment(at).split(" ")[0]
