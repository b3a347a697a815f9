"""What a command, or a program, shows in a task that was given a token; and how one is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from client.address import find
from client.caller import token_for
from client.cli.arguments import submitting
from client.cli.arguments.parser import build_parser
from tests.faults import refused

HERE = "127.0.0.1:7001"
TOKEN = "mst_t1x1xab_secret"  # noqa: S105


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MUSTER_TOKEN", "MUSTER_CONF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("MUSTER_MASTER", HERE)
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n", encoding="ascii")
    monkeypatch.setenv("MUSTER_TOKEN_FILE", str(path))
    return path


def shown(given: str | None = None, master: str | None = None) -> str | None:
    return token_for(find(master=master), given)


@pytest.mark.usefixtures("file")
def test_what_is_in_the_file_is_shown_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown() == TOKEN
    assert shown(master="localhost:7001") == TOKEN, "the same master"
    assert shown("mst_given") == "mst_given"
    monkeypatch.setenv("MUSTER_TOKEN", "mst_said")
    assert shown() == "mst_said"


@pytest.mark.usefixtures("file")
def test_it_is_shown_to_no_other_master() -> None:
    assert shown(master="127.0.0.1:7002") is None
    assert shown(master="other.lab:7001") is None


@pytest.mark.usefixtures("file")
def test_what_a_task_is_told_of_the_masters_account_counts_where_nothing_is_encrypted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MUSTER_MASTER_UID", "4711")
    for master, account in ((HERE, 4711), ("plain://192.0.2.9:7001", 4711), ("192.0.2.9:7001", None)):
        monkeypatch.setenv("MUSTER_MASTER", master)
        assert (find().end.account, shown()) == (account, TOKEN), master
    assert (find(master="plain://192.0.2.8:7001").end.account, shown(master="plain://192.0.2.8:7001")) == (None, None)


@pytest.mark.parametrize(
    ("wrong", "key"), [("gone", "token_file_refused"), ("empty", "token_file_empty"), ("bytes", "token_file_wrong")]
)
def test_who_is_somebody_by_it_is_nobody_else_without(file: Path, wrong: str, key: str) -> None:
    file.unlink()
    if wrong != "gone":
        file.write_bytes(b"" if wrong == "empty" else b"\xff\xfe")
    said = refused(shown)
    assert (said.key, said.args["variable"], said.args["path"]) == (key, "MUSTER_TOKEN_FILE", str(file))


def asked(command: str, *words: str) -> Any:
    return submitting.parse(build_parser(command), [*words, "--", "true"])


@pytest.mark.parametrize("command", ["submit", "run"])
def test_a_token_for_the_task_and_one_of_ones_own_are_told_apart_by_what_they_are(command: str) -> None:
    options = asked(command, "--token", "mst_mine", "--token", "submit")
    assert (options.token, options.task_token) == ("mst_mine", "submit")
    options = asked(command)
    assert (options.token, options.task_token) == (None, None)


def scripted(folder: Path, line: str) -> Any:
    script = folder / "driver.sh"
    script.write_text(f"#!/bin/bash\n#MUSTER {line} --gpus 1\nmuster submit -- true\n", encoding="utf-8")
    return submitting.parse(build_parser("submit"), ["--script", str(script)])


@pytest.mark.parametrize("line", ["--token submit", "--token=submit"])
def test_a_script_asks_for_one(tmp_path: Path, line: str) -> None:
    options = scripted(tmp_path, line)
    assert (options.task_token, options.gpus) == ("submit", 1)


@pytest.mark.parametrize("line", ["--token mst_x", "--token=mst_x", "--token"])
def test_a_script_brings_none(tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        scripted(tmp_path, line)
    assert "--token has no place in a #MUSTER line" in capsys.readouterr().err
