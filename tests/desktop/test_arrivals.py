"""Frames that were sent too close are told so, and only those: who looks late says nothing of what he found."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from functools import partial

import pytest

from tests.desktop import arrivals
from tests.desktop.arrivals import TERMINATOR, Arrivals

END = TERMINATOR.encode()
SIZE = 100


class Clock:
    """Stands still but where it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Looking:
    """Stands for the kernel's poll: each time that nothing is there, `then` does the next thing."""

    def __init__(self, then: list[Callable[[], object]]) -> None:
        self._then = then

    def register(self, *_: object) -> None:
        """Whatever it is."""

    def poll(self, _ms: float) -> None:
        """Go on."""
        self._then.pop(0)()


def heard(monkeypatch: pytest.MonkeyPatch, *story: tuple[bytes, float]) -> tuple[list[bytes], list[bytes]]:
    """What came, and what of it was too close, where at each look that finds nothing the next of these is sent, and the
    next look comes so many seconds later."""
    clock = Clock()
    ours, theirs = socket.socketpair()

    def go_on(data: bytes, seconds: float) -> None:
        theirs.sendall(data)
        clock.now += seconds

    looking = Looking([*(partial(go_on, *one) for one in story), theirs.close])
    monkeypatch.setattr(arrivals, "time", clock)
    monkeypatch.setattr(select, "poll", lambda: looking)
    found: list[bytes] = []
    with ours:
        reader = Arrivals(ours)
        data = b"?"
        while data:
            data, frames = reader.receive(SIZE)
            found += [frame.data for frame in frames]
    return found, reader.too_close


def test_two_at_once_are_too_close_wherever_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    both = b"one" + END + b"two" + END
    for cut in range(1, len(both)):
        found, close = heard(monkeypatch, (both[:cut], 0.01), (both[cut:], 0.01))
        assert found == [b"one", b"two"]
        assert len(close) == 1, cut


def test_the_head_of_the_next_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    found, close = heard(monkeypatch, (b"one" + END + b"tw", 0.01), (b"", 1.0), (b"o" + END, 0.01))
    assert (found, close) == ([b"one", b"two"], [b"tw"])


def test_those_that_came_apart_are_well(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = [(b"", 0.01)] * 5
    found, close = heard(monkeypatch, (b"one" + END, 0.01), *nothing, (b"two" + END, 0.01))
    assert (found, close) == ([b"one", b"two"], [])


def test_who_looks_late_accuses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    found, close = heard(monkeypatch, (b"one" + END + b"two" + END, 0.06))
    assert (found, close) == ([b"one", b"two"], [])
