"""conf.json: what the keys become, and that every mistake is told with its key, what was found and what is allowed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from master.config.config import load_config, make_folders
from master.desktop.news import news_path
from wire.errors import ConfigError

SOCKETS = {"monitor_port": 63004, "data_port": 63005, "train_state_port": 63006}
ROOT = Path(__file__).parents[3]


def write(folder: Path, text: str) -> Path:
    path = folder / "conf.json"
    path.write_text(text, encoding="utf-8")
    return path


def conf(folder: Path, **keys: Any) -> Path:
    return write(folder, json.dumps({"socket_info": SOCKETS, **keys}))


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_only_the_ports_must_be_said_and_the_rest_has_the_documented_defaults(tmp_path: Path) -> None:
    config = load_config(conf(tmp_path))
    assert config.bind == "127.0.0.1"
    assert config.root == config.folder == tmp_path
    assert config.task_info == tmp_path / "task_info"
    assert config.conda == tmp_path / "envs/miniconda3"
    assert config.task_env == {"PYTHONUNBUFFERED": "1", "QT_QPA_PLATFORM": "offscreen"}
    assert config.run_as_allowed == ()
    assert load_config(conf(tmp_path, run_as_allowed=["svc", 998])).run_as_allowed == ("svc", 998)
    assert (config.scheduler.grace_s, config.scheduler.keep_history) == (10.0, 10_000)
    assert (config.limits.waiting_tasks, config.limits.connections_unidentified) == (200_000, 64)
    assert config.tls == "auto"
    assert config.not_yet_used == ()


def test_the_old_systems_conf_json_loads_as_it_lies(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    path = conf(
        tmp_path,
        visible_folders=["data", "data_ssd", "envs"],
        root=f"{home}/",
        psw_file="./psw",
        slaver_file="./gpu_slaver_info.json",
        train_log_path="data/task_logs/",
        server_log_path=f"{home}/master/server_log.log",
        socket_info={**SOCKETS, "buffer": 1048576, "listen": 100},
    )
    config = load_config(path)
    assert config.root == home
    assert config.train_logs == home / "data/task_logs"
    assert config.server_log == home / "master/server_log.log"
    assert config.registry == tmp_path / "gpu_slaver_info.json"
    assert config.psw == tmp_path / "psw"
    assert config.visible_folders == ("data", "data_ssd", "envs")
    assert config.ports.listen == 100


def test_some_paths_are_relative_to_the_file_and_some_to_root(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    config = load_config(
        conf(tmp_path, root="shared", train_log_path="logs", conda="c", task_info="q", server_log_path="l/s.log")
    )
    assert config.train_logs == tmp_path / "shared/logs"
    assert config.conda == tmp_path / "shared/c"
    assert config.task_info == tmp_path / "q"
    assert config.server_log == tmp_path / "l/s.log"


def test_a_relative_path_to_the_file_still_gives_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf(tmp_path)
    monkeypatch.chdir(tmp_path)
    config = load_config(Path("conf.json"))
    assert config.path == tmp_path / "conf.json"
    assert config.task_info.is_absolute()


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_config(conf(tmp_path, task_info="~/queues")).task_info == tmp_path / "queues"
    said = refusal(conf(tmp_path, task_info="~no-such-user-here/queues"))
    assert said == 'task_info: found "~no-such-user-here/queues", expected a path; there is no such user'


def test_chinese_folder_names_are_folder_names(tmp_path: Path) -> None:
    (tmp_path / "实验室").mkdir()
    assert load_config(conf(tmp_path, root="实验室")).train_logs == tmp_path / "实验室/train_logs"


def test_a_byte_order_mark_from_a_windows_editor_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "conf.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"socket_info": SOCKETS}).encode())
    assert load_config(path).ports.data_port == 63005


def test_a_missing_file_is_told_with_its_cure(tmp_path: Path) -> None:
    said = refusal(tmp_path / "conf.json")
    assert said == "there is no such file; `muster init` writes one that works on this machine"


def test_a_pipe_in_place_of_the_file_is_told_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "conf.json")
    assert refusal(tmp_path / "conf.json") == "cannot be read: not a regular file"


def test_a_folder_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "conf.json").mkdir()
    assert refusal(tmp_path / "conf.json") == "cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  "root": ".",\n}', "line 3, column 1: not JSON: "),
        ('{"root": "."  # home\n}', "line 1, column 15: not JSON: Expecting ',' delimiter (JSON has no comments)"),
        ("", "line 1, column 1: not JSON: Expecting value"),
        ('{"root": ".", "root": "x"}', "the key 'root' stands twice in one object"),
        ('{"scheduler": {"grace_s": NaN}}', "NaN is not JSON"),
    ],
)
def test_a_syntax_error_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    assert refusal(write(tmp_path, text)).startswith(said)


def test_bytes_that_are_no_utf_8_are_told(tmp_path: Path) -> None:
    path = tmp_path / "conf.json"
    path.write_bytes("{}".encode("utf-16"))
    assert refusal(path).startswith("line 1: not UTF-8: save it as that")
    path.write_bytes('{\n  "root": "数据"\n}'.encode("gb18030"))
    assert refusal(path).startswith("line 2: not UTF-8: save it as that")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"socket_info": {**SOCKETS, "data_port": "63005"}},
            'socket_info.data_port: found "63005", expected a whole number',
        ),
        ({"socket_info": {**SOCKETS, "data_port": 0}}, "socket_info.data_port: found 0, expected a whole number >= 1"),
        (
            {"socket_info": {**SOCKETS, "data_port": 65536}},
            "socket_info.data_port: found 65536, expected a whole number <= 65535",
        ),
        (
            {"socket_info": {**SOCKETS, "train_state_port": 63004}},
            (
                "socket_info.train_state_port: found 63004, expected ports that all differ "
                "(socket_info.monitor_port is 63004 already)"
            ),
        ),
        (
            {"socket_info": {**SOCKETS, "data_prot": 1}},
            "socket_info: unknown key `data_prot` (did you mean `data_port`?); allowed are monitor_port, data_port",
        ),
        ({"socket_info": {"monitor_port": 1, "data_port": 2}}, "socket_info: the key `train_state_port` is missing"),
        ({"socket_info": None}, "socket_info: found null, expected an object {…}"),
        ({"visible_folders": "data"}, 'visible_folders: found "data", expected a list […]'),
        ({"visible_folders": ["data", 3]}, "visible_folders[1]: found 3, expected a text in quotes"),
        ({"bind": ""}, 'bind: found "", expected a text in quotes of length >= 1'),
        (
            {"desktop_client": {"ports": {"monitor_port": 1, "data_port": 2}}},
            "desktop_client.ports: the key `train_state_port` is missing",
        ),
        (
            {"desktop_client": {"ports": {"monitor_port": 1, "data_port": 63005, "train_state_port": 3}}},
            (
                "desktop_client.ports.data_port: found 63005, expected ports that all differ "
                "(socket_info.data_port is 63005 already)"
            ),
        ),
        ({"desktop_client": {"silent_s": 0.05}}, "desktop_client.silent_s: found 0.05, expected a number >= 0.1"),
        ({"desktop_client": {"silent_s": None}}, "desktop_client.silent_s: found null, expected a number"),
        (
            {"desktop_client": {"silent_s": 10}},
            "desktop_client.silent_s: found 10.0, expected less than the 10 s of limits.handshake_s",
        ),
        ({"tls": "on"}, 'tls: found "on", expected "auto" or "off" or an object {…}'),
        ({"tls": {"cert": "a"}}, "tls: the key `key` is missing"),
        ({"run_as_allowed": ["-svc"]}, "run_as_allowed[0]: found"),
        ({"run_as_allowed": ["svc", -1]}, "run_as_allowed[1]: found -1"),
        ({"run_as_allowed": "svc"}, "run_as_allowed: found"),
        ({"task_env": {"A": "1", "B": 2}}, "task_env.B: found 2, expected a text in quotes"),
        ({"task_env": {"A B": "1"}}, 'task_env: found "A B", expected names of letters, digits and _'),
        ({"scheduler": {"grace_s": -1}}, "scheduler.grace_s: found -1, expected a number >= 0.0"),
        ({"scheduler": {"sample_s": 0.1}}, "scheduler.sample_s: found 0.1, expected a number >= 0.5"),
        ({"scheduler": {"heartbeat_s": 6}}, "scheduler.heartbeat_s: found 6, expected a number <= 5.0"),
        ({"scheduler": {"keep_history": 1.5}}, "scheduler.keep_history: found 1.5, expected a whole number"),
        ({"limits": {"waiting_task": 5}}, "limits: unknown key `waiting_task` (did you mean `waiting_tasks`?)"),
        ({"influx": {"url": "http://x", "version": 3}}, "influx.version: found 3, expected 1 or 2"),
        (
            {"hooks": {"gpus_free": "tell --channel lab"}},
            'hooks.gpus_free: found "tell --channel lab", expected the absolute path of a program and its arguments, ',
        ),
        ({"hooks": {"gpus_free": ["tell"]}}, 'hooks.gpus_free: found ["tell"], expected the absolute path'),
        ({"hooks": {"gpus_free": []}}, "hooks.gpus_free: found [], expected the absolute path"),
        ({"hooks": {"gpu_free": ["/x"]}}, "hooks: unknown key `gpu_free` (did you mean `gpus_free`?)"),
        ({"hooks": {"task_ended": ["tell"]}}, 'hooks.task_ended: found ["tell"], expected the absolute path'),
        ({"hooks": {"paused": ["/x"]}}, "hooks: unknown key `paused`; allowed are gpus_free, task_started, task_ended"),
        ({"root": "nowhere"}, 'root: found "nowhere", expected a folder that exists (tasks run in it)'),
        ({"task_info": "a\0b"}, 'task_info: found "a\\u0000b", expected a path without NUL'),
    ],
)
def test_a_mistake_is_told_with_its_key_what_was_found_and_what_is_allowed(
    tmp_path: Path, keys: dict[str, Any], said: str
) -> None:
    assert refusal(conf(tmp_path, **keys)).startswith(said)


def test_an_unknown_key_is_told_with_the_one_that_was_meant(tmp_path: Path) -> None:
    said = refusal(conf(tmp_path, taskinfo="q"))
    assert said.startswith("unknown key `taskinfo` (did you mean `task_info`?); allowed are visible_folders, bind")


def test_a_list_in_place_of_the_object_is_told(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, "[]")) == "found [], expected an object {…}"


def test_a_secret_with_a_mistake_is_not_shown(tmp_path: Path) -> None:
    said = refusal(conf(tmp_path, influx={"url": "http://x", "token": ["hunter2"]}))
    assert said == "influx.token: found something else (not shown), expected a text in quotes"
    assert "hunter2" not in refusal(conf(tmp_path, notify={"urls": ["mailto://a:hunter2@b", 3]}))


def test_keys_of_parts_that_are_still_to_come_are_typed_and_named(tmp_path: Path) -> None:
    config = load_config(conf(tmp_path, influx={"url": "http://x", "version": 1}, notify={"urls": ["mailto://a"]}))
    assert config.influx is not None
    assert config.influx.version == 1
    assert config.notify is not None
    assert config.notify.urls == ("mailto://a",)
    assert config.not_yet_used == ("notify",)
    assert load_config(conf(tmp_path, limits={"failed_logins_per_minute": 3})).not_yet_used == ()


@pytest.mark.parametrize("name", ["/data", ".", "..", "data/../.."])
def test_what_cannot_be_a_visible_folder_is_told_with_file_key_and_cure(tmp_path: Path, name: str) -> None:
    said = refusal(conf(tmp_path, visible_folders=["data", name]))
    assert said.startswith(f'visible_folders[1]: found "{name}", expected a folder in `root`, like "data" (')


def test_files_have_owners_where_it_is_said(tmp_path: Path) -> None:
    assert load_config(conf(tmp_path)).files == {}
    said = {"data": "all", "data/{user}": "own", "./data/groups/{group}/": "group", "data/{user}/{group}": "own"}
    assert load_config(conf(tmp_path, visible_folders=["data"], files=said)).files == said


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"data": "mine"}, 'files.data: found "mine", expected "all" or "own" or "group"'),
        ({"data/{user}": None}, 'files.data/{user}: found null, expected "all" or "own" or "group"'),
        ({"data/../x": "all"}, 'files.data/../x: found "data/../x", expected a path of names, without `..`'),
        ({"": "all"}, 'files.: found "", expected a path of names, without `..`'),
        (
            {"/data": "all"},
            'files./data: found "/data", expected a path that begins with a visible folder',
        ),
        (
            {"data/{me}": "all"},
            'files.data/{me}: found "data/{me}", expected {user} or {group} as a whole name',
        ),
        ({"data/of-{user}": "own"}, "expected {user} or {group} as a whole name, not of-{user}"),
        ({"data/ann": "own"}, 'found "data/ann", expected a path with {user} in it, once, for `own`'),
        ({"data/{user}": "group"}, "expected a path with {group} in it, once, for `group`"),
        ({"data/{user}/{user}": "own"}, "expected a path with {user} in it, once, for `own`"),
        (
            {"logs/{user}": "own"},
            'files.logs/{user}: found "logs/{user}", expected a path in one of visible_folders',
        ),
        ({"database": "all"}, "expected a path in one of visible_folders (data)"),
        ({"{user}": "own"}, "expected a path in one of visible_folders (data)"),
        (
            {"data/{user}": "own", "data/{group}": "group"},
            'files.data/{group}: found "data/{group}", expected paths of which each means other folders (data/{user}',
        ),
        ({"data/x": "all", "data//x/": "all"}, "(data/x means these already)"),
        ([], "files: found [], expected an object {…}"),
    ],
)
def test_what_cannot_be_said_of_files_is_told_by_its_path(tmp_path: Path, files: Any, said: str) -> None:
    assert said in refusal(conf(tmp_path, visible_folders=["data"], files=files))


def test_a_short_handshake_of_an_older_conf_json_is_no_mistake(tmp_path: Path) -> None:
    config = load_config(conf(tmp_path, limits={"handshake_s": 1}))
    assert (config.limits.handshake_s, config.desktop_client.silent_s) == (1.0, 1.5)


def test_the_networks_of_the_desktop_client_are_networks(tmp_path: Path) -> None:
    config = load_config(conf(tmp_path, desktop_client={"networks": ["192.168.36.0/24", "10.0.0.7", "fd00::/8"]}))
    assert config.desktop_client.user == "desktop"
    assert config.not_yet_used == ()
    said = refusal(conf(tmp_path, desktop_client={"networks": ["10.0.0.0/8", "192.168.36.1/24"]}))
    assert said.startswith('desktop_client.networks[1]: found "192.168.36.1/24"')


LDAP = {"url": "ldaps://ldap.lab", "bind": "uid={user},ou=people,dc=lab"}


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("ldaps://ldap.lab", ("ldap.lab", 636, True)),
        ("ldaps://ldap.lab:6360/", ("ldap.lab", 6360, True)),
        ("ldap://ldap.lab", ("ldap.lab", 389, False)),
        ("LDAPS://192.168.36.2", ("192.168.36.2", 636, True)),
        ("ldap://[fd00::2]:3890", ("fd00::2", 3890, False)),
    ],
)
def test_the_directory_is_a_host_and_a_port_behind_tls(tmp_path: Path, url: str, place: tuple[str, int, bool]) -> None:
    config = load_config(conf(tmp_path, ldap={**LDAP, "url": url}))
    assert config.ldap is not None
    assert config.ldap.place == place
    assert config.ldap.ca is None
    assert config.not_yet_used == ()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"url": "http://ldap.lab"}, 'ldap.url: found "http://ldap.lab", expected `ldaps://HOST`, or `ldap://HOST`'),
        ({"url": "ldapi:///run/slapd"}, "ldap.url: found "),
        ({"url": "ldap.lab"}, "ldap.url: found "),
        ({"url": "ldaps://"}, "ldap.url: found "),
        ({"url": "ldaps://ldap.lab/dc=lab"}, "ldap.url: found "),
        ({"url": "ldaps://ldap.lab?uid"}, "ldap.url: found "),
        ({"url": "ldaps://ldap.lab:0x27c"}, "ldap.url: found "),
        ({"url": "ldaps://ldap.lab:99999"}, "ldap.url: found "),
        ({"url": "ldaps://ldap.lab:0"}, "ldap.url: found "),
        ({"url": "ldaps://[fd00::2"}, "ldap.url: found "),
        ({"url": "ldaps://" + "x" * 70}, "ldap.url: found "),
        ({"url": "ldaps://a b"}, "ldap.url: found "),
        ({"bind": "cn=admin,dc=lab"}, 'ldap.bind: found "cn=admin,dc=lab", expected the name of a user there, with'),
        ({"bind": "uid={user},cn={user}"}, "ldap.bind: found "),
        ({"bind": "uid={user},ou={group}"}, "ldap.bind: found "),
        ({"bind": "{user}"}, "ldap.bind: found "),
        ({"bind": ""}, "ldap.bind: found "),
        ({"ca": "a\0b"}, "ldap.ca: found "),
        ({"tls": False}, "ldap: unknown key `tls`; allowed are url, bind, ca"),
    ],
)
def test_a_directory_that_could_not_be_asked_in_safety_is_told_with_its_key(
    tmp_path: Path, keys: dict[str, Any], said: str
) -> None:
    assert refusal(conf(tmp_path, ldap={**LDAP, **keys})).startswith(said)


def test_a_password_in_the_directorys_address_is_not_shown(tmp_path: Path) -> None:
    said = refusal(conf(tmp_path, ldap={**LDAP, "url": "ldaps://cn=admin:hunter2@ldap.lab"}))
    assert said.startswith('ldap.url: found "ldap.lab"')
    assert "hunter2" not in said


def test_folders_are_made_when_asked_and_not_by_reading(tmp_path: Path) -> None:
    config = load_config(conf(tmp_path, server_log_path="logs/server.log"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conf.json"]
    make_folders(config)
    make_folders(config)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conf.json", "logs", "task_info", "train_logs"]


def test_a_folder_that_cannot_be_made_is_told_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "task_info").write_text("a file stands here", encoding="utf-8")
    config = load_config(conf(tmp_path))
    with pytest.raises(ConfigError, match=r"conf\.json: task_info: the folder .*task_info cannot be made: File exists"):
        make_folders(config)


def test_the_shipped_conf_json_works_and_what_it_writes_is_ignored_by_git() -> None:
    config = load_config(ROOT / "conf.json")
    assert (config.ports.monitor_port, config.ports.data_port, config.ports.train_state_port) == (63004, 63005, 63006)
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split("\n")
    for path in (config.task_info, config.train_logs):
        assert f"/{os.path.relpath(path, ROOT)}/" in ignored
    for path in (config.server_log, news_path(config.server_log)):
        assert f"/{path.name}*" in ignored
