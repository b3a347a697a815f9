"""Work beside the loop: so much at once, so much that waits, and what is beyond is told so at once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from master.loop import kept_threads
from master.people.workers import Workers
from tests.faults import refusing
from tests.waiting import run_story, settled
from wire.errors import LimitError


class Gate:
    """Work that lasts until the test opens it."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun: list[int] = []

    def pass_through(self) -> str:
        self.begun.append(threading.get_ident())
        assert self.open.wait(60)
        return "through"


def test_so_many_work_at_once_so_many_wait_and_the_next_is_refused_at_once() -> None:
    async def story() -> None:
        gate, workers = Gate(), Workers("test", threads=2, waiting=3, each_s=0.5)
        calls = [asyncio.create_task(workers.run(gate.pass_through)) for _ in range(5)]
        await settled(lambda: len(gate.begun) == 2)
        assert workers.under_way == 5
        with refusing(LimitError, "log_ins_busy", seconds=2):
            await workers.run(gate.pass_through)
        assert len(set(gate.begun)) == 2
        assert threading.get_ident() not in gate.begun
        gate.open.set()
        assert await asyncio.gather(*calls) == ["through"] * 5
        assert workers.under_way == 0
        assert await workers.run(gate.pass_through) == "through"

    run_story(story())


def test_who_leaves_while_he_waits_makes_room_and_nothing_is_done_for_him() -> None:
    async def story() -> None:
        gate, workers = Gate(), Workers("test", threads=1, waiting=1, each_s=1)
        first, second = (asyncio.create_task(workers.run(gate.pass_through)) for _ in range(2))
        await settled(lambda: len(gate.begun) == 1 and workers.under_way == 2)
        second.cancel()
        await asyncio.wait([second])
        third = asyncio.create_task(workers.run(gate.pass_through))
        await settled(lambda: workers.under_way == 2)
        gate.open.set()
        assert await asyncio.gather(first, third) == ["through"] * 2
        assert len(gate.begun) == 2

    run_story(story())


def test_who_leaves_while_it_runs_has_his_thread_back_only_when_it_ends() -> None:
    async def story() -> None:
        gate, workers = Gate(), Workers("test", threads=1, waiting=1, each_s=1)
        first = asyncio.create_task(workers.run(gate.pass_through))
        await settled(lambda: len(gate.begun) == 1)
        first.cancel()
        await asyncio.wait([first])
        second = asyncio.create_task(workers.run(gate.pass_through))
        await settled(lambda: workers.under_way == 2)
        with pytest.raises(LimitError):
            await workers.run(gate.pass_through)
        gate.open.set()
        assert await second == "through"
        assert workers.under_way == 0

    run_story(story())


def test_what_goes_wrong_in_a_thread_is_told_to_who_asked() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def story() -> None:
        workers = Workers("test", threads=1, waiting=0, each_s=1)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await workers.run(fail)
        assert workers.under_way == 0

    run_story(story())


def test_where_no_thread_is_to_be_had_the_next_call_is_not_refused_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def story() -> None:
        workers = Workers("test", threads=1, waiting=0, each_s=1)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            with pytest.raises(RuntimeError):
                await workers.run(int)
        assert await workers.run(int) == 0

    run_story(story())


def test_after_the_end_nothing_is_begun_also_of_what_waits() -> None:
    async def story() -> None:
        gate, workers = Gate(), Workers("test", threads=1, waiting=2, each_s=1)
        first, *waiting = (asyncio.create_task(workers.run(gate.pass_through)) for _ in range(3))
        await settled(lambda: len(gate.begun) == 1 and workers.under_way == 3)
        workers.close()
        with pytest.raises(LimitError):
            await workers.run(gate.pass_through)
        gate.open.set()
        assert await first == "through"
        refused = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in refused] == [LimitError] * 2
        assert (len(gate.begun), workers.under_way) == (1, 0)

    run_story(story())


def test_a_thread_that_outlives_the_loop_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_threads, "IDLE_S", 0.01)
    gate = Gate()

    async def story() -> None:
        workers = Workers("test", threads=1, waiting=0, each_s=1)
        call = asyncio.create_task(workers.run(gate.pass_through))
        await settled(lambda: gate.begun)
        call.cancel()

    run_story(story())
    [thread] = [one for one in threading.enumerate() if one.ident == gate.begun[0]]
    assert thread.daemon
    gate.open.set()
    thread.join(60)
    assert not thread.is_alive()
