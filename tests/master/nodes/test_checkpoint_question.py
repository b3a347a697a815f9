"""What is asked of a node to find the newest checkpoint, by a real bash; and how its answer is read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from master.nodes.checkpoint_question import question, read_answer


def asked(folder: Path, pattern: str) -> float | None:
    done = subprocess.run(question(pattern), cwd=folder, capture_output=True, text=True, check=True)
    return read_answer(done.stdout)


def made(path: Path, at: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (at, at))
    return path


def test_the_newest_of_those_that_match_counts(tmp_path: Path) -> None:
    made(tmp_path / "out" / "1.pt", 1000.5)
    made(tmp_path / "out" / "2.pt", 3000.25)
    made(tmp_path / "out" / "3.pt", 2000.0)
    made(tmp_path / "out" / "log.txt", 9000.0)
    assert asked(tmp_path, "out/*.pt") == 3000.25
    assert asked(tmp_path, f"{tmp_path}/out/[13].pt") == 2000.0
    assert asked(tmp_path, "**/*.pt") == 3000.25


@pytest.mark.parametrize(
    "pattern", ["out/*.pt", "", "/", "-rf", "$(touch hacked)", "`touch hacked`", "x; touch hacked"]
)
def test_where_nothing_matches_there_is_none_and_nothing_of_the_pattern_is_run(tmp_path: Path, pattern: str) -> None:
    found = asked(tmp_path, pattern)
    assert found is None or pattern == "/"
    assert not (tmp_path / "hacked").exists()


def test_names_with_blanks_and_line_ends_are_names(tmp_path: Path) -> None:
    made(tmp_path / "my out" / "a\nb c.pt", 1234.0)
    made(tmp_path / "-n", 4321.0)
    assert asked(tmp_path, "my out/*.pt") == 1234.0
    assert asked(tmp_path, "-*") == 4321.0


def test_more_files_than_a_program_takes_are_looked_at(tmp_path: Path) -> None:
    long = "x" * 240
    for number in range(9000):  # of which the kernel takes 2 MiB at once
        (tmp_path / f"{long}{number}.pt").touch()
    assert asked(tmp_path, "*.pt") is not None


@pytest.mark.parametrize("said", ["", "end", "12", "nan end", "inf end", "x end", "1 2 end"])
def test_what_is_no_answer_is_none(said: str) -> None:
    assert read_answer(said) is None
