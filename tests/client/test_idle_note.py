"""Whoever attends a task at a terminal is told that it does nothing; a program that reads the log is not."""

from __future__ import annotations

import base64
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.client.fake_master import FakeMaster, task
from wire.message import Message

ROOT = Path(__file__).parents[2]
IDLE = str(Message("idle", since=0.0, gpus=1, where=(Message("gpus_on_node", numbers=(0,), node="a"),)))


class Log:
    """A log of which each question finds a little more: `pieces` of (text, warning)."""

    def __init__(self, *pieces: tuple[str, str | None]) -> None:
        self.pieces = pieces
        self.asked = 0

    def read(self, params: dict[str, Any]) -> dict[str, Any]:
        number, self.asked = self.asked, self.asked + 1
        text, warning = self.pieces[number] if number < len(self.pieces) else ("", None)
        state = {"offset": params["offset"], "size": params["offset"] + len(text), "path": "/x"}
        answer = {**state, "ended": number >= len(self.pieces), "warning": warning}
        data = base64.b64encode(text.encode()).decode()
        return {**answer, "data": data, **({"rest": "", "next": state["size"]} if params.get("collapse") else {})}


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    with FakeMaster({}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        fake.verbs["log.read"] = Log(("one\n", None), ("", IDLE), ("", IDLE), ("two\n", None)).read
        fake.verbs["task.submit"] = lambda _: {"id": 7}
        fake.verbs["task.show"] = lambda _: task(7, "running")
        fake.verbs["subscribe"] = lambda _: {}
        fake.verbs["task.list"] = lambda _: {"tasks": [task(7, "succeeded", exit_code=0)], "total": 1}
        yield fake


def at_a_terminal(*words: str) -> tuple[str, str]:
    """What a command prints, and what it says to the terminal that its stderr is."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "muster", *words]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=theirs, cwd=ROOT, text=True, timeout=60, check=False
        )
        assert done.returncode == 0
    finally:
        os.close(theirs)
        told = all_of(ours)
    return done.stdout, told.decode()


def all_of(terminal: int) -> bytes:
    """What was written to a terminal whose other end is closed, in as many pieces as the kernel hands on."""
    told = b""
    with suppress(OSError):  # how Linux tells the end of it
        while piece := os.read(terminal, 65536):
            told += piece
    os.close(terminal)
    return told


@pytest.mark.parametrize(
    "words", [("logs", "-f", "7"), ("logs", "-f", "--collapse", "7"), ("run", "--", "true")], ids=" ".join
)
def test_it_is_told_once_and_so_is_that_it_works_again(master: FakeMaster, words: tuple[str, ...]) -> None:
    printed, told = at_a_terminal(*words)
    assert printed == "one\ntwo\n"
    assert told.count(f"task 7: {IDLE}") == 1
    assert told.count("task 7: it works again") == 1
    assert len(master.asked("log.read")) == 5


def test_one_that_ended_as_it_was_does_not_work_again(master: FakeMaster) -> None:
    master.verbs["log.read"] = Log(("", IDLE)).read
    _, told = at_a_terminal("logs", "-f", "7")
    assert IDLE in told
    assert "works again" not in told


def test_who_waits_for_tasks_is_told_of_each(master: FakeMaster) -> None:
    master.verbs["task.list"] = lambda _: {"tasks": [task(7, "running", warning=IDLE), task(8, "running")], "total": 2}
    marked = task(8, "running", warning=IDLE)
    ended = [task(number, "succeeded", exit_code=0) for number in (7, 8)]
    master.after["subscribe"] = [{"id": one["id"], "task": one} for one in (marked, *ended)]
    _, told = at_a_terminal("wait", "7", "8")
    assert [told.count(f"task {number}: {IDLE}") for number in (7, 8)] == [1, 1]
    assert "works again" not in told


def test_a_program_hears_nothing_of_it(master: FakeMaster) -> None:
    command = [sys.executable, "-m", "muster", "logs", "-f", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("one\ntwo\n", "")
    assert len(master.asked("log.read")) == 5
