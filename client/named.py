"""Tasks by their names: the unique name of an active task of one's own stands for its id.

Digits, ranges and `12/` are never names. A name is looked up once, and what is asked for then is asked of the id: a
task that gets the same name meanwhile, and another user's task of that name, are not touched.
"""

from __future__ import annotations

from client.refusals import coded_error
from wire.numbers import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from client.shapes import Task

    class Asked(Protocol):
        """A client, as far as this module calls it."""

        def tasks(self, **filters: Any) -> list[Task]:
            """See `client.api.Client.tasks`."""


_OF_IDS = frozenset("-,/.")
_MOST_LOOKED_AT = 200
"""So many ended tasks, the newest ones, are looked at for what to say of a name that no active task has."""


def is_ids(text: str) -> bool:
    """Is it made of digits and what stands between them in ranges and arrays, so that it is no name?"""
    return all(char.isdigit() or char in _OF_IDS for char in text)


def find_id(client: Asked, said: int | str) -> int:
    """The id of a task that is named by its id or its name. Raises BadRequestError for digits that are no id,
    NotFoundError, ConflictError where several tasks have the name."""
    if not isinstance(said, str):
        return said
    if is_ids(said):
        number = whole_number(said)
        if number:
            return number
        raise coded_error("bad_request", "not_one_id", found=said)
    found = active(client, said)
    if len(found) == 1:
        return found[0]["id"]
    if found:
        raise _several(said, found)
    raise none_active(client, said)


def active(client: Asked, name: str) -> list[Task]:
    """The caller's tasks of this name that have not ended, by id."""
    found = client.tasks(mine=True, search=name, history=False)
    return sorted((task for task in found if task["name"] == name), key=_id)


def ended(client: Asked, name: str) -> list[Task]:
    """Those of the caller's that have ended, the newest first, as far as they are among the newest ones."""
    found = client.tasks(mine=True, search=name, active=False, ended=True, history=False, limit=_MOST_LOOKED_AT)
    return [task for task in found if task["name"] == name]


def none_active(client: Asked, name: str) -> Exception:
    """The error for a name that no active task of the caller's has, with what else has it."""
    gone = ended(client, name)
    if gone:
        return coded_error("not_found", "task_named_has_ended", name=name, id=gone[0]["id"])
    others = [task for task in client.tasks(search=name, history=False) if task["name"] == name]
    if others:
        return coded_error(
            "not_found", "task_named_is_anothers", name=name, id=others[0]["id"], owner=others[0]["owner"]
        )
    return coded_error("not_found", "no_task_named", name=name)


def _several(name: str, found: list[Task]) -> Exception:
    from wire.message import ids

    tasks = ids(task["id"] for task in found)
    places = [task.get("array") for task in found]
    arrays = {None if place is None else place["id"] for place in places}
    array = next(iter(arrays)) if len(arrays) == 1 else None
    if array is None:
        return coded_error("conflict", "tasks_named_alike", name=name, count=tasks.count, tasks=tasks)
    return coded_error("conflict", "array_named_alike", name=name, count=tasks.count, tasks=tasks, array=array)


def _id(task: Task) -> int:
    return task["id"]
