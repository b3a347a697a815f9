"""A list of tasks as one: those that the master has at hand, and those of its history that it reads from files."""

from __future__ import annotations

from client.states import ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from client.shapes import Task

    Listed = tuple[list[Task], int]
    """Tasks, and how many there are without limit and offset."""

    class Asked(Protocol):
        """A client, as far as this module calls it. `unreadable`: lines of the history that the last list had to leave
        out, by file."""

        unreadable: dict[str, int]

        def call(self, method: str, params: dict[str, Any]) -> Any:
            """Ask the master."""


PAGE = 1_000
"""Tasks that the master gives of its history in one answer."""
_NO_MESSAGE: dict[str, Any] = {"key": None, "args": None}
"""The message of a reason from an older master, which sends sentences only."""
_HISTORY_TAKES = ("states", "mine", "user", "search", "since", "sort", "reverse")


def list_all(client: Asked, filters: dict[str, Any]) -> Listed:
    """The tasks that the filters of `Client.list_tasks` ask for, and how many there are without limit and offset."""
    client.unreadable = {}
    filters = dict(filters)
    history = filters.pop("history", True)
    named = filters.get("ids") is not None or filters.get("array") is not None
    if not history or named or not _wants_ended(filters):
        return _at_hand(client, filters)
    if filters.get("reverse") and not filters.get("sort"):
        first, second = _oldest_first(client, filters)
    else:
        first = _at_hand(client, filters)
        second = _history(client, _rest(filters, first))
    return _joined(first, second, filters.get("limit"))


def _oldest_first(client: Asked, filters: dict[str, Any]) -> tuple[Listed, Listed]:
    """The history, and what the master has at hand behind it. A task that moves to the files between two questions must
    be in one answer, so the history has the last word; if there is a page to fill, it is asked before, too, how much of
    the page it leaves."""
    paged = filters.get("limit") is not None or filters.get("offset")
    rest = _rest(filters, _history(client, filters)) if paged else filters
    at_hand = _at_hand(client, rest)
    return _history(client, filters), at_hand


def _rest(filters: dict[str, Any], first: Listed) -> dict[str, Any]:
    """Return the filters for the rest of a list, behind a first part."""
    (tasks, total), rest = first, dict(filters)
    if rest.get("offset"):
        rest["offset"] = max(0, rest["offset"] - total)
    if rest.get("limit") is not None:
        rest["limit"] -= len(tasks)
    return rest


def _joined(first: Listed, second: Listed, limit: int | None) -> Listed:
    """Both parts; a task that moved to the files between two questions is in both, and is told once."""
    found: dict[int, Task] = {}
    for task in (*first[0], *second[0]):
        found.setdefault(task["id"], task)
    twice = len(first[0]) + len(second[0]) - len(found)
    return list(found.values())[:limit], first[1] + second[1] - twice


def _wants_ended(filters: dict[str, Any]) -> bool:
    states = filters.get("states")
    return bool(filters.get("ended")) if states is None else bool(ENDED.intersection(states))


def _at_hand(client: Asked, filters: dict[str, Any]) -> Listed:
    result = client.call("task.list", {**filters, "sparse": True})
    return whole_tasks(result), result["total"]


def _history(client: Asked, filters: dict[str, Any]) -> Listed:
    from wire.errors import UnknownMethodError

    asked = {key: filters[key] for key in _HISTORY_TAKES if filters.get(key) is not None}
    offset, limit = filters.get("offset", 0), filters.get("limit")
    found: dict[int, Task] = {}
    while True:
        size = PAGE if limit is None else min(PAGE, limit - len(found))
        try:
            page = client.call("task.archived", {**asked, "offset": offset, "limit": size})
        except UnknownMethodError:  # a master before it had this verb
            return [], 0
        client.unreadable = page["unreadable"]
        found.update((task["id"], task) for task in page["tasks"])
        offset += size
        if offset >= page["total"] or size < PAGE:
            return list(found.values()), page["total"]


def whole_tasks(sparse: dict[str, Any]) -> list[Task]:
    """The tasks of an answer of `task.list`, sparse or not, every key present."""
    defaults = sparse.get("defaults", {})
    tasks: dict[int, Any] = {task["id"]: {**defaults, **task} for task in sparse["tasks"]}
    for what in ("reason", "warning"):
        messages = sparse.get(f"{what}_messages", {})
        of_text, of_key, of_args = what, f"{what}_key", f"{what}_args"
        for text, ids in sparse.get(f"{what}s", {}).items():
            message = messages.get(text, _NO_MESSAGE)
            key, args = message["key"], message["args"]
            for task_id in ids:
                task = tasks[task_id]
                task[of_text], task[of_key], task[of_args] = text, key, args
    for task_id in sparse.get("unsaved", ()):
        tasks[task_id]["unsaved"] = True
    return list(tasks.values())
