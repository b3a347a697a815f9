"""Recovers a journal of which some records cannot be read, after somebody asked for it.

Owns the judgement of what may have been in them. The other records are whole and true, so only this is in doubt: a
task that waits in what could be read may have been started since. It is held rather than started a second time. Agents
may have obeyed a start of the master that is not known any more; `START_OVER` makes the next epoch one that they obey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from master.core.people import marks
from master.core.people.marks import END_ACCESS
from master.core.tasks.records import Change
from master.core.tasks.task import TaskState
from master.durable.published import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from master.core.tasks.task import Task
    from master.durable.journal import Reading

START_OVER = "start_over"
"""The piece of state that asks for an epoch beyond any that agents may know. `null` once that was done."""

DAMAGE = "damage"
"""The piece of state that keeps what was lost, or may have been, until somebody has seen it: a list of Loss."""


class Loss(msgspec.Struct, frozen=True):
    """A finding of a start that people should know of. `at`: seconds since the epoch."""

    at: float
    what: str


_encode_change = msgspec.json.Encoder().encode


PEOPLE_LOST = (
    "Users and groups may be missing, or be as they were before: look with `muster users list`, and add missing ones "
    "again. The queue counts as one with several users unless its witness says otherwise: users' tasks do not run as "
    "root or as the master's account. All tokens, log-ins and links have ended, because some may have been revoked. "
    "Attempts on nodes that belong to no known task keep running and keep their GPUs until an admin adopts or ends "
    "them: `muster node attempts NODE`"
)
"""The consequences for users and for running attempts."""


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


def told(reading: Reading, kept: str, held: list[int]) -> str:
    """Return what people have to know of it."""
    lines = f"lines {ranges(reading.bad)}" if reading.bad else "what was in it"
    text = f"the journal was damaged: {lines} could not be read (kept in {kept})"
    if not held:
        gone = "Tasks of which nothing else tells are gone: look whether the newest are there"
        return f"{text}. {gone}. No other is in doubt. {PEOPLE_LOST}"
    ids = ranges(held)
    release = ids.replace(",", "") if "…" not in ids else "ID…"
    return (
        f"{text}. Waiting tasks that may have been started in what is lost are held: {ids}. Look whether they run or "
        f"ran, then `muster release {release}` or `muster rm {release}`. "
        f"{PEOPLE_LOST}"
    )


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
