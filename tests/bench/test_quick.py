"""One cheap benchmark, for real: it measures, reports, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import SUBJECTS, _possible
from bench.lab import processes

ROOT = Path(__file__).parent.parent.parent


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a folder of its own, where no other benchmark works."""
    command = [sys.executable, "-m", "bench", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)


def test_quick_submits_give_a_table_and_json_and_leave_nothing(tmp_path: Path) -> None:
    done = bench(tmp_path, "submits", "--quick", "--json", str(tmp_path / "figures.json"))
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert [one["target"] for one in report["figures"] if one["target"]] == [4_000, 0.75, 25_000, 120_000]
    assert all(one["median"] > 0 for one in report["figures"])
    assert "durable submits" in done.stdout
    assert list((tmp_path / "build").iterdir()) == []
    assert not processes(tmp_path)


def test_a_name_that_is_none_is_wrong_usage(tmp_path: Path) -> None:
    done = bench(tmp_path, "speed")
    assert done.returncode == 2
    assert "there is no benchmark 'speed'; there are submits, latency" in done.stderr


def test_what_the_machine_lacks_the_programs_for_is_left_out_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.__main__.NEEDS", {"ssh": ("sh",), "influx": ("no-such-server",)})
    names = _possible()
    assert set(SUBJECTS) - set(names) == {"influx"}
    assert capsys.readouterr().err == "influx: not measured, for it needs no-such-server (make programs)\n"
