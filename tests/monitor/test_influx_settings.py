"""The section `influx` of conf.json: what is taken, what is refused and how, and where the token may lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from monitor.influx_settings import Settings, load_settings, lock_file
from tests.faults import fault_in, part
from wire.message import Message

URL = "http://db:8086"


def conf(folder: Path, mode: int = 0o600, **keys: Any) -> Path:
    path = folder / "conf.json"
    path.write_text(json.dumps(keys), encoding="utf-8")
    path.chmod(mode)
    return path


def token_file(folder: Path, mode: int) -> Path:
    path = folder / "token"
    path.write_text("s3cret\n", encoding="utf-8")
    path.chmod(mode)
    return path


def test_the_address_alone_is_enough(tmp_path: Path) -> None:
    assert load_settings(conf(tmp_path, influx={"url": URL + "/"})) == Settings(URL, 2, "", "", "muster")


def test_everything_can_be_said(tmp_path: Path) -> None:
    section = {"url": URL, "version": 2, "token": "t", "org": "lab", "bucket": "gpus"}
    assert load_settings(conf(tmp_path, influx=section)) == Settings(URL, 2, "t", "lab", "gpus")


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (None, Message("influx_missing", example='{"url": "http://HOST:8086"}')),
        ([], Message("influx_no_object", found="[]")),
        ({}, Message("influx_no_text", key="url", found="None")),
        ({"url": "db:8086"}, Message("influx_url", found="db:8086")),
        ({"url": "http://db:port"}, Message("influx_url", found="http://db:port")),
        ({"url": URL, "version": 3}, Message("influx_version", found="3")),
        ({"url": URL, "version": True}, Message("influx_version", found="True")),
        ({"url": URL, "bucket": ""}, Message("influx_no_text", key="bucket", found="''")),
        ({"url": URL, "token": ["s3cret"]}, Message("influx_no_text", key="token", found="something else")),
        ({"url": "http://ada:s3cret@db:8086"}, Message("influx_url_with_user")),
        ({"url": URL, "version": 1, "token": "s3cret"}, Message("influx_token_of_1")),
        ({"url": URL, "token": "s3cret\nagain"}, Message("influx_token_line")),
        ({"url": URL, "token": "s3cret密"}, Message("influx_token_line")),
        ({"url": URL, "version": 1, "token": "ada:s3cret\r"}, Message("influx_token_line")),
        ({"url": URL, "token": "file:nowhere"}, Message("influx_token_refused", detail="No such file or directory")),
    ],
)
def test_a_mistake_is_told_with_file_and_key_and_without_the_secret(
    tmp_path: Path, section: Any, said: Message
) -> None:
    path = conf(tmp_path, **({} if section is None else {"influx": section}))
    fault = fault_in(path, lambda: load_settings(path))
    assert part(fault, said) == said
    assert "s3cret" not in str(fault)


def test_a_password_of_influxdb_1_may_have_any_letters(tmp_path: Path) -> None:
    settings = load_settings(conf(tmp_path, influx={"url": URL, "version": 1, "token": "ada:密码"}))
    assert settings[2] == "ada:密码"


@pytest.mark.parametrize(
    ("text", "key"), [("{", "not_json"), ("[]", "object_expected"), ("\ufeff7", "object_expected")]
)
def test_a_file_that_is_no_object_is_told(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "conf.json"
    path.write_text(text, encoding="utf-8")
    assert fault_in(path, lambda: load_settings(path)).key == key


@pytest.mark.parametrize("said", ["file:token", "file:{folder}/token"])
def test_the_token_may_lie_in_a_file_of_its_own(tmp_path: Path, said: str) -> None:
    token_file(tmp_path, 0o600)
    path = conf(tmp_path, 0o644, influx={"url": URL, "token": said.format(folder=tmp_path)})
    assert load_settings(path)[2] == "s3cret"


def test_a_token_file_that_others_may_read_is_refused_with_the_cure(tmp_path: Path) -> None:
    held = token_file(tmp_path, 0o640)
    path = conf(tmp_path, influx={"url": URL, "token": "file:token"})
    assert fault_in(held, lambda: load_settings(path)) == Message("token_readable", path=str(held))


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_token_in_a_conf_json_that_others_may_read_is_refused_with_both_cures(tmp_path: Path, mode: int) -> None:
    path = conf(tmp_path, mode, influx={"url": URL, "token": "s3cret"})
    fault = fault_in(path, lambda: load_settings(path))
    assert fault == Message("influx_token_open", path=str(path))
    assert "s3cret" not in str(fault)
    path.chmod(0o600)
    assert load_settings(path)[2] == "s3cret"


def test_the_lock_lies_in_task_info(tmp_path: Path) -> None:
    assert lock_file(conf(tmp_path)) == tmp_path / "task_info" / "influx.lock"
    assert lock_file(conf(tmp_path, task_info="/var/q")) == Path("/var/q/influx.lock")
    path = conf(tmp_path, task_info=3)
    assert fault_in(path, lambda: lock_file(path)) == Message("task_info_no_path", found="3")
