"""`"privacy": "own"` is refused where others' tasks would be seen all the same."""

from __future__ import annotations

import grp
import json
import os
from pathlib import Path
from typing import Any

import pytest

from master.config.config import Config, load_config, make_folders
from master.secrets.privacy import check_private
from tests.faults import fault_in
from wire.message import Message

PORTS = {"monitor_port": 1, "data_port": 2, "train_state_port": 3}


def config(folder: Path, **keys: Any) -> Config:
    conf = folder / "conf.json"
    conf.write_text(json.dumps({"socket_info": PORTS, "privacy": "own", **keys}), encoding="utf-8")
    made = load_config(conf)
    make_folders(made)
    return made


def refusal(made: Config) -> Message:
    return fault_in(made.path, lambda: check_private(made))


def test_a_lab_that_begins_so_is_closed_enough(tmp_path: Path) -> None:
    made = config(tmp_path)
    check_private(made)
    assert made.train_logs.stat().st_mode & 0o004 == 0


def test_without_it_nothing_is_asked(tmp_path: Path) -> None:
    made = config(tmp_path, privacy="open", log_group="lab", desktop_client={"networks": ["10.0.0.0/8"]})
    made.train_logs.chmod(0o777)
    check_private(made)


def test_logs_that_a_group_may_read_are_told_by_their_key(tmp_path: Path) -> None:
    assert refusal(config(tmp_path, log_group="lab")) == Message("own_log_group", group="lab")


def test_a_log_folder_that_is_open_to_all_is_told_with_the_command_that_closes_it(tmp_path: Path) -> None:
    made = config(tmp_path)
    made.train_logs.chmod(0o755)
    assert refusal(made) == Message("own_logs_open", folder=str(made.train_logs))


def test_a_log_folder_of_a_group_with_others_in_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = config(tmp_path)
    entry = grp.struct_group(("students", "x", os.getegid(), ["ann"]))
    monkeypatch.setattr("master.secrets.privacy.grp.getgrgid", lambda _number: entry)
    assert refusal(made) == Message("own_logs_of_group", group="students", folder=str(made.train_logs))
    made.train_logs.chmod(0o700)
    check_private(made)


def test_one_log_that_is_open_to_all_in_a_folder_that_can_be_entered_is_found(tmp_path: Path) -> None:
    made = config(tmp_path)
    made.train_logs.chmod(0o751)
    log = made.train_logs / "7.log"
    log.touch()
    log.chmod(0o640)
    check_private(made)
    log.chmod(0o644)
    assert refusal(made) == Message("own_log_open", log=str(log), folder=str(made.train_logs))
    made.train_logs.chmod(0o750)
    check_private(made)


@pytest.mark.parametrize(("visible", "logs"), [("data", "data/logs"), ("data", "data"), ("logs", "logs")])
def test_logs_in_a_visible_folder_are_told(tmp_path: Path, visible: str, logs: str) -> None:
    (tmp_path / visible).mkdir()
    folders = {"folder": str(tmp_path / visible), "logs": str(tmp_path / logs)}
    said = Message("own_logs_visible", **folders)
    assert refusal(config(tmp_path, visible_folders=[visible], train_log_path=logs)) == said


@pytest.mark.parametrize(
    ("networks", "users", "is_refused"),
    [
        ([], {}, False),
        (["127.0.0.0/8", "::1/128"], {}, False),
        (["10.0.0.7"], {}, True),
        (["10.0.0.7"], {"10.0.0.7": "ann"}, False),
        (["10.0.0.7/32", "10.0.0.8/32"], {"10.0.0.7": "ann"}, True),
        (["10.0.0.0/30"], {"10.0.0.1": "ann", "10.0.0.2": "bob"}, True),
        (["10.0.0.0/31"], {"10.0.0.0": "ann", "10.0.0.1": "bob"}, False),
        (["fd00::7"], {"fd00::7": "ann"}, False),
        (["fd00::/64"], {"fd00::7": "ann"}, True),
        (["0.0.0.0/0"], {"10.0.0.7": "ann"}, True),
    ],
)
def test_every_address_of_a_desktop_client_is_somebodys(
    tmp_path: Path, networks: list[str], users: dict[str, str], *, is_refused: bool
) -> None:
    made = config(tmp_path, desktop_client={"networks": networks, "users": users})
    if is_refused:
        assert refusal(made).key == "own_networks"
    else:
        check_private(made)
