"""A list of tasks as one: those that the master has at hand, and those of its history that it reads from files."""

from __future__ import annotations

from client.states import ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from client.shapes import Task

    class Asked(Protocol):
        """What this asks: a client. `unreadable`: lines of the history that the last list had to leave out, by file."""

        unreadable: dict[str, int]

        def call(self, method: str, params: dict[str, Any]) -> Any:
            """Ask the master."""


PAGE = 1_000
"""What the master gives of its history at once."""
_HISTORY_TAKES = ("states", "mine", "user", "search", "since", "sort", "reverse")


def list_all(client: Asked, filters: dict[str, Any]) -> tuple[list[Task], int]:
    """The tasks that the filters of `Client.list_tasks` ask for, and how many there are without limit and offset."""
    client.unreadable = {}
    filters = dict(filters)
    history = filters.pop("history", True)
    if not history or filters.get("ids") is not None or not _wants_ended(filters):
        return _at_hand(client, filters)
    sources = [_at_hand, _history]
    if filters.get("reverse") and not filters.get("sort"):
        sources.reverse()
    offset, limit = filters.get("offset") or 0, filters.get("limit")
    found: dict[int, Task] = {}
    total = 0
    for source in sources:
        part = dict(filters)
        if offset:
            part["offset"] = max(0, offset - total)
        if limit is not None:
            part["limit"] = limit - len(found)
        tasks, count = source(client, part)
        before = len(found)
        for task in tasks:  # one may have moved to the files between two questions: it is told once
            found.setdefault(task["id"], task)
        total += count - (before + len(tasks) - len(found))
    return list(found.values()), total


def _wants_ended(filters: dict[str, Any]) -> bool:
    states = filters.get("states")
    return bool(filters.get("ended")) if states is None else bool(ENDED.intersection(states))


def _at_hand(client: Asked, filters: dict[str, Any]) -> tuple[list[Task], int]:
    result = client.call("task.list", {**filters, "sparse": True})
    return whole_tasks(result), result["total"]


def _history(client: Asked, filters: dict[str, Any]) -> tuple[list[Task], int]:
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
    tasks: list[Any] = [{**defaults, **task} for task in sparse["tasks"]]
    reasons = {task_id: reason for reason, ids in sparse.get("reasons", {}).items() for task_id in ids}
    if reasons:
        for task in tasks:
            if task["id"] in reasons:
                task["reason"] = reasons[task["id"]]
    warnings = {task_id: text for text, ids in sparse.get("warnings", {}).items() for task_id in ids}
    for task in tasks if warnings else ():
        task["warning"] = warnings.get(task["id"])
    unsaved = set(sparse.get("unsaved", ()))
    for task in tasks if unsaved else ():
        task["unsaved"] = task["id"] in unsaved
    return tasks
