"""The machine's own figures: the same from psutil as from /proc, and what two readings make."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from monitor.agent.sample import host
from monitor.agent.sample.host import Host, Moment, bandwidth, percents, read_memory, read_times, read_traffic
from tests.waiting import until

psutil: Any = importlib.import_module("psutil")


def figures(before: Moment, after: Moment) -> dict[str, Any]:
    return Host().figures(before, after)


def moment(at: float, busy: int, **traffic: tuple[int, int]) -> Moment:
    """Two CPUs, of which one is idle; every tick since 0."""
    total = int(at * 100)
    return Moment(at, [(busy, 2 * total), (busy, total), (0, total)], traffic)


def test_memory_has_psutils_names_and_its_figures() -> None:
    ours, theirs = read_memory(), psutil.virtual_memory()
    assert tuple(ours) == theirs._fields
    assert ours["total"] == theirs.total
    for name in ("available", "used", "free", "cached", "buffers", "shared", "slab", "active", "inactive"):
        assert ours[name] == pytest.approx(getattr(theirs, name), abs=0.05 * theirs.total), name
    assert ours["percent"] == pytest.approx(theirs.percent, abs=5)


T = TypeVar("T")
U = TypeVar("U")


def both(
    first: Callable[[], Mapping[str, T]], second: Callable[[], Mapping[str, U]]
) -> tuple[dict[str, T], dict[str, U]]:
    """What both read while no interface came or went, as those of hosts in other tests do."""

    def read() -> tuple[dict[str, T], dict[str, U]] | None:
        before, found, after = first(), second(), first()
        return (dict(before), dict(found)) if set(before) == set(after) else None

    return until("the same interfaces before and after", read)


def test_traffic_is_what_psutil_tells() -> None:
    ours, theirs = both(read_traffic, lambda: psutil.net_io_counters(pernic=True))
    assert set(ours) == set(theirs)
    assert all(theirs[name].bytes_recv >= received >= 0 for name, (received, _) in ours.items())


@pytest.mark.parametrize("there", [True, False])
def test_psutil_is_taken_where_it_is_there(monkeypatch: pytest.MonkeyPatch, *, there: bool) -> None:
    if not there:
        monkeypatch.setattr(host, "import_module", lambda _name: None)
    made = Host()
    assert (made.memory is read_memory) is not there
    assert (made.traffic is read_traffic) is not there
    assert made.memory()["total"] == read_memory()["total"]
    ours, theirs = both(read_traffic, made.traffic)
    assert set(theirs) == set(ours)


def test_a_broken_psutil_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: 1 / 0)
    assert Host().memory is read_memory


def test_cpus_are_as_busy_as_their_ticks_say() -> None:
    told = figures(moment(10.0, 100), moment(12.0, 200))
    assert (told["cpu_percent"], told["cpu_percents"]) == (25.0, [50.0, 0.0])
    assert percents([(5, 10)], [(5, 10)]) == [0.0], "no time has passed"
    assert percents([(9, 10)], [(8, 12)]) == [0.0], "ticks that go back, as they do on some machines"
    assert len(read_times()) == 1 + (os.cpu_count() or 0)


def test_rates_are_per_second_and_the_loopback_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "bandwidth", lambda name: 1e9 if name == "eth0" else None)
    before = moment(10.0, 0, lo=(0, 0), eth0=(1000, 5), tap0=(900, 900), gone=(1, 1))
    after = moment(12.0, 0, lo=(9, 9), eth0=(5000, 5), tap0=(100, 902), fresh=(7, 7))
    assert figures(before, after)["network"] == [
        {"name": "eth0", "received_ps": 2000.0, "sent_ps": 0.0, "bandwidth": 1e9},
        {"name": "tap0", "received_ps": 0, "sent_ps": 1.0, "bandwidth": None},
    ]


def test_a_bandwidth_is_asked_for_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(host, "bandwidth", asked.append)
    made = Host()
    for at in (12.0, 14.0, 41.0, 42.0):
        made.figures(moment(at - 2, 0, eth0=(0, 0)), moment(at, 0, eth0=(0, 0)))
    assert asked == ["eth0", "eth0"]


@pytest.mark.parametrize(
    ("content", "bits"), [("10000\n", 1e10), ("-1\n", None), ("0\n", None), ("what\n", None), (None, None)]
)
def test_a_bandwidth_is_told_in_bits_a_second_where_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, bits: float | None
) -> None:
    if content is not None:
        (tmp_path / "speed").write_text(content, encoding="ascii")
    real = open

    def elsewhere(path: str, **keys: Any) -> Any:
        return real(path.replace("/sys/class/net/x", str(tmp_path)), **keys)

    monkeypatch.setattr("builtins.open", elsewhere)
    assert bandwidth("x") == bits
