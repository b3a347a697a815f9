"""How much one request may file. Tasks are written whole: what all of them say is written for each."""

from __future__ import annotations

import msgspec

from master.core.tasks.task import Task
from wire.errors import LimitError
from wire.message import Message

MOST_BYTES = 64 << 20
"""The size on the disk of all tasks of one request. To write as much takes about 0.25 s, for which everybody waits."""
MOST_PREDECESSORS = 500_000
"""Predecessors times tasks: each task waits for each of its own by itself. So many take about 0.1 s."""


def check_size(draft: Task, count: int, texts: int) -> None:
    """Check what so many tasks like this one come to, whose commands have so many bytes together. Raises LimitError."""
    size = len(msgspec.json.encode(draft))
    if size * count + texts > MOST_BYTES:
        raise LimitError(Message("array_too_long", size=size + texts // count, count=count, most=MOST_BYTES))
    if len(draft.after) * count > MOST_PREDECESSORS:
        raise LimitError(Message("too_many_predecessors", count=count, after=len(draft.after), most=MOST_PREDECESSORS))
