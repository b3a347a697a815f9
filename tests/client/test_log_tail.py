"""How the log of a failed task ends, as `show`, `why`, `top` and the Python API tell it; and the next command."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.api import connect
from client.cli.main import main
from client.log_tail import WIDEST, lines_of
from client.text.task_page import task_page
from client.top import pages
from tests.client.fake_master import FakeMaster, Refusal, task

LOG = b'epoch 1\nTraceback:\n  File "a.py"\nValueError: \xe9\x94\x99\n\nProgram Exit With Code 1\n'
END = ["epoch 1", "Traceback:", '  File "a.py"', "ValueError: 错"]


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        (LOG, END),
        (b"", []),
        (b"\n\nProgram Exit With Code 3\n", []),
        (b"10%\r50%\r100%\nKilled", ["100%", "Killed"]),
        (b"\x1b[31mred\x1b[0m and \x1b]0;title\x07plain\x1b(B", ["red and plain"]),
        (b"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ \x9b2J", ["link \ufffd2J"]),
        (b"\x1bP1$r\x1b\\x\x1b7\x1b=y", ["xy"]),
        (b"\x1b[", []),
        (b"a\x08\x07b\tc\xe2\x80\xaed", ["a\\x08\\x07b\\tc\\u202ed"]),
        (b"x" * 10_000, ["x" * (WIDEST - 1) + "…"]),
        ("训练".encode()[:-1], ["训\ufffd"]),
    ],
)
def test_the_end_of_a_log_is_harmless_lines(log: bytes, lines: list[str]) -> None:
    found = lines_of(log)
    assert [line.replace(" ", "") for line in found] == [line.replace(" ", "").replace("\\t", "") for line in lines]
    assert all("\x1b" not in line and line.isprintable() for line in found)


def test_of_a_long_log_the_last_lines_are_told_and_no_torn_one() -> None:
    assert lines_of(b"".join(b"%d\n" % n for n in range(100)), 3) == ["97", "98", "99"]
    assert lines_of(b"rn line\nlast", is_whole=False) == ["last"]
    assert lines_of(b"one line that is longer than what is read", is_whole=False) == [
        "one line that is longer than what is read"
    ]
    assert lines_of(LOG, 0) == []


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    with FakeMaster({}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        fake.verbs["log.read"] = _read
        let_end(fake, "failed")
        yield fake


def _read(_: dict[str, Any]) -> dict[str, Any]:
    data = base64.b64encode(LOG).decode()
    return {"data": data, "offset": 0, "size": len(LOG), "ended": True, "path": "/log", "warning": None}


def let_end(master: FakeMaster, state: str) -> None:
    """Let every task be in this state."""
    master.verbs["task.show"] = lambda params: task(params["id"], state, exit_code=1, attempts=[])
    master.verbs["task.why"] = lambda params: {
        "id": params["id"], "state": state, "reason": "exit code 1", "reason_key": "exit_code",
        "reason_args": {"code": 1}, "brief": "exit code 1", "warning": None, "warning_key": None, "warning_args": None,
        "blocked_by": [], "details": [], "detail_messages": [],
    }  # fmt: skip


@pytest.mark.usefixtures("master")
@pytest.mark.parametrize("verb", ["show", "why"])
def test_of_a_task_that_failed_the_end_of_its_log_and_the_next_command_are_told(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "9"]) == 0
    told = capsys.readouterr().out
    assert "its log ends with:" in told
    assert "ValueError: 错" in told
    assert "muster retry 9" in told
    assert main([verb, "9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["log_end"] == END
    assert main([verb, "8-9", "--json"]) == 0
    assert [one["log_end"] for one in json.loads(capsys.readouterr().out)] == [END, END]
    assert main([verb, "8-9"]) == 0
    assert capsys.readouterr().out.count("ValueError") == 2


@pytest.mark.parametrize("verb", ["show", "why"])
@pytest.mark.parametrize("code", ["forbidden", "not_found", "storage"])
def test_who_may_not_read_the_log_is_told_all_else(
    verb: str, code: str, master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: dict[str, Any]) -> None:
        raise Refusal(code, "not for you")

    master.verbs["log.read"] = refuse
    assert main([verb, "9"]) == 0
    said = capsys.readouterr()
    assert "ends with" not in said.out
    assert said.err == ""
    assert main([verb, "9", "--json"]) == 0
    assert "log_end" not in json.loads(capsys.readouterr().out)


def test_of_what_runs_waits_or_went_well_no_log_is_read(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    for state in ("waiting", "held", "running", "succeeded", "cancelled"):
        let_end(master, state)
        for verb in ("show", "why"):
            assert main([verb, "9"]) == 0
            assert ("muster retry 9" in capsys.readouterr().out) == (state == "cancelled")
    assert master.asked("log.read") == []
    let_end(master, "failed")
    assert main(["show", "1-60"]) == 0
    assert master.asked("log.read") == [], "nobody looks at so many"


@pytest.mark.usefixtures("master")
def test_the_python_api_gives_the_last_lines() -> None:
    with connect() as client:
        assert client.last_lines(9) == END
        assert client.last_lines(9, 1) == END[-1:]


def test_top_shows_the_end_of_the_log_below_the_rest() -> None:
    page = pages.task_page(task(9, "failed", exit_code=1), 2000.0, END)  # type: ignore[arg-type]
    assert page.endswith('its log ends with:\n  epoch 1\n  Traceback:\n    File "a.py"\n  ValueError: 错')
    why: Any = {"id": 9, "state": "failed", "reason": "exit code 1"}
    assert pages.why_page(why, END).splitlines()[1:4] == ["  next: muster retry 9", "", "its log ends with:"]


def test_a_page_tells_what_a_task_uses_of_its_gpus_and_who_has_what_it_waits_for() -> None:
    use = {"node": "n1", "gpu": 0, "used_mib": 12_600, "memory_used_mib": 13_000, "memory_mib": 81_920,
           "utilization": 97.4}  # fmt: skip
    unknown = {"used_mib": None, "memory_used_mib": None, "utilization": None}
    uses = [use, {**use, "gpu": 1, "used_mib": None}, {**use, "gpu": 2, **unknown}]
    page = dict(task_page(task(1, "running", started_at=1.0, gpu_use=uses), 2.0))  # type: ignore[arg-type]
    assert page["GPU use"] == "n1 GPU 0: 12G of 80G, 97 %; n1 GPU 1: 13G of 80G, 97 %; n1 GPU 2: not measured"
    shared = dict(task_page(task(1, "running", started_at=1.0, share=True, gpu_use=[use]), 2.0))  # type: ignore[arg-type]
    assert shared["GPU use"] == "n1 GPU 0: 12G (13G in use) of 80G, 97 %"
    holders = [{"id": 7, "owner": "wang", "name": "大模型\x1b"}, {"id": 9, "owner": "li", "name": ""}]
    page = dict(task_page(task(1, held_by=holders, holders=5), 2.0))  # type: ignore[arg-type]
    assert page["held by"] == "task 7 of wang (大模型\\x1b), task 9 of li and 3 more"
    assert not {"GPU use", "held by", "next"} & dict(task_page(task(1), 2.0)).keys(), "nor of an older master"  # type: ignore[arg-type]
