"""Peers that are made up: who is measured beside whom, and what is said of who could not be had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import peers
from bench.lab import BenchError
from bench.peers import NO_OPS, Open, Peer, measure
from bench.slurm_side import Programs


class Known:
    """A peer that needs a known time for everything."""

    def __init__(self, rate: float, start_ms: float) -> None:
        self._rate = rate
        self._start_ms = start_ms

    def no_ops(self, count: int) -> float:
        return count / self._rate

    def starts(self, count: int) -> list[float]:
        return [self._start_ms] * count


def known(rate: float, start_ms: float) -> Open:
    @contextmanager
    def opened(_slots: int, folder: Path) -> Iterator[Peer]:
        assert list(folder.iterdir()) == []
        yield Known(rate, start_ms)

    return opened


def test_ratios_are_ours_to_theirs_and_those_to_hyperqueue_have_goals(tmp_path: Path) -> None:
    who = {"Muster": known(300, 4), "HyperQueue": known(400, 5), "task-spooler": known(600, 2)}
    figures = {(one.subject, one.name): one for one in measure(who, tmp_path, 2)}
    assert figures["Muster", "2 slots: no-ops, own log each"].runs == pytest.approx((300, 300))
    assert figures["HyperQueue", "2 slots: ours for each of its"].runs == pytest.approx((0.75, 0.75))
    assert figures["HyperQueue", "2 slots: ours for each of its"].met is False
    assert figures["HyperQueue", "64 slots: ours for each of its"].met is False
    assert figures["HyperQueue", "submit to process: ours to its"].met is True
    assert figures["task-spooler", "submit to process: ours to its"].runs == (2, 2)
    assert figures["task-spooler", "2 slots: ours for each of its"].met is None
    assert NO_OPS > 0


def test_who_cannot_be_had_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuses(_tools: Path) -> Open:
        raise BenchError("pip: no network")

    monkeypatch.setattr(peers, "hyperqueue", refuses)
    monkeypatch.setattr(peers, "task_spooler", refuses)
    monkeypatch.setattr(peers, "slurm", refuses)
    assert peers.main(["--tools", str(tmp_path)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "HyperQueue could not be had, so it is not measured: pip: no network",
        "task-spooler could not be had, so it is not measured: pip: no network",
        "Slurm could not be had, so it is not measured: pip: no network",
    ]


@pytest.mark.real
def test_what_cannot_be_fetched_says_so_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"\Ash -c .*: no such package\Z"):
        peers._get(["sh", "-c", "echo trying; echo no such package >&2; exit 100"], tmp_path)
    with pytest.raises(BenchError, match="no-such-program"):
        peers._get(["no-such-program"])


def test_slurm_is_found_by_the_names_that_its_packages_have_before_they_are_installed(tmp_path: Path) -> None:
    (tmp_path / "usr/sbin").mkdir(parents=True)
    (tmp_path / "usr/sbin/slurmctld-wlm").touch(0o755)
    unpacked = Programs(tmp_path)
    assert unpacked.path("slurmctld") == f"{tmp_path}/usr/sbin/slurmctld-wlm"
    assert unpacked.environment()["LD_LIBRARY_PATH"].startswith(str(tmp_path))
    with pytest.raises(BenchError, match="no slurmd in"):
        unpacked.path("slurmd")
    assert Programs(None).settings() == ""
