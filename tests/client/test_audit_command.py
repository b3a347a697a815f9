"""`muster audit`: a table that fits, what is asked of the master, and what is said of what is not shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.api import connect
from client.cli.main import main
from client.text.columns import width
from tests.client.fake_master import FakeMaster


def line(**fields: Any) -> dict[str, Any]:
    return {
        "at": 1000.0, "user": "ann", "from": "10.0.0.1", "via": "local", "verb": "task.cancel", "target": "4-9",
        "result": "ok", **fields,
    }  # fmt: skip


class Log:
    """What the master answers, and what it was asked for."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.unreadable = 0
        self.asked: list[dict[str, Any]] = []

    def __call__(self, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(params)
        return {"entries": self.entries, "unreadable": self.unreadable}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    monkeypatch.setenv("COLUMNS", "80")
    found = Log()
    with FakeMaster({"audit.read": found}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        yield found


def test_lines_are_a_table_that_fits_and_no_name_reaches_the_terminal(
    log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    log.entries = [
        line(),
        line(user=None, verb="node.drain", target="节点" * 60, result="unauthenticated", **{"from": "2001:db8::1:2:3"}),
        line(user="desktop", via="desktop", verb="file.delete", target="data/\x1b[2Jx"),
        line(user=None, verb="", target="", result="refused", via="", left_out=980),
        line(user=None, verb="", target="", result="not_written", via="", left_out=1, **{"from": ""}),
    ]
    assert main(["audit"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["TIME", "USER", "FROM", "VERB", "TARGET", "RESULT"]
    assert all(width(text) <= 80 for text in lines)
    assert all(text.isprintable() for text in lines)
    assert lines[1].split()[2:] == ["ann", "10.0.0.1", "task.cancel", "4-9", "ok"]
    assert lines[2].split()[2] == "-"
    assert "980 left out" in lines[4]
    assert "1 left out" in lines[5]


def test_what_is_asked_for_reaches_the_master(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit"]) == 0
    assert "nothing is written down" in capsys.readouterr().out
    assert main(["audit", "--since", "1970-01-02T00:00+00:00", "--user", "wang", "--verb", "task", "--limit", "7"]) == 0
    assert main(["audit", "--json"]) == 0
    assert log.asked == [
        {"limit": 50},
        {"since": 86400.0, "user": "wang", "verb": "task", "limit": 7},
        {"limit": 10_000},
    ]


def test_json_is_the_list_as_it_was_answered(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.entries = [line(), line(left_out=3)]
    log.unreadable = 2
    assert main(["audit", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == log.entries
    assert "2 lines" in said.err


def test_it_is_said_that_there_may_be_more(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.entries = [line()] * 3
    assert main(["audit", "--limit", "3"]) == 0
    assert "older ones" in capsys.readouterr().err
    assert main(["audit", "--limit", "4"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("limit", ["0", "10001", "x", "-1", "²"])
def test_a_limit_that_the_master_would_refuse_is_wrong_usage(log: Log, limit: str) -> None:
    assert main(["audit", "--limit", limit]) == 2
    assert log.asked == []


def test_the_python_api_gives_the_page(log: Log) -> None:
    log.entries = [line()]
    with connect() as client:
        page = client.audit(user="ann", limit=5)
    assert page["entries"][0]["target"] == "4-9"
    assert log.asked == [{"user": "ann", "limit": 5}]
