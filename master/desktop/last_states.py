"""In which state each task was when it was last looked at: hardly more than a byte a task, for a queue may hold a
hundred thousand."""

from __future__ import annotations

from collections.abc import Mapping

from master.core.task import TaskState

_STATES: tuple[TaskState | None, ...] = (None, *TaskState)
_CODES = {state: code for code, state in enumerate(_STATES)}
_BITS = 8
_PLACE = (1 << _BITS) - 1
_NONE = bytes(1 << _BITS)


class LastStates:
    """Of the tasks in `states`, by id. Ids follow on each other, so a page has a byte for each of 256 in a row; it is
    there while one of them has a state: neither those of before, after years beside one that is held, nor those between
    the old system's, which lie far apart, take any room."""

    def __init__(self, states: Mapping[int, TaskState]) -> None:
        self._pages: dict[int, bytearray] = {}
        for number, state in states.items():
            self[number] = state

    def __getitem__(self, number: int) -> TaskState | None:
        page = self._pages.get(number >> _BITS)
        return None if page is None else _STATES[page[number & _PLACE]]

    def __setitem__(self, number: int, state: TaskState) -> None:
        page = self._pages.get(number >> _BITS)
        if page is None:
            page = self._pages[number >> _BITS] = bytearray(_NONE)
        page[number & _PLACE] = _CODES[state]

    def __delitem__(self, number: int) -> None:
        """Nothing is known of it any more, if anything was."""
        page = self._pages.get(number >> _BITS)
        if page is not None:
            page[number & _PLACE] = 0
            if page == _NONE:
                del self._pages[number >> _BITS]
