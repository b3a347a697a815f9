"""Many tasks in portions: so many at once, and so many bytes."""

from __future__ import annotations

from master.core.tasks.task import Task
from master.durable.portions import MOST_BYTES, portions

LARGE = MOST_BYTES // 2


def test_a_portion_ends_with_so_many_tasks_or_so_many_bytes_and_all_come_in_their_order() -> None:
    sizes = [1, 1, 1, LARGE, LARGE, 1, LARGE, 1, 1, MOST_BYTES, 1]
    tasks = [Task(id=number, command="x" * size) for number, size in enumerate(sizes)]
    parts = [[task.id for task in part] for part in portions(tasks, 4)]
    assert parts == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9], [10]]
    assert list(portions([], 4)) == []
