"""The command line where standard streams are closed, full, or read by nobody, and where words are not UTF-8."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.cli.main import main
from tests.client.fake_master import FakeMaster, task
from tests.client.test_cli import ROOT, log_of
from wire.message import Message

ODD = b"\xff"
"""A byte that stands in no UTF-8."""


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    with FakeMaster({}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        fake.verbs["task.submit"] = lambda _: {"id": 12}
        fake.verbs["task.submit_batch"] = lambda params: {"first": 5, "count": len(params["commands"])}
        fake.verbs["task.list"] = lambda _: {"tasks": [task(1)], "total": 1}
        yield fake


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """What a shell does; `muster` in it is ours."""
    muster = f'muster() {{ "{sys.executable}" -m muster "$@"; }}\n'
    return subprocess.run(
        ["/bin/bash", "-c", muster + line], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.usefixtures("master")
@pytest.mark.parametrize(
    ("command", "stream", "why"),
    [
        ("queue", ">&-", "Bad file descriptor"),
        ("queue --json", ">/dev/full", "No space left on device"),
        ("--help", ">/dev/full", "No space left on device"),
    ],
)
def test_an_answer_that_stdout_does_not_take_is_told_in_a_line(command: str, stream: str, why: str) -> None:
    done = shell(f"muster {command} {stream}")
    assert done.returncode == 1
    assert done.stderr == f"error: io: the answer could not be written to stdout: {why}\n"


@pytest.mark.usefixtures("master")
@pytest.mark.parametrize(
    ("command", "stream", "told"),
    [
        ("submit -- true", ">&-", "task 12 was queued"),
        ("submit --json -- true", ">/dev/full", "task 12 was queued"),
        ("submit --batch <(echo a; echo b)", "| true", "tasks 5-6 were queued"),
    ],
)
def test_a_task_whose_id_cannot_be_written_is_told_to_be_queued(command: str, stream: str, told: str) -> None:
    done = shell(f"set -o pipefail; muster {command} {stream}")
    assert done.returncode == 4
    assert f"error: io: {told}, but this could not be written to stdout: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("run -- true", "task 12 was queued"),
        ("retry 1", "task 1: queued again"),
        ("hold 1 --json", "task 1: held"),
        ("cancel 1-3", "cancelled: 1; told to end: 2-3"),
        ("alloc new exp --gpus 1 --no-wait", "allocation exp (task 7) was queued"),
        ("tokens new", "token 7f3a was made (`muster tokens revoke 7f3a` ends it)"),
    ],
)
def test_a_change_whose_answer_cannot_be_written_is_told_to_be_done(
    master: FakeMaster, command: str, told: str
) -> None:
    ended = task(12, "succeeded", exit_code=0)
    master.verbs |= {
        "subscribe": lambda _: {},
        "task.list": lambda _: {"tasks": [ended], "total": 1},
        "log.read": log_of(b"hi\n"),
        "task.retry": lambda params: task(params["id"]),
        "task.hold": lambda params: task(params["id"]),
        "task.cancel": lambda _: {"cancelled": [1], "signalled": [2, 3], "refused": {}, "codes": {}},
        "alloc.new": lambda _: {"id": 7},
        "token.new": lambda _: {"id": "7f3a", "token": "secret", "user": "ada", "scopes": None, "expires_at": None},
    }
    done = shell(f"muster {command} > /dev/full")
    assert f"error: io: {told}, but this could not be written to stdout: " in done.stderr
    assert (done.returncode, "Traceback" in done.stderr) == (4, False)


def test_who_stops_reading_what_run_shows_is_told_nothing(master: FakeMaster) -> None:
    ended = task(12, "succeeded", exit_code=0)
    master.verbs |= {
        "subscribe": lambda _: {},
        "task.list": lambda _: {"tasks": [ended], "total": 1},
        "log.read": log_of(b"x" * 1_000_000),
    }
    done = shell("set -o pipefail; muster run -- true | head -c 1 > /dev/null")
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.usefixtures("master")
@pytest.mark.parametrize("stream", ["2>/dev/full", "<&- 2>&-"])
def test_a_stream_that_is_closed_or_full_beside_stdout_changes_nothing(stream: str) -> None:
    done = shell(f"muster submit -- true {stream}; muster nope {stream}")
    assert (done.returncode, done.stdout) == (2, "12\n")
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("master")
def test_who_stops_reading_is_told_nothing() -> None:
    done = shell("set -o pipefail; muster api --openapi | head -c 1 > /dev/null")
    assert (done.returncode, done.stderr) == (141, "")


def test_no_other_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    code = (
        "import os, sys; from client.cli.screen.terminal import begin; begin(); "
        f"print(os.open({str(tmp_path / 'x')!r}, os.O_CREAT | os.O_WRONLY), file=open({str(tmp_path / 'said')!r}, 'w'))"
    )
    subprocess.run(["/bin/bash", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, code], cwd=ROOT, check=False)
    assert int((tmp_path / "said").read_text(encoding="ascii")) > 2


@pytest.mark.usefixtures("master")
@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("submit", "--", "echo", b"a" + ODD), "command, word 2: 'a\\xff'"),
        (("submit", "--name", ODD, "--", "true"), "name: '\\xff'"),
        (("submit", "--var", b"A=" + ODD, "--", "true"), "variables.A: '\\xff'"),
        (("submit", "--cwd", b"/x/" + ODD, "--", "true"), "cwd: '/x/\\xff'"),
        (("queue", "--search", ODD), "search: '\\xff'"),
        (("users", "add", ODD), "name: '\\xff'"),
        (("--token", ODD, "status"), "token: '\\xff'"),
        (("--master", ODD, "status"), "'\\xff:63005'"),
        (("submit", "--script", ODD), "udcff: cannot be read: No such file"),
        (("--conf", ODD, "status"), f"udcff: {Message('conf_missing')}"),
    ],
)
def test_a_byte_that_is_not_utf_8_is_named_with_its_place(
    words: tuple[str | bytes, ...], place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([os.fsdecode(word) for word in words]) in (1, 2)
    told = capsys.readouterr().err
    assert place in told
    assert told.count("\n") == 1


def test_a_name_that_no_host_can_have_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--master", "机..器", "status"]) == 3
    told = capsys.readouterr().err
    assert "机..器:63005" in told
    assert str(Message("no_host_name")) in told
    assert told.count("\n") == 1


@pytest.mark.usefixtures("master")
def test_a_folder_whose_name_is_not_utf_8_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/dir" + ODD)
    Path(folder).mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PWD", raising=False)
    assert main(["submit", "--", "true"]) == 1
    told = capsys.readouterr().err
    assert f"cwd: '{tmp_path}/dir\\xff' is not UTF-8" in told
    assert told.count("\n") == 1
