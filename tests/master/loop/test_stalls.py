"""What is told of the turns of the loop: how long they took, of what, and where."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from selectors import SelectorKey
from types import FunctionType
from typing import Any

import pytest

from master.loop import stalls
from master.loop.selector import TurnSelector
from master.loop.stalls import EDGES, KEPT, LOOK_S, LoopTimes, Stall, StallWatch
from tests.master.durable.storage import descriptors

LONG_S = 4 * LOOK_S


def turns(story: Callable[[StallWatch], Coroutine[Any, Any, None]]) -> LoopTimes:
    """What is told of a loop's turns, from when the story has begun."""
    watch, loop = StallWatch.loop()

    async def told() -> LoopTimes:
        loop.add_signal_handler(signal.SIGUSR1, int)  # so that a signal wakes the loop, as it does a master's
        await asyncio.sleep(0)
        watch.start_over()
        await story(watch)
        await asyncio.sleep(0)  # the turn is over
        return watch.told()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(told())
        finally:
            watch.stop()


def ours(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, as if it stood in a module of the master."""
    assert isinstance(function, FunctionType)
    named = {**function.__globals__, "__name__": "master.made_up"}
    return FunctionType(function.__code__, named, argdefs=function.__defaults__)


def compute(seconds: float = LONG_S) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def wait_for_the_disk() -> None:
    ours_, theirs = os.pipe()
    timer = threading.Timer(LONG_S, os.write, (theirs, b"x"))
    timer.start()
    os.read(ours_, 1)
    timer.join()
    os.close(ours_)
    os.close(theirs)


def collect() -> None:
    full: list[list[Any]] = [[] for _ in range(100_000)]
    end = time.monotonic() + LONG_S
    while time.monotonic() < end:
        gc.collect()
    full.clear()


def stall_in(function: Callable[[], None]) -> Stall:
    async def story(_watch: StallWatch) -> None:
        await asyncio.sleep(0)
        ours(function)()

    return turns(story).longest[0]


def test_a_turn_that_computes_is_told_with_its_cpu_time_and_the_function() -> None:
    begun = time.time()
    stall = stall_in(compute)
    assert LONG_S <= stall.cpu <= stall.wall
    assert stall.where.endswith("master.made_up.compute")
    assert begun - stall.wall <= stall.at <= time.time()


def test_a_turn_that_waits_is_told_with_the_function_and_as_nobodys_work() -> None:
    stall = stall_in(wait_for_the_disk)
    assert stall.wall >= LONG_S
    assert stall.cpu < stall.wall / 2
    assert stall.where.endswith("master.made_up.wait_for_the_disk")


def test_a_turn_that_is_long_for_garbage_says_so() -> None:
    stall = stall_in(collect)
    assert LONG_S / 2 < stall.garbage <= stall.wall
    assert "master.made_up.collect" in stall.where


def test_a_turn_that_comes_upon_a_function_of_the_loop_again_is_told_with_who_led_there() -> None:
    """As where garbage is looked through, and a closed loop among it is told of its end."""

    def lead() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, _context: ours(compute)())
        loop.call_exception_handler({})

    assert ".lead > " in stall_in(lead).where


def test_what_others_kept_the_processor_for_is_no_more_than_what_is_missing_in_cpu_time() -> None:
    stall = stall_in(compute)
    assert stall.denied is None or 0 <= stall.denied <= stall.wall - stall.cpu


def test_every_turn_is_counted_once_and_short_ones_are_not_remembered() -> None:
    async def story(_watch: StallWatch) -> None:
        for _ in range(500):
            await asyncio.sleep(0)
        compute(3 * EDGES[0])
        await asyncio.sleep(0)

    told = turns(story)
    assert told.turns >= 501
    assert sum(told.by_wall) == sum(told.by_cpu) == told.turns
    assert len(told.by_wall) == len(told.by_cpu) == len(EDGES) + 1
    assert sum(told.by_wall[1:]) >= 1
    assert told.minute_wall >= 3 * EDGES[0]
    assert all(stall.wall >= LOOK_S for stall in told.longest)


def test_a_turn_after_short_ones_is_not_told_with_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "CLOCKS_S", 60.0)  # the clocks were read long before

    async def story(_watch: StallWatch) -> None:
        compute()
        await asyncio.sleep(0)
        wait_for_the_disk()

    computed, waited = sorted(turns(story).longest, key=lambda one: one.at)[-2:]
    assert computed.cpu >= LONG_S
    assert waited.cpu < waited.wall / 2


def test_of_many_long_turns_the_longest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "LOOK_S", 0.001)

    async def story(_watch: StallWatch) -> None:
        compute(LONG_S)
        for _ in range(3 * KEPT):
            await asyncio.sleep(0)
            compute(0.002)

    told = turns(story)
    assert KEPT <= len(told.longest) <= 2 * KEPT
    assert max(one.cpu for one in told.longest) >= LONG_S, "whatever took long by the clock beside it"
    assert [one.wall for one in told.longest] == sorted((one.wall for one in told.longest), reverse=True)


def test_the_longest_of_the_last_minutes_is_forgotten_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[float] = []

    async def story(watch: StallWatch) -> None:
        compute()
        await asyncio.sleep(0)
        before.append(watch.told().minute_cpu)
        monkeypatch.setattr(stalls, "MINUTE_S", 0.0)
        monkeypatch.setattr(time, "monotonic", later(time.monotonic, 1000.0))

    after = turns(story).minute_cpu
    assert before[0] >= LONG_S
    assert after < before[0], "what is told is of the turns since"


def later(clock: Callable[[], float], seconds: float) -> Callable[[], float]:
    return lambda: clock() + seconds


def test_a_loop_that_has_nothing_to_do_is_woken_once_and_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "LOOK_S", 0.002)

    async def story(_watch: StallWatch) -> None:
        await asyncio.sleep(50 * 0.002)

    assert turns(story).turns <= 6


def test_a_loop_that_has_something_to_do_now_and_then_is_not_woken_besides() -> None:
    async def story(_watch: StallWatch) -> None:
        for _ in range(10):
            await asyncio.sleep(2 * LOOK_S)

    assert turns(story).turns <= 23  # two for each sleep; of the first one nobody knew that it would be long


def test_a_turn_after_a_long_sleep_is_looked_at() -> None:
    async def story(_watch: StallWatch) -> None:
        for _ in range(2):
            await asyncio.sleep(2 * LOOK_S)
        ours(compute)()

    assert turns(story).longest[0].where.endswith("master.made_up.compute")


def test_a_turn_is_looked_at_also_where_the_look_at_the_last_one_came_when_it_was_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a machine that had no CPU for the loop between two turns."""
    select = TurnSelector.select

    def late(selector: TurnSelector, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if callable(signal.getsignal(signal.SIGALRM)):  # while somebody watches
            signal.raise_signal(signal.SIGALRM)
        return select(selector, timeout)

    monkeypatch.setattr(TurnSelector, "select", late)
    assert stall_in(compute).where.endswith("master.made_up.compute")


def test_a_turn_of_a_second_has_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stalls, "TOLD_S", LONG_S)
    stall_in(compute)
    [line] = [record.getMessage() for record in caplog.records if record.name == "muster.loop"]
    assert re.match(r"everybody waited [0-9.]+ ", line)
    assert line.endswith("master.made_up.compute")


def test_who_watched_leaves_nothing_behind() -> None:
    before = signal.getsignal(signal.SIGALRM), list(gc.callbacks), descriptors()
    stall_in(compute)
    assert (signal.getsignal(signal.SIGALRM), list(gc.callbacks)) == before[:2]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert descriptors() <= before[2]


def test_a_look_that_comes_while_the_watch_is_stopped_sets_no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would go off when nobody hears it any more, and end the process."""
    set_timer = signal.setitimer

    def set_and_look(which: int, seconds: float) -> tuple[float, float]:
        before = set_timer(which, seconds)
        if not seconds:
            signal.raise_signal(signal.SIGALRM)
        return before

    async def story(_watch: StallWatch) -> None:
        monkeypatch.setattr(signal, "setitimer", set_and_look)

    turns(story)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
