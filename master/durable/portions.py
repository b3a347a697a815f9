"""Many tasks in portions, each small enough to be written between two turns of others. A task may have a megabyte, so
it is not enough to count them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from master.core.tasks.size import large_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from master.core.tasks.task import Task

MOST_BYTES = 8 << 20
"""Of the large tasks of a portion. To encode as much takes about 10 ms."""


def portions(tasks: Sequence[Task], most: int) -> Iterator[list[Task]]:
    """Parts of at most `most` tasks, in their order; the large ones of a part come to `MOST_BYTES`, or it ends with the
    one that is beyond."""
    part: list[Task] = []
    size = 0
    for task in tasks:
        part.append(task)
        size += large_size(task)
        if len(part) == most or size >= MOST_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
