"""Recovers a journal of which some records cannot be read, after somebody asked for it.

Owns the judgement of what may have been in them. The other records are whole and true, so only this is in doubt: a
task that waits in what could be read may have been started since. It is held rather than started a second time. Agents
may have obeyed a start of the master that is not known any more; `START_OVER` makes the next epoch one that they obey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from master.core.people import marks
from master.core.people.marks import END_ACCESS
from master.core.tasks.records import Change
from master.core.tasks.task import TaskState
from master.durable.published import ranges
from wire.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from master.core.tasks.task import Task
    from master.durable.journal import Reading

START_OVER = "start_over"
"""The piece of state that asks for an epoch beyond any that agents may know. `null` once that was done."""

DAMAGE = "damage"
"""The piece of state that keeps what was lost, or may have been, until somebody has seen it: a list of Loss."""


class Loss(msgspec.Struct, frozen=True):
    """A finding of a start that people should know of. `at`: seconds since the epoch; `what`: the sentence of the
    message `key` with `args`, which earlier versions read. A finding of an earlier version has neither."""

    at: float
    what: str
    key: str | None = None
    args: dict[str, Any] | None = None

    @classmethod
    def of(cls, message: Message, at: float) -> Loss:
        """Return it as it is stored and shown."""
        return cls(at, str(message), message.key, message.plain_args())

    def tells(self, key: str, /, **args: str | int) -> bool:
        """Does its message, or one among the values of that, have this key and these values?"""
        return self.key is not None and _tells({"key": self.key, "args": self.args}, key, args)


def _tells(told: Any, key: str, wanted: dict[str, str | int]) -> bool:
    if isinstance(told, list):
        return any(_tells(one, key, wanted) for one in told)
    if not isinstance(told, dict) or "key" not in told:
        return False
    args = told["args"]
    is_this = told["key"] == key and wanted.items() <= args.items()
    return is_this or any(_tells(one, key, wanted) for one in args.values())


_encode_change = msgspec.json.Encoder().encode


def lost_pieces(
    state: Mapping[str, msgspec.Raw], witness: Mapping[str, msgspec.Raw], *, people: bool
) -> dict[str, msgspec.Raw]:
    """The pieces of state that a start adds if records are lost. `people`: see `marks.after_damage`."""
    return {START_OVER: msgspec.Raw(b"true"), **lost_of_people(state, witness, people=people)}


def lost_of_people(
    state: Mapping[str, msgspec.Raw], witness: Mapping[str, msgspec.Raw], *, people: bool
) -> dict[str, msgspec.Raw]:
    """The same if only the last records may be lost: then agents know no later start of the master."""
    return {END_ACCESS: msgspec.Raw(b"true"), **marks.after_damage(state, witness, people=people)}


def hold_doubtful(tasks: Iterable[Task], reading: Reading) -> list[int]:
    """Hold the waiting tasks that may have been started in what is lost; their ids. One whose state was recorded after
    all of that is in no doubt."""
    held = []
    for task in tasks:
        if task.state is TaskState.WAITING and (reading.before is None or task.seq < reading.before):
            task.state = TaskState.HELD
            held.append(task.id)
    return sorted(held)


def told(reading: Reading, kept: str, held: list[int]) -> Message:
    """Return what people have to know of it."""
    if reading.bad:
        loss = Message("journal_lines_lost", lines=ranges(reading.bad), kept=kept)
    else:
        loss = Message("journal_lost", kept=kept)
    if not held:
        return Message("people_lost", loss=Message("journal_none_held", loss=loss))
    ids = ranges(held)
    release = ids.replace(",", "") if "…" not in ids else "ID…"
    return Message("people_lost", loss=Message("journal_tasks_held", loss=loss, ids=ids, release=release))


def summary(tasks: Mapping[int, Task], changed: Iterable[int], seq: int) -> bytes:
    """One record, numbered `seq`, that says all that the readable ones said: its JSON."""
    change = Change()
    for number in sorted(changed):
        if number in tasks:
            tasks[number].seq = seq
            change.tasks.append(tasks[number])
        else:
            change.gone.append(number)
    return _encode_change(change)


def said(pieces: dict[str, msgspec.Raw]) -> bytes:
    """The JSON of a record that adds these pieces of state."""
    return _encode_change(Change(state=pieces))


def losses(piece: msgspec.Raw | None) -> list[Loss]:
    """Return the losses that nobody has seen yet."""
    return [] if piece is None else msgspec.json.decode(piece, type=list[Loss])
