"""What is told of the attempts of a task: a table below all else, and all of it as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.cli.main import main
from client.text.attempts import attempts_table, how_it_ended
from client.text.columns import width
from tests.client.fake_master import FakeMaster, task
from wire.message import Message


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    with FakeMaster({}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        yield fake


def attempt(no: int = 1, node: str = "a", gpus: tuple[int, ...] = (0, 1), **fields: Any) -> Any:
    return {
        "no": no, "parts": [{"node": node, "gpus": list(gpus), "launch_id": f"7.{no}.x"}], "asked_end": None,
        "started_at": 1000.0, "ended_at": 2000.0, "exit_code": 0, "reason": None, "reason_key": None,
        "reason_args": None, **fields,
    }  # fmt: skip


LIMIT = str(Message("time_limit"))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "exit code 0"),
        ({"exit_code": 3, "reason": "exit code 3"}, "exit code 3"),
        ({"ended_at": None, "exit_code": None}, ""),
        ({"exit_code": 143, "asked_end": {"why": "cancel", "by": "ada"}}, "cancelled by ada: exit code 143 (SIGTERM)"),
        ({"exit_code": None, "asked_end": {"why": "cancel", "by": ""}}, "cancelled"),
        (
            {"exit_code": 143, "asked_end": {"why": "limit", "by": ""}, "reason": LIMIT},
            LIMIT,
        ),
        (
            {"exit_code": None, "asked_end": {"why": "node_lost", "by": "bob"}, "reason": "node a was given up by bob"},
            "node a was given up by bob",
        ),
        ({"reason": "could not be started: \x1b[2J"}, "could not be started: \\x1b[2J"),
    ],
)
def test_how_an_attempt_ended_is_told_once(fields: dict[str, Any], told: str) -> None:
    assert how_it_ended(attempt(**fields)) == told


def test_a_part_on_each_node_is_told(capsys: pytest.CaptureFixture[str], master: FakeMaster) -> None:
    parts = [{"node": "a", "gpus": [0, 1]}, {"node": "b", "gpus": [4]}]
    master.verbs["task.show"] = lambda params: task(params["id"], "running", attempts=[attempt(parts=parts)])
    assert main(["show", "7"]) == 0
    head, row = capsys.readouterr().out.splitlines()[-2:]
    assert head.split() == ["NO", "NODE", "GPUS", "STARTED", "ENDED", "HOW", "IT", "ENDED"]
    assert row.startswith(" 1  a; b  0,1; 4  ")


def test_show_lists_the_attempts_the_oldest_first_and_nothing_where_there_was_none(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    attempts = [attempt(9, exit_code=1, reason="exit code 1"), attempt(10, node="b", gpus=())]
    master.verbs["task.show"] = lambda params: task(params["id"], attempts=attempts if params["id"] == 7 else [])
    assert main(["show", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[-2:]] == [["9", "a"], ["10", "b"]]
    assert lines[-2].endswith("exit code 1")
    assert lines[-4] == ""
    assert main(["show", "8"]) == 0
    assert "HOW IT ENDED" not in capsys.readouterr().out
    assert main(["show", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attempts"] == attempts


def test_a_master_before_that_tells_of_no_attempts_is_no_mistake(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    master.verbs["task.show"] = lambda params: task(params["id"], "failed")
    assert main(["show", "7"]) == 0
    assert "state:" in capsys.readouterr().out


def test_the_table_is_no_wider_than_the_terminal() -> None:
    attempts = [attempt(reason="字" * 60, exit_code=1), attempt(2, node="n" * 40, gpus=tuple(range(16)))]
    assert max(map(width, attempts_table(attempts, 80).splitlines())) <= 80


def test_who_cancelled_is_told_while_the_task_still_ends(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"why": "cancel", "by": "ada"}
    master.verbs["task.show"] = lambda params: task(params["id"], "running", cancel_requested=True, asked_end=asked)
    assert main(["show", "7"]) == 0
    assert "cancel:     asked for by ada; the node is ending it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"run_as": "alice", "account": "root"}, "alice, its owner's account"),
        ({"account": "lab"}, "lab, an account that all tasks there share"),
        ({"account": "root"}, "root, as the agent there"),
        ({"account": "root", "started_at": None}, ""),
        ({"login": "li2", "account": "lab", "started_at": None}, "li2, its owner's SSH account there"),
        ({}, ""),
    ],
)
def test_show_says_whose_rights_a_task_has(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], keys: dict[str, Any], said: str
) -> None:
    started, part = keys.get("started_at", 1.0), {key: keys[key] for key in keys if key != "started_at"}
    shown = task(7, "running", started_at=started, allocation=[{"node": "a", "gpus": [0], **part}], attempts=[])
    master.verbs["task.show"] = lambda _: shown
    assert main(["show", "7"]) == 0
    line = next((line for line in capsys.readouterr().out.splitlines() if line.startswith("runs as")), "")
    assert line.partition(":")[2].strip() == said


def test_of_an_allocation_show_says_nobodys_rights_for_nothing_runs_there(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    held = [{"node": "a", "gpus": [0], "account": "root"}]
    master.verbs["task.show"] = lambda _: task(
        7, "running", is_allocation=True, started_at=1.0, allocation=held, attempts=[]
    )
    assert main(["show", "7"]) == 0
    assert "runs on" in (page := capsys.readouterr().out)
    assert "runs as" not in page
