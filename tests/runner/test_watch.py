"""What the workers recorded tells which one hangs, and which one ended too early."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runner.watch import Watch

TEST = "tests/test_one.py::test_one"


class Records:
    """Writes the records of one worker, at the times that a test says."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "gw0.records"
        self.watch = Watch(folder, grace_s=60, quiet_s=180)
        self.write("began", 0, pid=2**22 + 1)  # beyond the pids that Linux gives

    def write(self, kind: str, at: float, **values: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "at": at, **values}) + "\n")
        self.watch.read()

    def start(self, at: float) -> None:
        self.write("collected", at, tests=[[TEST, "unit", "selected", ""], ["other", "real", "unselected", ""]])
        self.write("start", at, test=TEST, deadline=60)


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    monkeypatch.setattr("tests.runner.watch.monotonic", lambda: 0.0)
    return Records(tmp_path)


def test_a_worker_hangs_when_its_test_is_silent_beyond_deadline_and_grace(records: Records) -> None:
    records.start(100)
    assert records.watch.hanging(100 + 60 + 59) == ""
    assert records.watch.hanging(100 + 60 + 61) == "gw0"


def test_a_worker_that_waits_for_a_test_hangs_only_when_all_are_silent(records: Records) -> None:
    records.start(100)
    records.write("end", 110, test=TEST)
    assert records.watch.hanging(110 + 179) == ""
    assert records.watch.hanging(110 + 181) == "gw0"


def test_the_outcome_of_a_test_is_that_of_its_worst_phase(records: Records) -> None:
    records.start(100)
    for when, outcome in (("setup", "passed"), ("call", "passed"), ("teardown", "failed")):
        records.write("report", 101, test=TEST, when=when, outcome=outcome, seconds=2.0, final=False)
    assert (records.watch.tests[TEST].outcome, records.watch.tests[TEST].seconds) == ("failed", 6.0)
    assert records.watch.unselected == {"other": "real"}


def test_a_test_without_a_report_of_its_call_has_no_outcome(records: Records) -> None:
    records.start(100)
    records.write("report", 101, test=TEST, when="setup", outcome="passed", seconds=0.0, final=False)
    assert records.watch.tests[TEST].outcome == ""


def test_a_worker_that_ends_in_a_test_or_leaves_threads_is_told(records: Records) -> None:
    records.start(100)
    assert list(records.watch.unfinished()) == [f"worker gw0 died in {TEST}"]
    records.write("end", 101, test=TEST)
    records.write("finished", 102, threads=["Thread-1, begun in test_x"])
    assert "Thread-1, begun in test_x" in next(records.watch.unfinished())
    records.write("left", 103)
    assert list(records.watch.unfinished()) == []


def test_half_a_line_is_read_when_it_is_whole(records: Records) -> None:
    path = next(Path(records.watch.folder).glob("*.records"))
    line = json.dumps({"kind": "start", "at": 1.0, "test": TEST, "deadline": 5})
    with path.open("a", encoding="utf-8") as file:
        file.write(line[:20])
        file.flush()
        records.watch.read()
        assert records.watch.workers["gw0"].state == "collecting"
        file.write(line[20:] + "\n")
    records.watch.read()
    assert records.watch.workers["gw0"].state == "testing"
