"""Encode the answer to a list of tasks, some tasks at a time: every key of each, or only values that are not as usual.

Owns the shape of the answer, and the parts that are computed, worded and encoded once for many tasks. `task_list`
chooses the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast

import msgspec

from master.core.core import Core
from master.core.tasks.request import Demand
from master.core.tasks.task import SparseTask, Task, TaskView
from master.verbs.base import Pieces
from master.views.messages import MessageView, Shown, message_view, shown
from master.views.sight import Sight
from master.views.tasks import as_filed
from wire.message import Message

T = TypeVar("T")

DEFAULTS = {
    name: value
    for name, value in msgspec.to_builtins(TaskView(id=0, command="")).items()
    if name not in ("id", "command")
}
"""The value of each key that a sparse task leaves out."""

_encoder = msgspec.json.Encoder()
_DEFAULTS = msgspec.Raw(_encoder.encode(DEFAULTS))
"""Encoded once for all answers."""
_as_sparse = attrgetter(*SparseTask.__struct_fields__)
"""Reads the values that a row takes from its task unchanged."""


class WholeRows:
    """Each task with every key."""

    def __init__(self, core: Core, sight: Sight) -> None:
        self._core = core
        self._sight = sight
        self._alike = _Alike[Shown](core)
        self._rows = _Rows()

    def add(self, tasks: Sequence[Task]) -> None:
        """Some more."""
        core = self._core
        views = {task.id: as_filed(task) for task in self._sight.all_veiled(tasks)}
        tasks = _known(tasks, self._sight)
        for why, ids in self._alike.among(tasks, self._why):
            for task_id in ids:
                seen = views[task_id]
                seen.reason, seen.reason_key, seen.reason_args = why
        if core.some_may_be_warned():
            for task in tasks:
                seen = views[task.id]
                seen.warning, seen.warning_key, seen.warning_args = shown(core.what_looks_wrong(task))
        if core.unsaved:
            for task in tasks:
                views[task.id].unsaved = task.id in core.unsaved
        self._rows.add(list(views.values()))

    def result(self, total: int) -> Pieces:
        """The answer."""
        return self._rows.answer({"total": total})

    def _why(self, task: Task) -> Shown:
        text, key, args = shown(_said(self._core.why_it_waits(task), self._sight))
        return text, key, cast("dict[str, Any]", msgspec.Raw(_encoder.encode(args)))


class SparseRows:
    """Each task with what is not as in `DEFAULTS`; reasons and warnings beside them, by their text."""

    def __init__(self, core: Core, sight: Sight) -> None:
        self._core = core
        self._sight = sight
        self._alike = _Alike[list[int]](core)
        self._rows = _Rows()
        self._reasons: dict[str, list[int]] = {}
        self._reason_messages: dict[str, MessageView] = {}
        self._warnings: dict[str, list[int]] = {}
        self._warning_messages: dict[str, MessageView] = {}
        self._unsaved: list[int] = []

    def add(self, tasks: Sequence[Task]) -> None:
        """Some more."""
        core = self._core
        rows, tasks = self._sight.all_veiled(tasks), _known(tasks, self._sight)
        for waiting, ids in self._alike.among(tasks, self._waiting):
            waiting.extend(ids)
        if core.some_may_be_warned():
            for task in tasks:
                self._warn(task)
        if core.unsaved:
            self._unsaved += [task.id for task in tasks if task.id in core.unsaved]
        # Mostly all of them are as on disk, which is seen faster than rows are put together.
        if [task for task in rows if task.asked_end is not None or task.earlier or task.said_by]:
            as_on_disk = [task.asked_end is None and not task.earlier and not task.said_by for task in rows]
            self._rows.add([task if as_is else _sparse(task) for task, as_is in zip(rows, as_on_disk, strict=True)])
        else:
            self._rows.add(rows)

    def result(self, total: int) -> Pieces:
        """The answer."""
        told = {"reasons": self._reasons, "reason_messages": self._reason_messages}
        told |= {"warnings": self._warnings, "warning_messages": self._warning_messages, "unsaved": self._unsaved}
        return self._rows.answer({"defaults": _DEFAULTS, **told, "total": total})

    def _waiting(self, task: Task) -> list[int]:
        """The ids of those that wait for the same reason as this one."""
        why = _said(self._core.why_it_waits(task), self._sight)
        if why is None:
            return []
        text = str(why)
        if text not in self._reasons:
            self._reasons[text], self._reason_messages[text] = [], message_view(why)
        return self._reasons[text]

    def _warn(self, task: Task) -> None:
        wrong = self._core.what_looks_wrong(task)
        if wrong is not None:
            text = str(wrong)
            self._warnings.setdefault(text, []).append(task.id)
            self._warning_messages[text] = message_view(wrong)


def _known(tasks: Sequence[Task], sight: Sight) -> Sequence[Task]:
    """Those of which more may be told than that they are there."""
    return [task for task in tasks if sight.knows(task.owner)] if sight.hides_others else tasks


def _said(message: Message | None, sight: Sight) -> Message | None:
    return None if message is None else sight.said(message)


def _sparse(task: Task) -> SparseTask:
    return SparseTask(**dict(zip(SparseTask.__struct_fields__, _as_sparse(task), strict=True)))


class _Alike(Generic[T]):
    """A value that queued tasks of one demand share: computed for the first of them. It does not keep the function that
    computes it, or the megabytes of an answer would be in a circle, and stay until all garbage is looked for."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[Demand | int, T] = {}

    def among(self, tasks: Sequence[Task], work_out: Callable[[Task], T]) -> Iterator[tuple[T, list[int]]]:
        """The ids of the queued ones of these tasks, by what they have in common."""
        for demand, ids in self._core.backlog.alike(tasks).items():
            common = self._known.get(demand)
            if common is None:
                common = self._known[demand] = work_out(self._core.tasks[ids[0]])
            yield common, ids


class _Rows:
    """Encoded tasks. Their buffer is made once, and grows to the size of the longest part."""

    def __init__(self) -> None:
        self._room = bytearray()
        self._pieces: list[bytes] = []

    def add(self, rows: Sequence[Task | SparseTask | TaskView]) -> None:
        """Encode some more: a list that has no end, which a comma continues."""
        if rows:
            _encoder.encode_into(rows, self._room)
            if self._pieces:
                self._room[:1] = b","
            self._pieces.append(bytes(memoryview(self._room)[:-1]))

    def answer(self, beside: dict[str, Any]) -> Pieces:
        """An object of `tasks` and what stands beside them."""
        return Pieces([b'{"tasks":', *(self._pieces or [b"["]), b"],", _encoder.encode(beside)[1:]])
