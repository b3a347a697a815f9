"""The tests' own way to wait: it gives what came, and says what did not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.waiting import NeverError, settled, until


def counting() -> Iterator[int]:
    return iter(range(10))


def test_what_came_is_given_back() -> None:
    numbers = counting()
    assert until("a three", lambda: next(numbers) == 3 or None)
    assert next(numbers) == 4


def test_what_did_not_come_is_named_with_the_last_that_was_seen() -> None:
    with pytest.raises(NeverError, match=r"^not within 0 s: an answer; the last was ''$"):
        until("an answer", str, 0.0)
    with pytest.raises(NeverError, match=r"^not within 0 s: an answer; the last was \['a', 'b'\]$"):
        until("an answer", lambda: None, 0.0, seen=lambda: ["a", "b"])


def test_the_turn_between_two_looks_is_the_callers() -> None:
    done: list[int] = []
    until("three turns", lambda: len(done) == 3, turn=lambda: done.append(0))
    assert len(done) == 3


def test_a_loop_turns_until_it_has_settled_and_gives_what_came() -> None:
    async def story() -> tuple[int, int]:
        done: list[int] = []
        asyncio.get_running_loop().call_soon(done.append, 7)
        first = await settled(lambda: next(iter(done), None))

        async def turn() -> None:
            done.append(0)

        await settled(lambda: len(done) == 4, turn=turn)
        return first, len(done)

    assert asyncio.run(story()) == (7, 4)


def test_a_loop_that_never_settles_shows_the_condition() -> None:
    async def story() -> None:
        missing: list[int] = []
        await settled(lambda: missing, patience=0.01)

    with pytest.raises(NeverError, match=r"^not within 0 s: await settled\(lambda: missing, .*; the last was \[\]$"):
        asyncio.run(story())
