"""A machine that talks without end: others have their turn, and it waits."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from master.nodes.pacing import BURST_S, SLICE_S, Pace, PacedReader
from tests.master.in_process import run
from tests.waiting import settled
from wire.framing import FrameError

STOP_S = 5.0


class Reading(asyncio.Transport):
    """Of a transport what says whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.paused = self.aborted = False
        self.pauses = 0

    def pause_reading(self) -> None:
        self.paused = True
        self.pauses += 1

    def resume_reading(self) -> None:
        self.paused = False

    def abort(self) -> None:
        self.aborted = True


class Story:
    """Lines that take `line_s` seconds of work each, of a clock that runs besides; at `stop` all stands still."""

    def __init__(self, line_s: float, pace: Pace | None = None) -> None:
        self.heard: list[bytes] = []
        self.spent = self.stopped = 0.0
        self.line_s = line_s
        self.transport = Reading()
        self.reader = PacedReader(
            self.transport, self.hear, 100, pace=pace or Pace(), clock=self.clock, work=lambda: self.spent
        )

    def clock(self) -> float:
        return time.monotonic() + self.spent + self.stopped

    def hear(self, line: bytes) -> None:
        self.spent += self.line_s
        self.heard.append(line)
        if line == b"stop":
            self.stopped += STOP_S
        if line == b"close":
            self.spent += 2 * BURST_S
            self.reader.close()
        if line == b"defect":
            raise ValueError(line)


def lines(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_what_takes_long_is_heard_in_slices_and_all_of_it_in_its_order() -> None:
    async def story() -> None:
        here = Story(line_s=0.001)
        here.reader.feed(b"\n".join(lines(200)) + b"\nhalf")
        assert 0 < len(here.heard) <= SLICE_S / here.line_s + 1
        assert here.transport.paused
        here.reader.feed(b" a line\n")  # it was on its way when reading was paused
        await settled(lambda: not here.transport.paused)
        assert here.heard == [*lines(200), b"half a line"]

    run(story())


def test_beyond_its_share_a_machine_rests() -> None:
    async def story() -> None:
        here = Story(line_s=SLICE_S)
        before = time.monotonic()
        here.reader.feed(b"\n".join(lines(int(2 * BURST_S / SLICE_S))) + b"\n")
        await settled(lambda: not here.transport.paused)
        assert time.monotonic() - before > BURST_S

    run(story())


def test_connections_that_share_a_pace_rest_together() -> None:
    async def story() -> None:
        pace = Pace()
        here, there, elsewhere = Story(2 * BURST_S, pace), Story(0.0, pace), Story(0.0)
        for one in (here, there, elsewhere):
            one.reader.feed(b"a line\n")
        assert [one.transport.paused for one in (here, there, elsewhere)] == [True, True, False]
        assert [one.heard for one in (here, there, elsewhere)] == [[b"a line"]] * 3

    run(story())


def test_who_says_little_is_never_paused() -> None:
    async def story() -> None:
        here = Story(line_s=0.0)
        for line in lines(500):
            here.reader.feed(line + b"\n")
        assert (len(here.heard), here.transport.pauses) == (500, 0)

    run(story())


def test_a_machine_that_stands_still_while_it_hears_a_line_is_no_talk_of_the_nodes() -> None:
    async def story() -> None:
        here = Story(line_s=0.0)
        here.reader.feed(b"stop\n")
        assert (here.heard, here.transport.pauses) == ([b"stop"], 0)
        here.reader.feed(b"on\n")
        assert here.heard == [b"stop", b"on"]

    run(story())


def test_what_is_closed_hears_nothing_more() -> None:
    async def story() -> None:
        here = Story(line_s=SLICE_S)
        here.reader.feed(b"\n".join(lines(9)) + b"\n")
        count = len(here.heard)
        here.reader.close()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(here.heard) == count

    run(story())


@pytest.mark.parametrize("when", ["before", "by what it hears", "while it rests"])
def test_what_is_closed_is_never_due_again(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    due: list[float] = []

    async def story() -> None:
        here = Story(line_s=2 * BURST_S if when == "while it rests" else 0.0)
        loop = asyncio.get_running_loop()
        later = loop.call_later

        def call_later(delay: float, *what: Any) -> asyncio.TimerHandle:
            due.append(delay)
            return later(delay, *what)

        monkeypatch.setattr(loop, "call_later", call_later)
        if when == "while it rests":
            here.reader.feed(b"a line\n")
        if when != "by what it hears":
            here.reader.close()
        due.clear()
        here.reader.feed(b"close\nmore\n" * 2)
        assert b"more" not in here.heard
        assert due == []

    run(story())


def test_a_line_without_end_is_refused_and_a_defect_ends_the_connection() -> None:
    async def story() -> None:
        with pytest.raises(FrameError):
            Story(line_s=0.0).reader.feed(b"x" * 101)
        here = Story(line_s=0.0)
        with pytest.raises(ValueError, match="defect"):
            here.reader.feed(b"defect\n")
        assert here.transport.aborted

    run(story())
