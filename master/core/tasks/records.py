"""The records of the journal, and tasks as they were written, be it by an earlier version.

These functions bring a task that was written into the present shape; everything that reads one uses them.
"""

from collections.abc import Mapping

import msgspec

from master.core.tasks.attempt import AskedEnd, Part
from master.core.tasks.shared_values import SharedValues
from master.core.tasks.task import Task, TaskState


def merge_pieces(state: dict[str, msgspec.Raw], change: Mapping[str, msgspec.Raw]) -> None:
    """Put the pieces of a change into the state. One that says `null` is of something that is gone."""
    for name, piece in change.items():
        if bytes(piece) == b"null":
            state.pop(name, None)
        else:
            state[name] = piece


class NotedMove(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A move as the journal notes it, an array of three: the task's id, its state before and its state after; see
    `outcome.Move`."""

    id: int
    before: TaskState | None
    after: TaskState | None


class Change(msgspec.Struct, omit_defaults=True):
    """The content of one journal record, all of it or nothing: whole tasks, tombstones, whole pieces of state, answers.

    `answered` maps a client's request_id to the result that it got, so that a retry gets it again. `moves`: which tasks
    changed their state, in order; not there where nobody reads them (`durable/outbox`).
    """

    tasks: list[Task] = []
    gone: list[int] = []
    state: dict[str, msgspec.Raw] = {}
    answered: dict[str, msgspec.Raw] = {}
    moves: list[NotedMove] | msgspec.UnsetType = msgspec.UNSET

    def __bool__(self) -> bool:
        return bool(self.tasks or self.gone or self.state or self.answered)


A_SLICE = 100
"""So many tasks of a long list are read, and then compared, at a time."""

_decode_task = msgspec.json.Decoder(Task).decode
_decode_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_change = msgspec.json.Decoder(Change).decode


def read_task(data: bytes | msgspec.Raw) -> Task:
    """The task that was written so, be it by an earlier version. Raises msgspec.DecodeError, UnicodeDecodeError."""
    task = _decode_task(data)
    _bring_up_all([task])
    return task


def read_tasks(data: bytes) -> list[Task]:
    """Likewise of a list of tasks. They are made one by one, so that each copy of a value that others have, too, is
    given up before the next one needs its room."""
    raws = _decode_raws(data)
    tasks: list[Task] = []
    values = SharedValues()
    for begin in range(0, len(raws), A_SLICE):
        some = [*map(_decode_task, raws[begin : begin + A_SLICE])]
        _bring_up_all(some)
        values.share(some)
        tasks += some
    return tasks


def read_change(data: bytes) -> Change:
    """Likewise of what a record of the journal says."""
    change = _decode_change(data)
    if change.tasks:
        _bring_up_all(change.tasks)
    return change


def _bring_up_all(tasks: list[Task]) -> None:
    """As a `__post_init__` it would cost a call for each task that is made."""
    for task in tasks:
        if task.former_launch is not None or task.former_cancel:
            _bring_up(task)


def _bring_up(task: Task) -> None:
    """Turn the one attempt that an earlier version wrote into an attempt of one part."""
    if (sent := task.former_launch) is not None:
        task.former_launch = None
        gpus = [gpu for part in task.allocation for gpu in part.gpus]
        task.allocation = [
            Part(
                sent.node, gpus, sent.launch_id, sent.boot_id, sent.state_id, sent.address, sent.machine, sent.pid,
                sent.pid_start,
            )
        ]  # fmt: skip
    if task.former_cancel:
        task.former_cancel = False
        task.asked_end = AskedEnd("cancel")
