"""The empty list and the empty mapping of most tasks' fields: one of each for all tasks. Pure.

A task has a dozen lists and mappings. With one of its own for each of them it takes twice the room, and longer to be
made or read. They can be shared, for no code changes in place what a task holds: it assigns another value. An attempt
to put something into these raises an error.
"""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("this is everybody's nothing: give the task a list or a mapping of its own")


class _NoList(list[Any]):
    append = extend = insert = __setitem__ = __iadd__ = __imul__ = _refuse


class _NoMapping(dict[str, Any]):
    update = setdefault = __setitem__ = __ior__ = _refuse


NO_LIST: Any = _NoList()
NO_MAPPING: Any = _NoMapping()
