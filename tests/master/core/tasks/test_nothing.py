"""The nothing that most tasks have of most things: one for all, never written, and never filled."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from master.core.tasks.nothing import NO_LIST, NO_MAPPING
from master.core.tasks.task import After, Task, TaskView
from tests.master.core.small_core import core_with, run, submit

LEAST = b'{"id":1,"command":"true"}'
MOST_BYTES = 1024
"""Of a task that was read, which holds nothing but what it must."""


def held(task: Task) -> dict[str, Any]:
    values = {name: getattr(task, name) for name in task.__struct_fields__}
    return {name: value for name, value in values.items() if isinstance(value, list | dict)}


def test_all_tasks_hold_the_same_nothing_and_it_is_not_written() -> None:
    for task in (Task(id=1, command="true"), msgspec.json.decode(LEAST, type=Task)):
        assert len(held(task)) > 10
        assert all(value is NO_LIST or value is NO_MAPPING for value in held(task).values())
        assert msgspec.json.encode(task) == LEAST


def test_a_task_that_was_read_takes_no_room_for_what_it_does_not_hold() -> None:
    data = b"[" + b",".join([LEAST] * 1000) + b"]"
    decode = msgspec.json.Decoder(list[Task]).decode
    tracemalloc.start()
    try:
        tasks = decode(data)
        assert tracemalloc.get_traced_memory()[0] / len(tasks) < MOST_BYTES
    finally:
        tracemalloc.stop()


def test_it_is_shown_and_compared_like_any_other() -> None:
    seen = msgspec.to_builtins(msgspec.convert(Task(id=1, command="true"), TaskView, from_attributes=True))
    assert (seen["after"], seen["variables"]) == ([], {})
    assert b'"after":[]' in msgspec.json.encode(TaskView(id=1))
    assert Task(id=1, command="true", after=[], sweep={}) == Task(id=1, command="true")


@pytest.mark.parametrize(
    "fill",
    [
        lambda: NO_LIST.append(1),
        lambda: NO_LIST.extend([1]),
        lambda: NO_LIST.insert(0, 1),
        lambda: NO_LIST.__setitem__(slice(0, 0), [1]),
        lambda: NO_LIST.__iadd__([1]),
        lambda: NO_MAPPING.__setitem__("a", 1),
        lambda: NO_MAPPING.update(a=1),
        lambda: NO_MAPPING.setdefault("a", 1),
        lambda: NO_MAPPING.__ior__({"a": 1}),
    ],
)
def test_nobody_puts_anything_into_it(fill: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match="everybody's nothing"):
        fill()
    assert (NO_LIST, NO_MAPPING) == ([], {})


def test_what_a_task_holds_no_more_is_not_written_either() -> None:
    core = core_with()
    first, second = submit(core), submit(core, after=[After(1)])
    run(core, first)
    run(core, second)
    core.retry(second.id)
    assert second.earlier
    assert not second.allocation
    assert not second.waits_for
    for task in (first, second):
        written = msgspec.json.decode(msgspec.json.encode(task)).values()
        assert [] not in written
        assert {} not in written
