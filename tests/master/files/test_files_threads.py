"""A storage that hangs takes its callers' patience, four threads, and nobody else's time."""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from master.files.threads import PER_KEY, STRETCHES, STUCK, TOTAL, Threads
from tests.faults import said
from tests.master.durable.storage import hanging
from tests.master.in_process import run
from tests.waiting import PATIENCE_S, settled
from wire.errors import ConflictError, LimitError, StorageError
from wire.message import Message

Tick = Callable[[], None]
PATIENT_S = 30.0
HASTY_S = 0.2


def test_what_a_call_gives_or_raises_comes_back() -> None:
    async def story() -> None:
        threads = Threads(patience_s=PATIENT_S)
        assert await threads.call("data", lambda _tick: threading.current_thread().daemon) is True

        def refuse(_tick: Tick) -> None:
            raise ConflictError("data/x exists already")

        with pytest.raises(ConflictError, match="data/x"):
            await threads.call("data", refuse)
        assert await asyncio.gather(*(threads.call("data", lambda _t, n=n: n) for n in range(100))) == [*range(100)]  # type: ignore[misc]
        assert not threads.storages

    run(story())


def test_a_hanging_storage_is_told_after_a_while_then_at_once_and_others_go_on() -> None:
    async def story() -> None:
        threads = Threads(patience_s=HASTY_S)
        first, hang = threading.Event(), threading.Event()
        calls = [threads.call("nfs", lambda _tick: hang.wait()) for _ in range(STUCK - 1)]
        calls.append(threads.call("nfs", lambda _tick: first.wait()))
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, StorageError)
            assert said(outcome) == Message("storage_slow", where="nfs", seconds=HASTY_S)
        threads.patience_s = PATIENT_S
        with pytest.raises(StorageError, match=f"{STUCK} calls hang"):
            await threads.call("nfs", lambda _tick: 1)
        assert await threads.call("data", lambda _tick: 2) == 2
        first.set()
        await settled(lambda: threads.running["nfs"] == STUCK - 1)
        assert await threads.call("nfs", lambda _tick: 3) == 3, "it answers some"
        hang.set()
        await settled(lambda: not threads.running)
        assert await threads.call("nfs", lambda _tick: 3) == 3

    run(story())


class Looks:
    """How long a call has shown no sign of life is looked at when this is called, and at no other time."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._real = loop.call_later
        self._look: Callable[[], None] = lambda: None
        patched.setattr(loop, "call_later", self._later)

    def _later(self, _delay: float, look: Callable[[], None]) -> asyncio.TimerHandle:
        self._look = look
        return self._real(PATIENCE_S, look)

    def __call__(self) -> None:
        self._look()


def test_a_call_that_shows_that_it_goes_on_may_take_as_long_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        look = Looks(monkeypatch)
        asked, ticked = queue.SimpleQueue[str](), queue.SimpleQueue[None]()

        def slow(tick: Tick) -> str:
            while asked.get(timeout=PATIENCE_S) == "tick":
                tick()
                ticked.put(None)
            return "done"

        call = asyncio.ensure_future(Threads().call("data", slow))
        await asyncio.sleep(0)
        for _ in range(3 * STRETCHES):
            asked.put("tick")
            await asyncio.to_thread(ticked.get, timeout=PATIENCE_S)
            for _ in range(STRETCHES):
                assert not call.done()
                look()
        await asyncio.sleep(0)
        assert not call.done()
        asked.put("end")
        assert await call == "done"

    run(story())


def test_a_call_that_shows_that_it_goes_on_and_then_no_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        look = Looks(monkeypatch)
        ticked, hang = threading.Event(), threading.Event()

        def slow(tick: Tick) -> None:
            tick()
            ticked.set()
            hang.wait(PATIENCE_S)

        threads = Threads()
        call = asyncio.ensure_future(threads.call("data", slow))
        await asyncio.to_thread(ticked.wait, PATIENCE_S)
        for _ in range(STRETCHES):
            look()
            assert not call.done()
        look()
        with pytest.raises(StorageError, match="has not answered"):
            await call
        hang.set()
        await settled(lambda: not threads.running)

    run(story())


def test_a_machine_that_stops_for_a_while_makes_no_storage_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        clock, stopped = time.monotonic, [0.0]
        monkeypatch.setattr(time, "monotonic", lambda: clock() + stopped[0])
        began, go_on = threading.Event(), threading.Event()

        def work(_tick: Tick) -> str:
            began.set()
            go_on.wait(PATIENCE_S)
            return "done"

        call = asyncio.ensure_future(Threads(patience_s=PATIENT_S).call("data", work))
        await asyncio.to_thread(began.wait, PATIENCE_S)
        stopped[0] = PATIENT_S
        for _ in range(3):  # the loop hears of its timers before it hears of the thread
            await asyncio.sleep(0)
        assert not call.done()
        go_on.set()
        assert await call == "done"

    run(story())


def test_there_are_only_so_many_threads_for_a_storage_and_altogether() -> None:
    async def story() -> None:
        threads = Threads(patience_s=PATIENT_S)
        go = threading.Event()
        keys = [f"storage{number}" for number in range(TOTAL // PER_KEY)]
        calls = [
            asyncio.ensure_future(threads.call(key, lambda _tick: go.wait(PATIENT_S)))
            for key in keys
            for _ in range(PER_KEY)
        ]
        await settled(lambda: threads.running.total() == TOTAL)
        with pytest.raises(LimitError, match=f"{TOTAL} file operations"):
            await threads.call("one more", lambda _tick: 1)
        go.set()
        assert all(await asyncio.gather(*calls))
        impatient = Threads(patience_s=PATIENT_S, per_key=1)
        held = threading.Event()
        first = asyncio.ensure_future(impatient.call("data", lambda _tick: held.wait(PATIENCE_S)))
        await settled(lambda: impatient.running["data"])
        impatient.patience_s = HASTY_S
        with pytest.raises(LimitError, match="try again"):
            await impatient.call("data", lambda _tick: 1)
        impatient.patience_s = PATIENT_S
        held.set()
        assert await first
        assert await impatient.call("data", lambda _tick: 1) == 1

    run(story())


def test_who_does_not_wait_any_more_leaves_the_books_right() -> None:
    async def story() -> None:
        threads = Threads(patience_s=PATIENT_S, per_key=1)
        go = threading.Event()
        first = asyncio.ensure_future(threads.call("data", lambda _tick: go.wait(PATIENT_S)))
        await settled(lambda: threads.running["data"])
        second = asyncio.ensure_future(threads.call("data", lambda _tick: 2))
        third = asyncio.ensure_future(threads.call("data", lambda _tick: 3))
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        go.set()
        assert await third == 3
        await settled(lambda: not threads.running)
        assert not threads.storages

    run(story())


@pytest.mark.real
def test_a_hanging_thread_keeps_no_process_from_ending() -> None:
    code = (
        "import asyncio, threading\n"
        "from master.files.threads import Threads\n"
        "async def main():\n"
        "    try:\n"
        "        await Threads(patience_s=0.01).call('nfs', lambda tick: threading.Event().wait())\n"
        "    except Exception as error:\n"
        "        print(error.key)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "storage_slow\n"
    assert done.stderr == ""


def test_a_real_dead_mount_does_not_stop_the_loop(tmp_path: Path) -> None:
    async def story() -> None:
        threads = Threads(patience_s=HASTY_S)
        with hanging(tmp_path / "nfs") as folder:
            with pytest.raises(StorageError, match="has not answered"):
                await threads.call("nfs", lambda _tick: os.open(folder, os.O_RDONLY))
            assert threads.running["nfs"] == 1
        await settled(lambda: not threads.running)

    run(story())
