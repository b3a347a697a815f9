"""A master that cannot start says why, in one line, and leaves everything as it was."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each_case
from tests.ports import free_ports
from tests.system.lab import PORTS
from tests.waiting import until
from tests.wrong_input.mistakes import Lab8

NODE: dict[str, Any] = {"name": "a", "driver": "local", "gpu_probe": "declared", "gpu_count": 1}


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"unknown_key": 1}, "unknown_key"),
        ({"socket_info": {"monitor_port": 1, "data_port": 2}}, "train_state_port"),
        ({"socket_info": {"monitor_port": "x", "data_port": 2, "train_state_port": 3}}, "monitor_port"),
        ({"socket_info": {"monitor_port": 70000, "data_port": 2, "train_state_port": 3}}, "70000"),
        ({"socket_info": {"monitor_port": 5000, "data_port": 5000, "train_state_port": 3}}, "5000"),
        ({"socket_info": []}, "socket_info"),
        ({"root": "没有/this/folder"}, "没有/this/folder"),
        ({"root": 5}, "root"),
        ({"task_info": ""}, "task_info"),
        ({"task_info": "a\0b"}, "task_info"),
        ({"conda": "~nobody-of-this-name/x"}, "conda"),
        ({"task_env": {"1X": "y"}}, "1X"),
        ({"task_env": "PATH=/x"}, "task_env"),
        ({"limits": {"frame_bytes": -1}}, "frame_bytes"),
        ({"limits": {"frames": 1}}, "frames"),
        ({"scheduler": {"grace_s": "long"}}, "grace_s"),
        ({"tls": "maybe"}, "tls"),
        ({"ldap": {"url": "http://ldap.lab", "bind": "uid={user},dc=lab"}}, "ldap.url"),
        ({"ldap": {"url": "ldaps://ldap.lab", "bind": "uid={user},dc=lab", "ca": "no.pem"}}, "ldap.ca"),
    ],
)
def test_a_mistake_in_the_configuration_names_file_and_key(lab: Lab8, keys: dict[str, Any], named: str) -> None:
    lab.change(**keys)
    refusal = lab.refused_start()
    assert refusal.code == "config"
    assert str(lab.conf) in refusal.message
    assert named in refusal.message
    assert not lab.task_info.exists()


@pytest.mark.parametrize(
    ("registry", "named"),
    [
        ("not JSON", "JSON"),
        ("{}", "list"),
        ([{**NODE, "gpus": 3}], "gpus"),
        ([{**NODE, "gpu_count": -1}], "gpu_count"),
        ([{**NODE, "gpu_count": "8"}], "gpu_count"),
        ([NODE, NODE], "name"),
        ([{**NODE, "name": "../x"}], "name"),
        ([{**NODE, "name": ""}], "name"),
        ([{**NODE, "driver": "telnet"}], "driver"),
        ([5], "[0]"),
    ],
)
def test_a_mistake_in_the_registry_names_file_and_entry(lab: Lab8, registry: Any, named: str) -> None:
    text = registry if isinstance(registry, str) else json.dumps(registry)
    lab.registry.write_text(text, encoding="utf-8")
    refusal = lab.refused_start()
    assert refusal.code == "config"
    assert str(lab.registry) in refusal.message
    assert named in refusal.message


def _no_conf(lab: Lab8) -> None:
    lab.conf.unlink()


def _empty_conf(lab: Lab8) -> None:
    lab.conf.write_text("", encoding="utf-8")


def _conf_of_bytes(lab: Lab8) -> None:
    lab.conf.write_bytes(b"\xff\xfe{\0}\0")


def _conf_with_a_key_twice(lab: Lab8) -> None:
    lab.conf.write_text('{"bind": "127.0.0.1", "bind": "0.0.0.0"}', encoding="utf-8")


def _conf_is_a_folder(lab: Lab8) -> None:
    lab.conf.unlink()
    lab.conf.mkdir()


def _no_registry(lab: Lab8) -> None:
    lab.registry.unlink()


def _queue_folder_is_a_file(lab: Lab8) -> None:
    lab.task_info.write_text("mine", encoding="utf-8")


def _log_is_a_folder(lab: Lab8) -> None:
    (lab.folder / "server_log.log").mkdir()


def _logs_beneath_a_file(lab: Lab8) -> None:
    (lab.folder / "a file").write_text("", encoding="utf-8")
    lab.change(train_log_path="a file/logs")


@pytest.mark.parametrize(
    "spoil",
    [
        _no_conf,
        _empty_conf,
        _conf_of_bytes,
        _conf_with_a_key_twice,
        _conf_is_a_folder,
        _no_registry,
        _queue_folder_is_a_file,
        _log_is_a_folder,
        _logs_beneath_a_file,
    ],
)
def test_a_file_that_is_missing_or_something_else_is_named(lab: Lab8, spoil: Callable[[Lab8], None]) -> None:
    spoil(lab)
    refusal = lab.refused_start()
    assert refusal.code == "config"
    assert str(lab.folder) in refusal.message


@pytest.mark.parametrize("key", PORTS)
def test_a_port_in_use_is_named_with_its_key(lab: Lab8, key: str) -> None:
    ports = json.loads(lab.conf.read_text(encoding="utf-8"))["socket_info"]
    with socket.create_server(("127.0.0.1", ports[key])):
        refusal = lab.refused_start()
    assert refusal.code == "config"
    assert f"socket_info.{key}" in refusal.message
    assert f"127.0.0.1:{ports[key]}: Address already in use" in refusal.message
    lab.start()


@pytest.mark.parametrize("bind", ["203.0.113.7", "no-such-host.invalid"])
def test_an_address_that_is_not_this_machines_is_named(lab: Lab8, bind: str) -> None:
    lab.change(bind=bind)
    refusal = lab.refused_start()
    assert refusal.code == "config"
    assert bind in refusal.message
    assert "Unknown error" not in refusal.message


def test_wrong_arguments_are_told_with_status_2(lab: Lab8) -> None:
    done = lab.muster("up", "--nonsense")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


# -- one folder, two masters ----------------------------------------------------------------------------------------


def _other_ports(lab: Lab8) -> Path:
    """A second configuration for the same folder."""
    conf = json.loads(lab.conf.read_text(encoding="utf-8"))
    conf["socket_info"] = dict(zip(PORTS, free_ports(3), strict=True))
    path = lab.folder / "other.json"
    path.write_text(json.dumps(conf), encoding="utf-8")
    return path


def test_a_second_master_on_one_folder_leaves_the_first_alone(lab: Lab8) -> None:
    lab.start()
    assert lab.master is not None
    first = lab.submit("--", "sleep", "1000")
    own, lab.conf = lab.conf, _other_ports(lab)
    refusal = lab.refused_start()
    lab.conf = own
    assert refusal.code == "config"
    assert f"{own}, whose master (pid {lab.master.pid}) works there" in refusal.message
    assert str(lab.task_info) in refusal.message
    assert lab.refused("up", "--detach").code == "conflict"
    assert lab.tasks().keys() == {first}
    assert lab.muster("cancel", str(first)).returncode == 0
    assert lab.ended(first)["state"] == "cancelled"


def test_a_copied_folder_does_not_take_the_nodes_over(lab: Lab8, tmp_path: Path) -> None:
    lab.start()
    task_id = lab.submit("--gpus", "8", "--", "sleep", "1000")
    until("the task runs", lambda: lab.tasks()[task_id]["state"] == "running")
    copy = Lab8(tmp_path / "copy", state=lab.state)
    shutil.copytree(lab.task_info, copy.task_info)
    copy.start()
    try:
        with copy.client() as client:
            node = until("the copy is refused", lambda: _refused_node(client.nodes()))
            assert node["state"] == "unreachable"
            assert client.cancel([task_id])
        assert lab.tasks()[task_id]["state"] == "running"
    finally:
        copy.kill_master()
    # And the original is obeyed after its next start, too.
    lab.kill_master()
    lab.start()
    until("the task is adopted", lambda: lab.tasks()[task_id]["state"] == "running")
    lab.muster("cancel", str(task_id))
    assert lab.ended(task_id)["state"] == "cancelled"


def _refused_node(nodes: list[Any]) -> Any:
    return next((node for node in nodes if "refuses us" in (node["reason"] or "")), None)


# -- a queue that was spoiled ---------------------------------------------------------------------------------------


def _flip_in_the_middle(folder: Path) -> Path:
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().split(b"\n")
    lines[1] = lines[1][:-5] + b"#" + lines[1][-4:]
    journal.write_bytes(b"\n".join(lines))
    return journal


def _drop_a_line(folder: Path) -> Path:
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([lines[0], *lines[2:]]))
    return journal


def _spoil(name: str, content: bytes | None) -> Callable[[Path], Path]:
    def spoil(folder: Path) -> Path:
        path = folder / name
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        return path

    return spoil


SPOILED: dict[str, Callable[[Path], Path]] = {
    "a byte of the journal": _flip_in_the_middle,
    "a line of the journal": _drop_a_line,
    "no journal": _spoil("journal.jsonl", None),
    "an empty queue": _spoil("wait_task.json", b""),
    "a queue of garbage": _spoil("exec_task.json", b"\xff\xfe\0garbage"),
    "a queue that is no list": _spoil("hist_task.json", b"{}"),
    "no queue": _spoil("wait_task.json", None),
    "no state": _spoil("state.json", None),
    "half a state": _spoil("state.json", b'{"seq": 1, "next'),
}


def test_a_spoiled_queue_is_refused_by_name_and_left_as_it_is(lab: Lab8) -> None:
    lab.start()
    for number in range(3):
        lab.submit("--hold", "--name", f"任务 {number}", "--", "true")
    lab.stop_master()
    shutil.copytree(lab.task_info, lab.folder / "backup")
    with each_case() as cases:
        for name, spoil in SPOILED.items():
            with cases.case(name):
                path = spoil(lab.task_info)
                before = {one.name: one.read_bytes() for one in lab.task_info.iterdir() if one.is_file()}
                refusal = lab.refused_start()
                assert refusal.code == "store_corrupt"
                assert str(lab.task_info) in refusal.message
                assert path.name in refusal.message
                for one in lab.task_info.iterdir():
                    if one.is_file() and one.name != "lock":
                        assert one.read_bytes() == before[one.name]
            shutil.rmtree(lab.task_info)
            shutil.copytree(lab.folder / "backup", lab.task_info)
    lab.start()
    assert sorted(lab.tasks()) == [1, 2, 3]


def test_a_torn_end_of_the_journal_is_cut_off_and_all_before_it_is_there(lab: Lab8) -> None:
    lab.start()
    lab.submit("--hold", "--", "true")
    lab.kill_master()
    with (lab.task_info / "journal.jsonl").open("ab") as journal:
        journal.write(b'deadbeef 99 {"tasks":[{"id":')
    lab.start()
    assert sorted(lab.tasks()) == [1]
    # Behind the last record that was on the disk is one for which nobody had an answer: 2 was given to nobody.
    assert lab.submit("--hold", "--", "true") == 2


def test_a_log_that_takes_nothing_more_stops_nobody(lab: Lab8) -> None:
    rights = Path("/dev/full").stat().st_mode
    log = lab.folder / "full.log"  # beside it lie the news, which have no place in /dev
    log.symlink_to("/dev/full")
    lab.change(server_log_path=str(log))
    lab.start()
    assert Path("/dev/full").stat().st_mode == rights, "a device is the machine's, not the lab's"
    assert lab.ended(lab.submit("--", "true"))["state"] == "succeeded"
    lab.stop_master()
    said = (lab.folder / "master.out").read_text(encoding="utf-8").splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"the log {log} cannot be written: No space left on device")
