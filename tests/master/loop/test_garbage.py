"""When the interpreter looks for garbage: a little at a time, and through all only where memory has grown."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from master.loop import garbage
from master.loop.garbage import LARGE, LEAST_GROWTH, PATIENCE, QUIET_TURNS, Garbage, give_back, resident_bytes
from tests.waiting import run_story, settled

FEW = 10 << 20


class Circle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.me = self


class Lab:
    """What a Garbage asks: bytes of memory, and the turns that the loop makes between two looks."""

    def __init__(self) -> None:
        self.memory = FEW
        self.busy = 0
        self.looks = 0
        self.given_back = 0
        self._turns = 0
        self.asked = 0
        self.garbage = Garbage(self._turned, self._resident, self._give)

    def _resident(self) -> int:
        self.asked += 1
        return self.memory

    def _give(self) -> None:
        self.given_back += 1

    def _turned(self) -> int:
        self.looks += 1
        self._turns += self.busy
        return self._turns


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(garbage, "FIRST_S", 0.001)
    monkeypatch.setattr(garbage, "LOOK_S", 0.001)
    monkeypatch.setattr(garbage, "QUIET_S", 0.001)
    before = list(gc.callbacks)
    yield
    gc.unfreeze()
    assert gc.callbacks == before


def told(story: Callable[[Lab], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        lab = Lab()
        lab.garbage.begin()
        try:
            await story(lab)
        finally:
            lab.garbage.stop()

    run_story(whole())


def old_circle() -> weakref.ref[Circle]:
    """One that died after a collection had seen it alive."""
    circle = Circle()
    gc.collect(1)
    return weakref.ref(circle)


def test_what_survived_a_small_collection_is_looked_at_no_more() -> None:
    async def story(_lab: Lab) -> None:
        kept = [[] for _ in range(1000)]  # type: ignore[var-annotated]
        gc.collect(1)
        looked_at = set(map(id, gc.get_objects()))
        assert looked_at.isdisjoint(map(id, kept))
        young = weakref.ref(Circle())
        gc.collect(1)
        assert young() is None

    told(story)


def test_what_died_since_is_found_once_memory_has_grown() -> None:
    async def story(lab: Lab) -> None:
        circle = old_circle()
        gc.collect()
        assert circle() is not None
        lab.memory = FEW + LEAST_GROWTH
        await asyncio.sleep(0.01)
        assert circle() is not None
        lab.memory += 1
        await settled(lambda: circle() is None, "it is found")

    told(story)


def test_a_busy_loop_is_left_alone_but_not_for_ever() -> None:
    async def story(lab: Lab) -> None:
        circle = old_circle()
        lab.busy = QUIET_TURNS + 1
        lab.memory = FEW + 2 * LEAST_GROWTH - 1
        await settled(lambda: circle() is None, "it is found")
        assert lab.looks >= 2 * PATIENCE

    told(story)


def test_where_memory_grows_on_no_quiet_moment_is_waited_for() -> None:
    async def story(lab: Lab) -> None:
        circle = old_circle()
        lab.busy = QUIET_TURNS + 1
        lab.memory = FEW + 2 * LEAST_GROWTH + 1
        await settled(lambda: circle() is None, "it is found")
        assert lab.looks == 2

    told(story)


def test_growth_that_is_no_garbage_is_not_looked_through_again_and_again() -> None:
    async def story(lab: Lab) -> None:
        lab.memory = FEW + 2 * LEAST_GROWTH
        await settled(lambda: lab.looks == 2, "one look through all")
        await asyncio.sleep(0.02)
        assert lab.looks == 2
        lab.memory *= 2
        await settled(lambda: lab.looks == 4, "the next")

    told(story)


def test_memory_is_told_in_bytes() -> None:
    assert 1 << 20 < resident_bytes() < 1 << 40


def test_what_is_free_after_the_start_goes_back_to_the_system_once_and_after_each_look_through_all() -> None:
    async def story(lab: Lab) -> None:
        lab.memory = LARGE + 1
        await settled(lambda: lab.given_back == 1, "it is given back")
        await asyncio.sleep(0.02)
        assert lab.given_back == 1
        lab.memory += LEAST_GROWTH + 1
        await settled(lambda: lab.given_back == 2, "it is given back")

    told(story)


def test_a_small_master_gives_nothing_back() -> None:
    async def story(lab: Lab) -> None:
        await settled(lambda: lab.asked > 2, "it was looked at")
        assert lab.given_back == 0

    told(story)


def test_memory_that_is_free_can_be_given_back() -> None:
    before = resident_bytes()
    kept = [bytes(600) for _ in range(50_000)]  # the C library's, for the interpreter keeps smaller ones itself
    last = [bytes(600)]
    kept.clear()
    give_back()
    assert resident_bytes() < before + (20 << 20)
    assert last
