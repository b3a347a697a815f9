"""`muster conf`: what is shown before a change, what is asked, and what of it reaches the master."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.cli.arguments.conf_changes import when
from client.cli.main import main
from tests.client.fake_master import FakeMaster, Refusal
from tests.client.terminal import MUSTER, Terminal

TEXT = '{\n  "influx": {"token": "******** 1"}\n}\n'
KEPT = "conf.json.20261124T081500Z-0a1b2c3d"
PASSWORD = "gull kettle"  # noqa: S105


class Files:
    """conf.json at the master: `version`, and what it was asked to write."""

    def __init__(self) -> None:
        self.version = "v1"
        self.wants_password = False
        self.asked: list[dict[str, Any]] = []

    def read(self, params: dict[str, Any]) -> Any:
        return {"name": params["name"], "path": "/lab/conf.json", "text": TEXT, "version": self.version, "fixed": []}

    def kept(self, _params: dict[str, Any]) -> Any:
        return [{"name": KEPT, "at": 1000.0, "size": 7}]

    def write(self, params: dict[str, Any]) -> Any:
        self.asked.append(params)
        if params["version"] != self.version:
            raise Refusal("conflict", "somebody else changed it", key="registry_changed", args={"path": "conf.json"})
        if self.wants_password and not params["dry_run"] and params.get("password") != PASSWORD:
            raise Refusal("forbidden", "show your password", key="password_again", args={})
        diff = [] if params.get("text") == TEXT else ["--- conf.json", "+++ conf.json", "-old", "+new\x1b[2J"]
        return {
            "name": "conf", "diff": diff, "changed": ["influx"] if diff else [], "counts": "start",
            "version": "v2", "kept": None if params["dry_run"] else f"/lab/before-edits/{KEPT}",
        }  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    made = Files()
    with FakeMaster({"conf.read": made.read, "conf.kept": made.kept, "conf.write": made.write}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        yield made


@pytest.fixture
def new(tmp_path: Path) -> str:
    """A file with another text."""
    path = tmp_path / "new.json"
    path.write_text("{}", encoding="utf-8")
    return str(path)


def test_the_text_is_shown_as_it_lies_there(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conf", "show"]) == 0
    assert capsys.readouterr().out == TEXT
    assert main(["conf", "show", "registry", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "registry"
    assert main(["conf", "show", "--version"]) == 0
    assert capsys.readouterr().out == f"{files.version}\n"


def test_a_dry_run_shows_the_difference_and_writes_nothing(
    files: Files, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conf", "edit", "--from", new, "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == ["--- conf.json", "+++ conf.json", "-old", "+new\\x1b[2J"]
    assert [one["dry_run"] for one in files.asked] == [True]


def test_what_nobody_can_be_asked_about_wants_a_yes(
    files: Files, new: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["conf", "edit", "--from", new]) == 1
    assert "say --yes" in capsys.readouterr().err
    assert main(["conf", "edit", "--from", new, "--yes"]) == 0
    assert [one["dry_run"] for one in files.asked] == [True, True, False]
    assert files.asked[-1]["text"] == "{}"
    assert "from the next start of the master; the file before is /lab/before-edits" in capsys.readouterr().out


def test_keys_that_wait_for_a_start_are_named() -> None:
    def told(counts: str, changed: list[str], at_start: list[str]) -> str:
        made: Any = {"counts": counts, "changed": changed, "at_start": at_start}
        return when(made)

    assert told("start", ["influx", "scheduler"], ["influx"]) == (
        "influx: takes effect at the next start; the rest holds from now on"
    )
    assert told("start", ["influx"], ["influx"]) == "influx: takes effect at the next start"
    assert told("now", ["scheduler"], []) == "it holds from now on"


def test_a_version_that_is_none_any_more_is_told_before_anything_is_asked(
    files: Files, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conf", "edit", "--from", new, "--version", "v0", "--yes"]) == 1
    assert "error: conflict: somebody else changed it" in capsys.readouterr().err
    assert [one["dry_run"] for one in files.asked] == [True]


def test_what_is_so_already_is_told_and_not_written(
    files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "same.json").write_text(TEXT, encoding="utf-8")
    assert main(["conf", "edit", "--from", str(tmp_path / "same.json"), "--yes"]) == 0
    assert "it is so already" in capsys.readouterr().err
    assert [one["dry_run"] for one in files.asked] == [True]


def test_the_password_is_read_from_a_file_where_one_is_wanted(
    files: Files, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files.wants_password = True
    assert main(["conf", "edit", "--from", new, "--yes"]) == 1
    assert "show your password" in capsys.readouterr().err
    (tmp_path / "password").write_text(f"{PASSWORD}\n", encoding="utf-8")
    assert main(["conf", "edit", "--from", new, "--yes", "--password-file", str(tmp_path / "password"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == "v2"


def test_an_earlier_version_is_listed_and_put_back(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conf", "kept", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == KEPT
    assert main(["conf", "restore", KEPT, "--yes"]) == 0
    assert files.asked[-1] == {"name": "conf", "kept": KEPT, "version": "v1", "dry_run": False}


@pytest.mark.real
def test_an_editor_is_given_the_text_and_what_he_made_of_it_is_shown_asked_about_and_written(files: Files) -> None:
    """At a terminal, where the password is asked for as well."""
    files.wants_password = True
    more = {"EDITOR": "sed -i s/influx/metrics/", "VISUAL": "", "MUSTER_CONF": os.environ["MUSTER_CONF"]}
    with Terminal([*MUSTER, "conf", "edit"], more) as terminal:
        terminal.shows(b"Change influx?")
        terminal.types("y\n")
        terminal.shows(b"Your password")
        terminal.types(f"{PASSWORD}\n")
        code, shown = terminal.ends()
    assert (code, b"written:" in shown, PASSWORD.encode() in shown) == (0, True, False)
    assert files.asked[-1]["text"] == TEXT.replace("influx", "metrics")
