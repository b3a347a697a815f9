"""`muster logs`: what is said of a task that has not run, and `-o FILE`, which makes a file and overwrites none."""

from __future__ import annotations

import base64
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.cli.main import main
from tests.client.fake_master import FakeMaster, Refusal, task
from tests.faults import error_line
from tests.waiting import until
from wire.message import Message

ROOT = Path(__file__).parents[2]
LOG = b"epoch 1\nepoch 2\n"


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    with FakeMaster({}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        fake.verbs["task.show"] = lambda params: task(params["id"], "running", started_at=1.0)
        keep(fake, LOG)
        yield fake


def keep(master: FakeMaster, log: bytes, *, is_ended: bool = True) -> None:
    """Let every task have this log."""

    def read(params: dict[str, Any]) -> dict[str, Any]:
        offset = params["offset"] if params["offset"] >= 0 else max(0, len(log) + params["offset"])
        data = log[offset : offset + params["limit"]]
        return {"data": base64.b64encode(data).decode(), "offset": offset, "size": len(log), "ended": is_ended,
                "path": "/log", "warning": None}  # fmt: skip

    master.verbs["log.read"] = read


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"state": "waiting"}, "task 7 is waiting and has written nothing yet; `muster why 7`"),
        ({"state": "held"}, "task 7 is held and has written nothing yet; `muster why 7`"),
        ({"state": "starting"}, "task 7 is starting and has written nothing yet; `muster why 7`"),
        ({"state": "cancelled"}, "task 7 ended before it started (cancelled): it has written nothing"),
        (
            {"state": "failed", "reason": "no folder", "attempts": [{"no": 1, "started_at": None}]},
            "task 7 ended before it started (failed, no folder): it has written nothing",
        ),
        (
            {"state": "waiting", "attempts": [{"no": 1, "started_at": None}]},
            "task 7 is waiting and has written nothing yet; `muster why 7`",
        ),
    ],
)
def test_what_a_task_that_has_not_started_lacks_is_told_on_stderr(
    fields: dict[str, Any], told: str, master: FakeMaster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    master.verbs["task.show"] = lambda params: task(params["id"], **{"attempts": [], **fields})
    keep(master, b"")
    for words in ([], ["-n", "5"], ["--collapse"]):
        master.verbs["log.read"] = _collapsed if "--collapse" in words else master.verbs["log.read"]
        assert main(["logs", "7", *words]) == 0
        assert capsys.readouterr() == ("", f"{told}\n")
    keep(master, b"")
    assert main(["logs", "7", "-o", str(tmp_path / "log")]) == 1
    assert capsys.readouterr() == ("", f"{told}\n")
    assert not (tmp_path / "log").exists(), "it would be in the way of the next one"
    assert main(["logs", "7", "--json"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ('{"id": 7, "text": ""}\n', f"{told}\n")


def _collapsed(_: dict[str, Any]) -> dict[str, Any]:
    return {"data": "", "rest": "", "next": 0, "offset": 0, "size": 0, "ended": True, "path": "/log", "warning": None}


def test_of_a_task_that_ran_or_runs_nothing_is_told_for_a_log_that_is_empty(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(master, b"")
    assert main(["logs", "7"]) == 0
    assert capsys.readouterr() == ("", "")
    master.verbs["task.show"] = lambda params: task(params["id"], "waiting", attempts=[{"no": 1, "started_at": 1.0}])
    keep(master, LOG)
    assert main(["logs", "7"]) == 0
    assert capsys.readouterr().err == "", "it waits to be tried again, and this is what it wrote before"


def test_who_follows_a_task_that_waits_is_told_so_wherever_stderr_goes(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    master.verbs["task.show"] = lambda params: task(params["id"], "waiting")
    assert main(["logs", "-f", "7"]) == 0
    assert capsys.readouterr().err == "task 7 is waiting; its output follows when it starts\n"


def test_a_log_is_written_into_a_new_file(
    master: FakeMaster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "训练.log"
    assert main(["logs", "7", "-o", str(file)]) == 0
    assert file.read_bytes() == LOG
    assert capsys.readouterr().out == f"{file} has 16 bytes\n"
    assert main(["logs", "7", "-n", "1", "-o", str(tmp_path / "tail")]) == 0
    assert (tmp_path / "tail").read_bytes() == b"epoch 2\n"
    assert main(["logs", "--server", "-o", str(tmp_path / "server")]) == 0
    keep(master, b"")
    assert main(["logs", "7", "-o", str(tmp_path / "empty")]) == 0
    assert (tmp_path / "empty").read_bytes() == b""


def test_what_exists_already_is_left_as_it_is_whatever_it_is(
    master: FakeMaster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(kept)
    (tmp_path / "nowhere").symlink_to(tmp_path / "not there")
    (tmp_path / "hard").hardlink_to(kept)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("kept", "link", "nowhere", "hard", "folder", "fifo"):
        master.calls.clear()
        assert main(["logs", "7", "-o", str(tmp_path / name)]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"error: conflict: {tmp_path / name} "), said
        assert ("is a folder" in said) == (name == "folder")
        assert master.asked("log.read") == []
    assert kept.read_bytes() == b"mine"
    assert not (tmp_path / "not there").exists()


def test_a_file_that_is_laid_there_meanwhile_is_not_overwritten(master: FakeMaster, tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "log"
    target.write_bytes(b"mine")
    answer = master.verbs["log.read"]

    def read(params: dict[str, Any]) -> Any:
        if not link.is_symlink():
            link.symlink_to(target)
        return answer(params)

    master.verbs["log.read"] = read
    assert main(["logs", "7", "-o", str(link)]) == 1
    assert target.read_bytes() == b"mine"


def test_a_log_that_cannot_be_read_leaves_no_file_and_one_that_breaks_off_says_how_much_there_is(
    master: FakeMaster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = master.verbs["log.read"]

    def read(params: dict[str, Any]) -> Any:
        if params["offset"] >= fails_at:
            raise Refusal("forbidden", Message("no_task", id=7))
        return answer(params)

    master.verbs["log.read"] = read
    fails_at = 0
    assert main(["logs", "7", "-o", str(tmp_path / "a")]) == 1
    assert not (tmp_path / "a").exists()
    fails_at = 1
    capsys.readouterr()
    assert main(["logs", "7", "-o", str(tmp_path / "b")]) == 1
    assert (tmp_path / "b").read_bytes() == LOG
    said = capsys.readouterr().err.splitlines()
    assert said == [f"{tmp_path / 'b'} has 16 bytes, and is not whole", error_line("forbidden", "no_task", id=7)]
    for place, why in (("none/log", "the folder {}/none does not exist"), ("kept/log", "Not a directory")):
        (tmp_path / "kept").touch()
        fails_at = 100
        assert main(["logs", "7", "-o", str(tmp_path / place)]) == 1
        assert why.format(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["-o", "x", "--json"], ["-o", "x", "--search", "y"], ["-o", ""], ["-o"]], ids=" ".join
)
def test_what_does_not_go_with_a_file_is_wrong_usage(words: list[str]) -> None:
    assert main(["logs", "7", *words]) == 2


def started(*words: str, **how: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "muster", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        **how,
    )  # fmt: skip


def test_a_disk_that_is_full_is_told_with_the_file_and_how_much_is_in_it(master: FakeMaster, tmp_path: Path) -> None:
    keep(master, b"x" * 10_000)
    file = tmp_path / "log"

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    process = started("logs", "7", "-o", str(file), preexec_fn=little_room)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said == error_line("storage", "output_broken", path=str(file), detail="File too large", bytes=4096) + "\n"


def test_ctrl_c_keeps_what_was_followed_into_a_file_and_says_how_to_go_on(master: FakeMaster, tmp_path: Path) -> None:
    keep(master, LOG, is_ended=False)
    file = tmp_path / "log"
    process = started("logs", "-f", "7", "-o", str(file))
    until("the log in the file", lambda: file.exists() and file.read_bytes() == LOG)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == f"{file} has 16 bytes; detached; `muster logs -f 7` goes on, the task too\n"
    assert file.read_bytes() == LOG
