"""conf.json: what the keys become, and that every mistake is told with its key, what was found and what is allowed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from master.config.conf_checks import HOOK_EXAMPLE
from master.config.config import load_config, make_folders
from master.desktop.news import news_path
from tests.faults import fault_in, part, wrong
from wire.message import Message
from wire.regular_file import NOT_REGULAR

OBJECT = Message("an_object")
TEXT = Message("a_text")
WHOLE = Message("whole_number")
SOCKETS = {"monitor_port": 63004, "data_port": 63005, "train_state_port": 63006}
ROOT = Path(__file__).parents[3]


def write(folder: Path, text: str) -> Path:
    path = folder / "conf.json"
    path.write_text(text, encoding="utf-8")
    return path


def conf(folder: Path, **keys: Any) -> Path:
    return write(folder, json.dumps({"socket_info": SOCKETS, **keys}))


PROGRAM = Message("hook_program", example=HOOK_EXAMPLE)


def refusal(path: Path) -> Message:
    return fault_in(path, lambda: load_config(path))


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
    fault = refusal(conf(tmp_path, task_info="~no-such-user-here/queues"))
    assert fault == wrong("task_info", found='"~no-such-user-here/queues"', expected=Message("path_of_known_user"))


def test_chinese_folder_names_are_folder_names(tmp_path: Path) -> None:
    (tmp_path / "实验室").mkdir()
    assert load_config(conf(tmp_path, root="实验室")).train_logs == tmp_path / "实验室/train_logs"


def test_a_byte_order_mark_from_a_windows_editor_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "conf.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"socket_info": SOCKETS}).encode())
    assert load_config(path).ports.data_port == 63005


def test_a_missing_file_is_told_with_its_cure(tmp_path: Path) -> None:
    assert refusal(tmp_path / "conf.json") == Message("file_missing", cure=Message("init_writes_conf"))


def test_a_pipe_in_place_of_the_file_is_told_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "conf.json")
    assert refusal(tmp_path / "conf.json") == Message("file_unreadable", detail=NOT_REGULAR)


def test_a_folder_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "conf.json").mkdir()
    assert refusal(tmp_path / "conf.json") == Message("file_unreadable", detail=os.strerror(errno.EISDIR))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  "root": ".",\n}', Message("not_json_at", line=3, column=1)),
        ('{"root": "."  # home\n}', Message("json_comment_at", line=1, column=15)),
        ("", Message("not_json_at", line=1, column=1)),
        ('{"root": ".", "root": "x"}', Message("json_refused")),
        ('{"scheduler": {"grace_s": NaN}}', Message("json_refused")),
    ],
)
def test_a_syntax_error_is_told_with_its_place(tmp_path: Path, text: str, said: Message) -> None:
    assert part(refusal(write(tmp_path, text)), said) == said


def test_bytes_that_are_no_utf_8_are_told(tmp_path: Path) -> None:
    path = tmp_path / "conf.json"
    path.write_bytes("{}".encode("utf-16"))
    assert refusal(path) == Message("not_utf8_at", line=1)
    path.write_bytes('{\n  "root": "数据"\n}'.encode("gb18030"))
    assert refusal(path) == Message("not_utf8_at", line=2)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"socket_info": {**SOCKETS, "data_port": "63005"}},
            wrong("socket_info.data_port", found='"63005"', expected=WHOLE),
        ),
        (
            {"socket_info": {**SOCKETS, "data_port": 0}},
            wrong("socket_info.data_port", found="0", expected=Message("within_bound", what=WHOLE, bound=">= 1")),
        ),
        (
            {"socket_info": {**SOCKETS, "data_port": 65536}},
            wrong(
                "socket_info.data_port", found="65536", expected=Message("within_bound", what=WHOLE, bound="<= 65535")
            ),
        ),
        (
            {"socket_info": {**SOCKETS, "train_state_port": 63004}},
            (
                wrong(
                    "socket_info.train_state_port",
                    found="63004",
                    expected=Message("ports_that_differ", key="socket_info.monitor_port", port=63004),
                )
            ),
        ),
        (
            {"socket_info": {**SOCKETS, "data_prot": 1}},
            Message("unknown_key_but", where="socket_info", key="data_prot", meant="data_port"),
        ),
        (
            {"socket_info": {"monitor_port": 1, "data_port": 2}},
            Message("missing_key", where="socket_info", key="train_state_port"),
        ),
        ({"socket_info": None}, wrong("socket_info", found="null", expected=OBJECT)),
        ({"visible_folders": "data"}, wrong("visible_folders", found='"data"', expected=Message("a_list"))),
        ({"visible_folders": ["data", 3]}, wrong("visible_folders[1]", found="3", expected=TEXT)),
        ({"bind": ""}, wrong("bind", found='""', expected=Message("of_length", what=TEXT, bound=">= 1"))),
        (
            {"desktop_client": {"ports": {"monitor_port": 1, "data_port": 2}}},
            Message("missing_key", where="desktop_client.ports", key="train_state_port"),
        ),
        (
            {"desktop_client": {"ports": {"monitor_port": 1, "data_port": 63005, "train_state_port": 3}}},
            (
                wrong(
                    "desktop_client.ports.data_port",
                    found="63005",
                    expected=Message("ports_that_differ", key="socket_info.data_port", port=63005),
                )
            ),
        ),
        (
            {"desktop_client": {"silent_s": 0.05}},
            wrong(
                "desktop_client.silent_s",
                found="0.05",
                expected=Message("within_bound", what=Message("a_number"), bound=">= 0.1"),
            ),
        ),
        (
            {"desktop_client": {"silent_s": None}},
            wrong("desktop_client.silent_s", found="null", expected=Message("a_number")),
        ),
        (
            {"desktop_client": {"silent_s": 10}},
            wrong("desktop_client.silent_s", found="10.0", expected=Message("less_than_handshake", seconds=10.0)),
        ),
        (
            {"tls": "on"},
            wrong("tls", found='"on"', expected=Message("one_of_texts", texts=('"auto"', '"off"', OBJECT))),
        ),
        ({"tls": {"cert": "a"}}, Message("missing_key", where="tls", key="key")),
        ({"run_as_allowed": ["-svc"]}, wrong("run_as_allowed[0]")),
        ({"run_as_allowed": ["svc", -1]}, wrong("run_as_allowed[1]", found="-1")),
        ({"run_as_allowed": "svc"}, wrong("run_as_allowed")),
        ({"task_env": {"A": "1", "B": 2}}, wrong("task_env.B", found="2", expected=TEXT)),
        ({"task_env": {"A B": "1"}}, wrong("task_env", found='"A B"', expected=Message("names_of_variables"))),
        (
            {"scheduler": {"grace_s": -1}},
            wrong(
                "scheduler.grace_s",
                found="-1",
                expected=Message("within_bound", what=Message("a_number"), bound=">= 0.0"),
            ),
        ),
        (
            {"scheduler": {"sample_s": 0.1}},
            wrong(
                "scheduler.sample_s",
                found="0.1",
                expected=Message("within_bound", what=Message("a_number"), bound=">= 0.5"),
            ),
        ),
        (
            {"scheduler": {"heartbeat_s": 6}},
            wrong(
                "scheduler.heartbeat_s",
                found="6",
                expected=Message("within_bound", what=Message("a_number"), bound="<= 5.0"),
            ),
        ),
        ({"scheduler": {"keep_history": 1.5}}, wrong("scheduler.keep_history", found="1.5", expected=WHOLE)),
        (
            {"limits": {"waiting_task": 5}},
            Message("unknown_key_but", where="limits", key="waiting_task", meant="waiting_tasks"),
        ),
        (
            {"influx": {"url": "http://x", "version": 3}},
            wrong("influx.version", found="3", expected=Message("one_of_texts", texts=("1", "2"))),
        ),
        (
            {"hooks": {"gpus_free": "tell --channel lab"}},
            wrong("hooks.gpus_free", found='"tell --channel lab"', expected=PROGRAM),
        ),
        ({"hooks": {"gpus_free": ["tell"]}}, wrong("hooks.gpus_free", found='["tell"]', expected=PROGRAM)),
        ({"hooks": {"gpus_free": []}}, wrong("hooks.gpus_free", found="[]", expected=PROGRAM)),
        (
            {"hooks": {"gpu_free": ["/x"]}},
            Message(
                "unknown_key_but",
                where="hooks",
                key="gpu_free",
                meant="gpus_free",
                known=("gpus_free", "task_started", "task_ended"),
            ),
        ),
        ({"hooks": {"task_ended": ["tell"]}}, wrong("hooks.task_ended", found='["tell"]', expected=PROGRAM)),
        (
            {"hooks": {"paused": ["/x"]}},
            Message("unknown_key", where="hooks", key="paused", known=("gpus_free", "task_started", "task_ended")),
        ),
        ({"root": "nowhere"}, wrong("root", found='"nowhere"', expected=Message("folder_that_exists"))),
        ({"task_info": "a\0b"}, wrong("task_info", found='"a\\u0000b"', expected=Message("path_without_nul"))),
    ],
)
def test_a_mistake_is_told_with_its_key_what_was_found_and_what_is_allowed(
    tmp_path: Path, keys: dict[str, Any], said: Message
) -> None:
    assert part(refusal(conf(tmp_path, **keys)), said) == said


def test_an_unknown_key_is_told_with_the_one_that_was_meant(tmp_path: Path) -> None:
    said = Message("unknown_key_but", where="", key="taskinfo", meant="task_info")
    fault = refusal(conf(tmp_path, taskinfo="q"))
    assert part(fault, said) == said
    assert {"visible_folders", "bind"} <= set(fault.args["known"])  # type: ignore[arg-type]


def test_a_list_in_place_of_the_object_is_told(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, "[]")) == wrong("", found="[]", expected=OBJECT)


def test_a_secret_with_a_mistake_is_not_shown(tmp_path: Path) -> None:
    said = refusal(conf(tmp_path, influx={"url": "http://x", "token": ["hunter2"]}))
    assert said == wrong("influx.token", found=Message("not_shown"), expected=TEXT)
    assert "hunter2" not in str(refusal(conf(tmp_path, notify={"urls": ["mailto://a:hunter2@b", 3]})))


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
    said = wrong("visible_folders[1]", found=f'"{name}"', expected=Message("folder_in_root"))
    assert refusal(conf(tmp_path, visible_folders=["data", name])) == said


def test_files_have_owners_where_it_is_said(tmp_path: Path) -> None:
    assert load_config(conf(tmp_path)).files == {}
    said = {"data": "all", "data/{user}": "own", "./data/groups/{group}/": "group", "data/{user}/{group}": "own"}
    assert load_config(conf(tmp_path, visible_folders=["data"], files=said)).files == said


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"data": "mine"},
            wrong("files.data", found='"mine"', expected=Message("one_of_texts", texts=('"all"', '"own"', '"group"'))),
        ),
        (
            {"data/{user}": None},
            wrong(
                "files.data/{user}", found="null", expected=Message("one_of_texts", texts=('"all"', '"own"', '"group"'))
            ),
        ),
        ({"data/../x": "all"}, wrong("files.data/../x", found='"data/../x"', expected=Message("path_of_names"))),
        ({"": "all"}, wrong("files.", found='""', expected=Message("path_of_names"))),
        (
            {"/data": "all"},
            wrong("files./data", found='"/data"', expected=Message("path_from_visible_folder")),
        ),
        (
            {"data/{me}": "all"},
            wrong(
                "files.data/{me}",
                found='"data/{me}"',
                expected=Message("placeholder_as_name", user="{user}", group="{group}", found="{me}"),
            ),
        ),
        (
            {"data/of-{user}": "own"},
            wrong(
                "files.data/of-{user}",
                expected=Message("placeholder_as_name", user="{user}", group="{group}", found="of-{user}"),
            ),
        ),
        (
            {"data/ann": "own"},
            wrong(
                "files.data/ann",
                found='"data/ann"',
                expected=Message("path_with_placeholder", placeholder="{user}", kind="own"),
            ),
        ),
        (
            {"data/{user}": "group"},
            wrong("files.data/{user}", expected=Message("path_with_placeholder", placeholder="{group}", kind="group")),
        ),
        (
            {"data/{user}/{user}": "own"},
            wrong(
                "files.data/{user}/{user}", expected=Message("path_with_placeholder", placeholder="{user}", kind="own")
            ),
        ),
        (
            {"logs/{user}": "own"},
            wrong(
                "files.logs/{user}",
                found='"logs/{user}"',
                expected=Message("path_in_visible_folders", folders=("data",)),
            ),
        ),
        ({"database": "all"}, wrong("files.database", expected=Message("path_in_visible_folders", folders=("data",)))),
        ({"{user}": "own"}, wrong("files.{user}", expected=Message("path_in_visible_folders", folders=("data",)))),
        (
            {"data/{user}": "own", "data/{group}": "group"},
            wrong(
                "files.data/{group}",
                found='"data/{group}"',
                expected=Message("paths_of_other_folders", other="data/{user}"),
            ),
        ),
        (
            {"data/x": "all", "data//x/": "all"},
            wrong("files.data//x/", expected=Message("paths_of_other_folders", other="data/x")),
        ),
        ([], wrong("files", found="[]", expected=OBJECT)),
    ],
)
def test_what_cannot_be_said_of_files_is_told_by_its_path(tmp_path: Path, files: Any, said: Message) -> None:
    assert part(refusal(conf(tmp_path, visible_folders=["data"], files=files)), said) == said


def test_a_short_handshake_of_an_older_conf_json_is_no_mistake(tmp_path: Path) -> None:
    config = load_config(conf(tmp_path, limits={"handshake_s": 1}))
    assert (config.limits.handshake_s, config.desktop_client.silent_s) == (1.0, 1.5)


def test_the_networks_of_the_desktop_client_are_networks(tmp_path: Path) -> None:
    config = load_config(conf(tmp_path, desktop_client={"networks": ["192.168.36.0/24", "10.0.0.7", "fd00::/8"]}))
    assert config.desktop_client.user == "desktop"
    assert config.not_yet_used == ()
    said = wrong("desktop_client.networks[1]", found='"192.168.36.1/24"')
    assert part(refusal(conf(tmp_path, desktop_client={"networks": ["10.0.0.0/8", "192.168.36.1/24"]})), said) == said


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
        ({"url": "http://ldap.lab"}, wrong("ldap.url", found='"http://ldap.lab"')),
        ({"url": "ldapi:///run/slapd"}, wrong("ldap.url")),
        ({"url": "ldap.lab"}, wrong("ldap.url")),
        ({"url": "ldaps://"}, wrong("ldap.url")),
        ({"url": "ldaps://ldap.lab/dc=lab"}, wrong("ldap.url")),
        ({"url": "ldaps://ldap.lab?uid"}, wrong("ldap.url")),
        ({"url": "ldaps://ldap.lab:0x27c"}, wrong("ldap.url")),
        ({"url": "ldaps://ldap.lab:99999"}, wrong("ldap.url")),
        ({"url": "ldaps://ldap.lab:0"}, wrong("ldap.url")),
        ({"url": "ldaps://[fd00::2"}, wrong("ldap.url")),
        ({"url": "ldaps://" + "x" * 70}, wrong("ldap.url")),
        ({"url": "ldaps://a b"}, wrong("ldap.url")),
        (
            {"bind": "cn=admin,dc=lab"},
            wrong(
                "ldap.bind",
                found='"cn=admin,dc=lab"',
                expected=Message("ldap_bind", placeholder="{user}", example="uid={user},ou=people,dc=lab"),
            ),
        ),
        ({"bind": "uid={user},cn={user}"}, wrong("ldap.bind")),
        ({"bind": "uid={user},ou={group}"}, wrong("ldap.bind")),
        ({"bind": "{user}"}, wrong("ldap.bind")),
        ({"bind": ""}, wrong("ldap.bind")),
        ({"ca": "a\0b"}, wrong("ldap.ca")),
        ({"tls": False}, Message("unknown_key", where="ldap", key="tls", known=("url", "bind", "ca"))),
    ],
)
def test_a_directory_that_could_not_be_asked_in_safety_is_told_with_its_key(
    tmp_path: Path, keys: dict[str, Any], said: Message
) -> None:
    assert part(refusal(conf(tmp_path, ldap={**LDAP, **keys})), said) == said


def test_a_password_in_the_directorys_address_is_not_shown(tmp_path: Path) -> None:
    fault = refusal(conf(tmp_path, ldap={**LDAP, "url": "ldaps://cn=admin:hunter2@ldap.lab"}))
    assert (fault.args["where"], fault.args["found"]) == ("ldap.url", '"ldap.lab"')
    assert "hunter2" not in str(fault)


def test_folders_are_made_when_asked_and_not_by_reading(tmp_path: Path) -> None:
    config = load_config(conf(tmp_path, server_log_path="logs/server.log"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conf.json"]
    make_folders(config)
    make_folders(config)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conf.json", "logs", "task_info", "train_logs"]


def test_a_folder_that_cannot_be_made_is_told_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "task_info").write_text("a file stands here", encoding="utf-8")
    config = load_config(conf(tmp_path))
    folder, detail = str(tmp_path / "task_info"), os.strerror(errno.EEXIST)
    said = Message("folder_cannot_be_made", key="task_info", folder=folder, detail=detail)
    assert fault_in(config.path, lambda: make_folders(config)) == said


def test_the_shipped_conf_json_works_and_what_it_writes_is_ignored_by_git() -> None:
    config = load_config(ROOT / "conf.json")
    assert (config.ports.monitor_port, config.ports.data_port, config.ports.train_state_port) == (63004, 63005, 63006)
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split("\n")
    for path in (config.task_info, config.train_logs):
        assert f"/{os.path.relpath(path, ROOT)}/" in ignored
    for path in (config.server_log, news_path(config.server_log)):
        assert f"/{path.name}*" in ignored
