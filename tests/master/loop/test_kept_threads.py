"""Threads that stay for the next call: no more than are needed, and none for long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from master.loop import kept_threads
from master.loop.kept_threads import KeptThreads
from tests.waiting import until

NAME = "kept for a test"


def alive() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == NAME]


@pytest.fixture(autouse=True)
def _none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_threads, "IDLE_S", 0.2)
    until("those of the test before are gone", lambda: not alive())


def who(threads: KeptThreads) -> int:
    """Which thread a call is made in."""
    told: SimpleQueue[int] = SimpleQueue()
    threads.begin(lambda: told.put(threading.get_ident()))
    return told.get(timeout=60)


def test_calls_that_follow_on_each_other_need_no_new_thread() -> None:
    threads = KeptThreads(NAME, 1)
    assert len({who(threads) for _ in range(200)}) == 1
    assert [one.daemon for one in alive()] == [True]


def test_a_call_does_not_wait_for_one_that_hangs_while_there_may_be_more_threads() -> None:
    threads, gate = KeptThreads(NAME, 3), threading.Event()
    for _ in range(2):
        threads.begin(gate.wait)
    assert who(threads)
    gate.set()


def test_beyond_the_most_a_call_waits_for_the_next_thread_that_is_free() -> None:
    threads, gate, done = KeptThreads(NAME, 2), threading.Event(), SimpleQueue[int]()

    def passes(number: int) -> Callable[[], None]:
        def call() -> None:
            gate.wait()
            done.put(number)

        return call

    for number in range(10):
        threads.begin(passes(number))
    assert len(alive()) == 2
    gate.set()
    assert {done.get(timeout=60) for _ in range(10)} == set(range(10))


def test_a_thread_that_has_nothing_to_do_ends_and_the_next_call_has_another() -> None:
    threads = KeptThreads(NAME, 2)
    assert who(threads)
    until("it has ended", lambda: not alive())
    assert who(threads)


def test_where_no_thread_is_to_be_had_the_call_is_not_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads, made = KeptThreads(NAME, 1), list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            threads.begin(lambda: made.append(1))
    assert who(threads)
    assert made == []
