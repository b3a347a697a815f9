"""`muster set`: values as people type them, what is asked of the master, and what is said of the answer."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.api import connect
from client.cli.arguments.setting_values import read
from client.cli.main import main
from client.text.columns import width
from client.text.settings import value_text
from tests.client.fake_master import FakeMaster, Refusal, Verb
from tests.faults import error_line
from wire.message import Message

NAME = "scheduler.reserve_after"


class Table:
    """Two settings, as the master has them."""

    def __init__(self) -> None:
        numbers = {"least": 0, "most": 1e9, "words": [], "none": False}
        self.rows = {
            NAME: {
                "name": NAME, "value": 21600.0, "default": 21600.0, "range": numbers, "unit": "seconds",
                "meaning": "how long", "in_conf": True, "by": None, "at": None,
            },
            "scheduler.log_bytes": {
                "name": "scheduler.log_bytes", "value": 0, "default": 0, "range": {**numbers, "none": True},
                "unit": "bytes", "meaning": "how large " * 20, "in_conf": False, "by": None, "at": None,
            },
        }  # fmt: skip
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def list(self, params: dict[str, Any]) -> Any:
        if "name" not in params:
            return [*self.rows.values()]
        if params["name"] not in self.rows:
            raise Refusal("not_found", Message("no_setting", name=params["name"]))
        return [self.rows[params["name"]]]

    def set(self, params: dict[str, Any]) -> Any:
        self.asked.append(("set", params))
        self.rows[params["name"]] = {**self.rows[params["name"]], "value": params["value"], "by": "chen", "at": 1000.0}
        return self.rows[params["name"]]

    def reset(self, params: dict[str, Any]) -> Any:
        self.asked.append(("reset", params))
        row = self.rows[params["name"]]
        self.rows[params["name"]] = {**row, "value": row["default"], "by": None, "at": None}
        return self.rows[params["name"]]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    monkeypatch.setenv("COLUMNS", "80")
    found = Table()
    verbs: dict[str, Verb] = {"setting.list": found.list, "setting.set": found.set, "setting.reset": found.reset}
    with FakeMaster(verbs) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        yield found


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("6h", "seconds", 21600.0), ("0", "seconds", 0.0), ("90", "seconds", 90.0), ("1-12:00", "seconds", 129600.0),
        ("2g", "bytes", 2 << 30), ("1.5GiB", "bytes", 3 << 29), ("4096", "bytes", 4096), ("500M", "bytes", 500 << 20),
        ("10%", "share", 0.1), ("0.25", "share", 0.25), (".5", "share", 0.5),
        ("3", "number", 3), ("-2", "number", -2), ("mentors", "word", "mentors"),
        ("none", "bytes", None), ("None", "number", None), ("off", "seconds", None),
    ],
)  # fmt: skip
def test_a_value_is_read_in_its_unit(text: str, unit: str, value: object) -> None:
    assert read(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit"),
    [("", "seconds"), ("6 hours", "seconds"), ("-1", "seconds"), ("2x", "bytes"), ("g", "bytes"), ("-2g", "bytes"),
     ("1e3", "bytes"), ("ten", "share"), ("%", "share"), ("1.5", "number"), ("²", "number"), ("", "number")],
)  # fmt: skip
def test_what_is_no_value_is_refused(text: str, unit: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        read(text, unit)


def test_all_are_a_table_that_fits(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.rows[NAME]["by"] = "chen\x1b[2J"
    assert main(["set"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "VALUE", "DEFAULT", "SET", "BY", "MEANING"]
    assert lines[1].split()[:3] == [NAME, "6h", "6h"]
    assert all(width(line) <= 80 and line.isprintable() for line in lines)
    assert any(line.split()[:3] == ["scheduler.log_bytes", "none", "none"] for line in lines)


def test_one_is_shown_with_what_it_may_be(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["set", NAME]) == 0
    said = capsys.readouterr().out
    assert f"{NAME}: how long" in said
    assert "default  6h (conf.json)" in said
    assert "range    0 or more\n" in said
    assert main(["set", NAME, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == table.rows[NAME]


def test_a_change_says_what_was_and_that_conf_json_does_not_hold(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["set", NAME, "2h"]) == 0
    assert capsys.readouterr().out == f"{NAME}: 2h (was 6h); conf.json says 6h, which does not hold now\n"
    assert main(["set", "--default", NAME]) == 0
    assert capsys.readouterr().out == f"{NAME}: 6h (was 2h)\n"
    assert main(["set", "scheduler.log_bytes", "2g", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == 2 << 30
    assert table.asked == [
        ("set", {"name": NAME, "value": 7200.0}),
        ("reset", {"name": NAME}),
        ("set", {"name": "scheduler.log_bytes", "value": 2 << 30}),
    ]


def test_name_and_value_may_be_one_word_as_in_edit(table: Table) -> None:
    assert main(["set", f"{NAME}=2h"]) == 0
    assert table.asked == [("set", {"name": NAME, "value": 7200.0})]


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (
            ["set", "scheduler.policy"],
            1,
            error_line("not_found", "no_setting_but", name="scheduler.policy", meant=("scheduler.log_bytes",)),
        ),
        (["set", NAME, "soon"], 1, f"error: bad_request: {NAME}: 'soon' is not a time"),
        (["set", "--default"], 2, "error: usage: set --default"),
        (["set", "--default", NAME, "3"], 2, "error: usage: set --default"),
        (["set", NAME, "1", "2"], 2, "error: usage:"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    argv: list[str], status: int, said: str, table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == status
    error = capsys.readouterr().err
    assert error.startswith(said)
    assert error.count("\n") == 1
    assert table.asked == []


@pytest.mark.parametrize("said", ["reserve_after", "scheduler.reserve_aftr", "scheduler.reserve-after", "reserve_aftr"])
def test_a_setting_that_does_not_exist_is_answered_with_the_nearest_one(
    said: str, table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([said], [said, "1h"], ["--default", said]):
        assert main(["set", *words]) == 1
        told = error_line("not_found", "no_setting_but", name=said, meant=(NAME,))
        assert capsys.readouterr().err == f"{told}\n"
    assert table.asked == []


def test_the_python_api_has_them(table: Table) -> None:
    with connect() as client:
        assert [one["name"] for one in client.settings.list()] == [*table.rows]
        assert client.settings.set(NAME, 5)["by"] == "chen"
        assert client.settings.get(NAME)["value"] == 5
        assert client.settings.reset(NAME)["value"] == 21600.0


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_setting(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert NAME in capsys.readouterr().out


@pytest.mark.parametrize(
    ("unit", "value", "told"),
    [
        ("seconds", 1_000_001.0, "1000001s"),
        ("seconds", 1.5, "1.5s"),
        ("share", 0.00001, "0.00001"),
        ("share", 1.0, "1"),
        ("bytes", 1 << 20, "1m"),
        ("bytes", 1_000_001, "1000001"),
    ],
)
def test_a_value_is_shown_as_it_can_be_typed_and_never_in_scientific_form(unit: str, value: float, told: str) -> None:
    limits = {"least": 0, "most": 1e9, "words": [], "none": False}
    row: Any = {"name": NAME, "range": limits, "unit": unit, "value": value, "default": 0}
    assert value_text(row, value) == told
    assert read(told, unit) == value
