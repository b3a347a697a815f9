"""Tasks by their names: the unique name of an active task of one's own stands for its id.

Digits, ranges and `12/` are never names. A name is looked up once, and what is asked for then is asked of the id: a
task that gets the same name meanwhile, and another user's task of that name, are not touched.
"""

from __future__ import annotations

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
        from wire.errors import BadRequestError

        raise BadRequestError(f"{said!r} is not the id of one task")
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
    from wire.errors import NotFoundError

    told = f"no active task of yours is called {name!r}"
    gone = ended(client, name)
    if gone:
        return NotFoundError(f"{told}; task {gone[0]['id']} of this name has ended: give its id")
    others = [task for task in client.tasks(search=name, history=False) if task["name"] == name]
    if others:
        return NotFoundError(f"{told}; task {others[0]['id']} of this name is {others[0]['owner']}'s: give its id")
    return NotFoundError(f"{told}: `muster queue --mine` shows yours")


def _several(name: str, found: list[Task]) -> Exception:
    from wire.errors import ConflictError
    from wire.ranges import ids_in_short

    ids = [task["id"] for task in found]
    places = [task.get("array") for task in found]
    arrays = {None if place is None else place["id"] for place in places}
    array = next(iter(arrays)) if len(arrays) == 1 else None
    whole = "" if array is None else f", or {array}/ for the whole array"
    return ConflictError(f"{len(ids)} of your active tasks are called {name!r}: {ids_in_short(ids)}; give an id{whole}")


def _id(task: Task) -> int:
    return task["id"]
