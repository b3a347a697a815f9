"""Ctrl-C as a terminal sends it, to the whole process group: each command says its last words and ends with 130."""

from __future__ import annotations

import base64
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.client.fake_master import FakeMaster, task
from tests.waiting import until

ROOT = Path(__file__).parents[2]
MUSTER = [sys.executable, "-m", "muster"]
BIG = 3 << 20


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    for name in ("MUSTER_MASTER", "MUSTER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with FakeMaster({}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        yield fake


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """In a process group of its own, as a shell does it."""
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": ""}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def press_ctrl_c(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it says until it has ended."""
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=60)


def log(params: dict[str, Any]) -> dict[str, Any]:
    """Of a task that has said `working` and goes on."""
    data = b"working\n"[params["offset"] :]
    text = base64.b64encode(data).decode()
    return {"data": text, "offset": params["offset"], "size": 8, "ended": False, "path": ""}


LIVING = {
    "task.submit": lambda _: {"id": 7},
    "subscribe": lambda _: {},
    "server.info": lambda _: {},
    "task.list": lambda _: {"tasks": [task(7, "running")], "total": 1},
    "task.show": lambda _: task(7, "running"),
    "log.read": log,
    "node.drain": lambda _: {"name": "a", "tasks": [7]},
    "node.show": lambda _: {"name": "a", "tasks": [7]},
}


@pytest.mark.parametrize(
    ("words", "asked", "out", "told"),
    [
        (
            ["run", "--", "x"], "log.read", "working\n",
            "\ndetached: task 7 goes on. `muster logs -f 7` shows it again, `muster cancel 7` ends it.\n",
        ),
        (["logs", "-f", "7"], "log.read", "working\n", "\ndetached; `muster logs -f 7` goes on, the task too\n"),
        (["logs", "-f", "--server"], "log.read", "working\n", "\ndetached; `muster logs -f --server` goes on\n"),
        (["wait", "7"], "task.list", "", ""),
        (["wait", "--timeout", "1h", "7"], "task.list", "", ""),
        (["node", "drain", "a", "--wait"], "node.show", "node a: drained; 1 task runs there (7)\n", ""),
    ],
    ids=["run", "logs", "server-log", "wait", "wait-timeout", "drain"],
)  # fmt: skip
def test_a_command_that_waits_ends_with_130_and_says_how_to_go_on(
    master: FakeMaster, words: list[str], asked: str, out: str, told: str
) -> None:
    master.verbs.update(LIVING)
    with started([*MUSTER, *words]) as process:
        until(
            "it waits",
            lambda: len(master.asked(asked)) > (asked == "log.read") and master.calls[-1][0] in (asked, "subscribe"),
        )
        assert press_ctrl_c(process) == (out, told)
    assert process.returncode == 130
    assert master.asked("task.cancel") == []


def test_what_was_done_before_it_is_told(master: FakeMaster) -> None:
    hangs = threading.Event()

    def hold(params: dict[str, Any]) -> dict[str, Any]:
        if params["id"] == 3:
            hangs.wait(60)
        return task(params["id"], "held")

    master.verbs["task.hold"] = hold
    with started([*MUSTER, "hold", "1-5"]) as process:
        until("it is at the third", lambda: len(master.asked("task.hold")) == 3)
        assert press_ctrl_c(process) == ("tasks 1-2: held\n", "")
    hangs.set()
    assert process.returncode == 130


def test_a_file_that_is_fetched_goes_on_where_it_was(master: FakeMaster, tmp_path: Path) -> None:
    hangs = threading.Event()

    def read(params: dict[str, Any]) -> dict[str, Any]:
        if params["offset"]:
            hangs.wait(60)
        data = base64.b64encode(bytes(1 << 20)).decode()
        return {"data": data, "offset": params["offset"], "size": BIG, "mtime_ns": 1, "mode": 0o644}

    master.verbs.update({"file.stat": lambda _: {"kind": "file"}, "file.read": read})
    with started([*MUSTER, "files", "get", "data/big", str(tmp_path / "big")]) as process:
        until("it is at the second piece", lambda: len(master.asked("file.read")) == 2)
        assert press_ctrl_c(process) == ("", "\nstopped; the same command goes on where it was\n")
    hangs.set()
    assert process.returncode == 130
    assert [path.stat().st_size for path in tmp_path.glob(".big.*.part")] == [1 << 20]


@pytest.fixture
def uploading(master: FakeMaster, tmp_path: Path) -> Iterator[threading.Event]:
    """A master that takes no piece of an upload before this is set."""
    hangs = threading.Event()
    master.verbs.update({
        "file.stat": lambda _: {"kind": "folder"},
        "file.upload_begin": lambda _: {"upload": "u1"},
        "file.upload_piece": lambda _: hangs.wait(60),
        "file.upload_cancel": lambda _: {},
    })  # fmt: skip
    (tmp_path / "big").write_bytes(bytes(BIG))
    yield hangs
    hangs.set()


def test_of_a_file_that_is_sent_nothing_is_left_over_there(
    master: FakeMaster, uploading: threading.Event, tmp_path: Path
) -> None:
    del uploading
    with started([*MUSTER, "files", "put", str(tmp_path / "big"), "data"]) as process:
        until("a piece is under way", lambda: master.asked("file.upload_piece"))
        assert press_ctrl_c(process) == ("", "")
    assert process.returncode == 130
    assert master.asked("file.upload_cancel") == [{"path": "data/big", "upload": "u1"}]


def test_a_second_one_does_not_wait_for_what_is_put_in_order(
    master: FakeMaster, uploading: threading.Event, tmp_path: Path
) -> None:
    master.verbs["file.upload_cancel"] = lambda _: uploading.wait(60)
    with started([*MUSTER, "files", "put", str(tmp_path / "big"), "data"]) as process:
        until("a piece is under way", lambda: master.asked("file.upload_piece"))
        os.killpg(process.pid, signal.SIGINT)
        until("it is told to forget it", lambda: master.asked("file.upload_cancel"))
        assert press_ctrl_c(process) == ("", "")
    assert process.returncode == -signal.SIGINT


def test_who_leaves_before_the_master_has_answered_is_told_that_it_may_have_heard(
    master: FakeMaster, uploading: threading.Event
) -> None:
    master.verbs["alloc.new"] = lambda _: uploading.wait(60)
    with started([*MUSTER, "alloc", "exp", "--gpus", "1"]) as process:
        until("it is asked for", lambda: master.asked("alloc.new"))
        _, told = press_ctrl_c(process)
    assert process.returncode == 130
    assert "if the master has heard of allocation exp, it goes on waiting" in told


def test_in_a_pipe_each_ends_and_what_was_read_is_there(master: FakeMaster) -> None:
    master.verbs.update(LIVING)
    line = f"trap : INT; {shlex.join(MUSTER)} logs -f 7 | (trap '' INT; cat); echo ${{PIPESTATUS[0]}}"
    with started(["bash", "-c", line]) as process:
        until("it waits", lambda: len(master.asked("log.read")) > 1)
        out, _ = press_ctrl_c(process)
    assert out == "working\n130\n"


def test_who_started_it_with_ctrl_c_ignored_has_it_ignored(master: FakeMaster) -> None:
    """As a shell does with what it starts with `&`."""
    ended = threading.Event()
    master.verbs.update({**LIVING, "log.read": lambda params: {**log(params), "ended": ended.is_set()}})
    with started(["sh", "-c", 'trap "" INT; exec "$@"', "sh", *MUSTER, "logs", "-f", "7"]) as process:
        until("it waits", lambda: len(master.asked("log.read")) > 1)
        os.killpg(process.pid, signal.SIGINT)
        more = len(master.asked("log.read"))
        until("it goes on", lambda: len(master.asked("log.read")) > more + 1)
        ended.set()
        assert process.communicate(timeout=60) == ("working\n", "")
    assert process.returncode == 0


LOST = """
import os, signal
from client.cli.screen import interrupt

class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

interrupt.hear()
with interrupt.LastWords(lambda: interrupt.tell("on stderr")):
    with interrupt.LastWords(lambda: print("on stdout")):
        held = Held()
        del held
print("it goes on")
"""


def test_it_is_not_lost_where_python_ignores_exceptions() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOST], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "on stdout\n", "on stderr\n")
