"""Many tasks in portions, each small enough to be written between two turns of others. A task may have a megabyte, so
it is not enough to count them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from master.core.tasks.size import large_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

MOST_BYTES = 8 << 20
"""Of the large tasks of a portion. To encode as much takes about 10 ms."""


def portions(tasks: Iterable[T], most: int, size_of: Callable[[Any], int] = large_size) -> Iterator[list[T]]:
    """Parts of at most `most` tasks, in their order; the large ones of a part come to `MOST_BYTES`, or it ends with the
    one that is beyond. `size_of`: the bytes of one, where it is not the task itself that is given."""
    part: list[T] = []
    size = 0
    for task in tasks:
        part.append(task)
        size += size_of(task)
        if len(part) == most or size >= MOST_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
