"""Hardly more than a byte a task says what a mapping would."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from master.core.task import FIRST_FOREIGN_ID, TaskState
from master.desktop.last_states import LastStates

STATES = list(TaskState)


@pytest.mark.parametrize("seed", range(20))
def test_it_says_what_a_mapping_would(seed: int) -> None:
    chance = random.Random(seed)
    ids = [*range(1, 40), 255, 256, 257, 1000, 10_000_000, FIRST_FOREIGN_ID, FIRST_FOREIGN_ID + 7]
    there = {number: chance.choice(STATES) for number in chance.sample(ids, chance.randrange(10))}
    states, mapping = LastStates(there), dict(there)
    for _ in range(300):
        number = chance.choice(ids)
        if chance.random() < 0.3:
            del states[number]
            mapping.pop(number, None)
        else:
            states[number] = mapping[number] = chance.choice(STATES)
        assert [states[known] for known in ids] == [mapping.get(known) for known in ids]


def test_what_never_was_has_none() -> None:
    states = LastStates({})
    assert [states[number] for number in (0, 6, 7, 8, FIRST_FOREIGN_ID)] == [None] * 5


def test_the_old_systems_ids_take_no_room_for_those_between() -> None:
    with counted() as taken:
        states = LastStates({3: TaskState.HELD})
        states[20261126080000] = TaskState.WAITING
        states[5] = TaskState.RUNNING
        assert taken() < 5_000
    assert [states[number] for number in (3, 4, 5, 20261126080000)] == ["held", None, "running", "waiting"]


def test_those_that_came_and_went_in_years_take_no_room_beside_one_that_is_held() -> None:
    with counted() as taken:
        states = LastStates({1: TaskState.HELD, 10_000_000: TaskState.WAITING})
        for number in range(2, 50_000):
            states[number] = TaskState.RUNNING
            del states[number]
        assert taken() < 5_000
    assert [states[number] for number in (1, 2, 49_999, 10_000_000)] == ["held", None, None, "waiting"]


@contextmanager
def counted() -> Iterator[Callable[[], int]]:
    """How many bytes were taken since and not given back."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield lambda: tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
