"""How often the kernel is asked who accepted a connection, while nobody does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from wire import listener, netlink, other_end
from wire.other_end import Finding


class Clock:
    """The monotonic time, which goes on by what is waited."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(other_end, "time", made)
    return made


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as made:
        yield made


def wait(finding: Finding, clock: Clock) -> float:
    """How long it looked."""
    begun = clock.now
    for pause in finding:
        clock.now += pause
    return clock.now - begun


def test_who_waits_long_asks_the_kernel_seldom(
    clock: Clock, sock: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, int] = {"end": 0, "listeners": 0}

    def end(_ours: netlink.End, _theirs: netlink.End) -> int:
        asked["end"] += 1
        return netlink.NOT_TAKEN

    def listening(_host: str, _port: int) -> list[SimpleNamespace]:
        asked["listeners"] += 1
        return []

    monkeypatch.setattr(netlink, "other_end", end)
    monkeypatch.setattr(listener, "listening", listening)
    with pytest.raises(TimeoutError):
        wait(Finding(sock, lambda _uid: False, clock.now + 60), clock)
    assert asked["listeners"] <= 61
    assert asked["end"] < 400
    assert clock.now <= 1060.001, "it gives up in time"


@pytest.mark.parametrize("after", [0.0, 0.02, 0.5, 5.0, 50.0])
def test_who_is_accepted_is_known_soon_after(
    clock: Clock, sock: socket.socket, monkeypatch: pytest.MonkeyPatch, after: float
) -> None:
    accepted = clock.now + after
    monkeypatch.setattr(netlink, "other_end", lambda _ours, _theirs: 7 if clock.now >= accepted else netlink.NOT_TAKEN)
    finding = Finding(sock, lambda _uid: True, clock.now + 60)
    took = wait(finding, clock)
    assert finding.uid == 7
    assert took - after <= max(0.01, after / 10)


def test_a_stranger_who_listens_and_accepts_nothing_is_named_soon(
    clock: Clock, sock: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netlink, "other_end", lambda _ours, _theirs: netlink.NOT_TAKEN)
    monkeypatch.setattr(listener, "listening", lambda _host, _port: [SimpleNamespace(uid=9)])
    finding = Finding(sock, lambda _uid: False, clock.now + 60)
    assert wait(finding, clock) < 0.6
    assert finding.uid == 9
