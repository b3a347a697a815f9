"""`muster init --from`: an old lab's folder becomes Muster's, all of it or nothing, and only once."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from master.command_line import main
from master.config.config import load_config
from master.nodes.registry import load_registry
from master.setup.init import old_lab, old_master, takeover
from master.setup.init.takeover import Wishes
from tests.faults import fault_in, refused, refusing
from tests.old_lab import FROZEN, edit_json, lay_out, tree
from wire.errors import StoreCorruptError
from wire.message import Message

EVERYWHERE = "0.0.0.0"  # noqa: S104  (what an admin may say; nothing is opened)
NETWORKS = ["127.0.0.0/8", "::1/128", "192.168.36.0/24"]


@pytest.fixture
def old(tmp_path: Path, free_ports: list[int]) -> Path:
    """The `master` folder of an old lab."""
    return lay_out(tmp_path / "gpulab", free_ports)


def take_over(folder: Path, *words: str) -> int:
    return main(["init", "--from", str(folder), *words])


def told(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What it tells as JSON."""
    assert take_over(folder, "--json", *words) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def refusal(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line of a refusal, which must leave everything as it was."""
    before = tree(folder.parent)
    assert take_over(folder, *words) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert tree(folder.parent) == before
    return said.err


# -- what comes of it -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["the master folder", "its parent"])
def test_the_files_load_afterwards_with_all_that_the_lab_had(
    old: Path, free_ports: list[int], capsys: pytest.CaptureFixture[str], which: str
) -> None:
    answer = told(old if which == "the master folder" else old.parent, capsys, "--networks", "192.168.36.0/24")
    config = load_config(old / "conf.json")
    assert list(config.ports.all.values()) == free_ports
    assert (config.root, config.train_logs) == (old.parent, old.parent / "data/task_logs")
    assert config.visible_folders == ("data", "envs")
    assert config.task_env == {"PYTHONUNBUFFERED": "1", "QT_QPA_PLATFORM": "offscreen", "NCCL_P2P_DISABLE": "1"}
    assert config.bind == answer["bind"] == "127.0.0.1"
    assert list(config.desktop_client.networks) == answer["networks"] == NETWORKS
    nodes = load_registry(config.registry)
    assert [(node.name, node.driver, node.gpu_count) for node in nodes] == [
        ("Slaver1", "ssh", 3), ("Slaver2", "ssh", 2), ("数据节点", "ssh", 0),
    ]  # fmt: skip
    assert nodes[1].gpu_models == ("RTX4090", "RTX4090")
    assert answer["conda"] == str(config.conda) == str(old.parent / "envs/miniconda3")


def test_what_muster_does_not_know_is_told_and_kept(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    was = (old / "conf.json").read_bytes()
    answer = told(old, capsys)
    assert answer["unknown"] == {
        "conf.json": ["upload_limit", "socket_info.web_port"],
        "registry": {"[1] (Slaver2)": ["room", "enabled"]},
    }
    assert (old / "conf.json.old").read_bytes() == was
    entries = json.loads((old / "gpu_slaver_info.json").read_text(encoding="utf-8"))
    assert entries[1]["_old"] == {"room": "三楼机房", "enabled": 1}
    for word in ("`upload_limit`", "`socket_info.web_port`", "`room`, `enabled`", "`gpu_count` became 2"):
        assert any(word in warning for warning in answer["warnings"]), word


def test_the_lines_of_the_files_stay_as_they_were_laid_out(old: Path) -> None:
    before = (old / "gpu_slaver_info.json").read_text(encoding="utf-8").splitlines()
    assert take_over(old) == 0
    after = (old / "gpu_slaver_info.json").read_text(encoding="utf-8").splitlines()
    assert [line for line in before if line not in after] == [before[2]]
    conf = (old / "conf.json").read_text(encoding="utf-8")
    assert '    "visible_folders": ["data", "envs"],\n' in conf
    assert '    "bind": "127.0.0.1",\n' in conf


def test_the_password_file_is_closed_and_never_shown(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (old / "psw").read_text(encoding="utf-8")
    assert take_over(old) == 0
    assert content.strip() not in capsys.readouterr().out
    assert stat.S_IMODE((old / "psw").stat().st_mode) == 0o600
    assert [path for path in old.parent.rglob("*") if path.is_file() and content.encode() in path.read_bytes()] == [
        old / "psw"
    ]


def test_the_queues_are_counted_and_left_alone(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(old / "task_info")
    tasks = told(old, capsys)["tasks"]
    assert (tasks["waiting"], tasks["history"], tasks["taken_over_before"]) == (6, 4, False)
    assert [(task["id"], task["nodes"]) for task in tasks["lost"]] == [
        (26112105000010, ["Slaver1"]), (26112105000011, ["Slaver2"]),
    ]  # fmt: skip
    unknown = {str(Message("old_starting")), str(Message("old_running"))}
    assert {task["reason"] for task in tasks["lost"]} <= unknown
    assert tree(old / "task_info") == before


def test_what_windows_put_before_a_text_is_no_fault(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (*old.glob("*.json"), *(old / "task_info").iterdir()):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert told(old, capsys)["tasks"]["waiting"] == 6
    assert load_registry(load_config(old / "conf.json").registry)


def test_a_second_time_there_is_nothing_to_do(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert take_over(old, "--networks", "10.1.0.0/16") == 0
    before = tree(old.parent)
    capsys.readouterr()
    assert take_over(old) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert told(old, capsys)["changes"] is False
    assert tree(old.parent) == before


def test_a_second_time_may_change_what_was_said_the_first_time(old: Path) -> None:
    assert take_over(old) == 0
    assert take_over(old, "--networks", "10.1.0.0/16", "--bind", EVERYWHERE) == 0
    config = load_config(old / "conf.json")
    assert config.bind == EVERYWHERE
    assert config.desktop_client.networks[-1] == "10.1.0.0/16"
    assert b"upload_limit" in (old / "conf.json.old").read_bytes()


def test_a_copy_that_is_there_is_never_written_over(old: Path) -> None:
    (old / "conf.json.old").write_text("mine", encoding="utf-8")
    was = (old / "conf.json").read_bytes()
    assert take_over(old) == 0
    assert (old / "conf.json.old").read_text(encoding="utf-8") == "mine"
    assert (old / "conf.json.old2").read_bytes() == was


def test_a_dry_run_tells_all_and_writes_nothing(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(old.parent)
    answer = told(old, capsys, "--dry-run", "--networks", "192.168.36.0/24")
    assert tree(old.parent) == before
    assert answer["dry_run"]
    assert answer["networks"] == NETWORKS
    assert [Path(path).name for path in answer["files"]] == [
        "gpu_slaver_info.json.old", "conf.json.old", "gpu_slaver_info.json", "conf.json",
    ]  # fmt: skip
    assert take_over(old, "--dry-run") == 0
    assert "Would take over" in capsys.readouterr().out


def test_modes_of_the_files_stay(old: Path) -> None:
    (old / "conf.json").chmod(0o640)
    assert take_over(old) == 0
    assert [stat.S_IMODE((old / name).stat().st_mode) for name in ("conf.json", "conf.json.old")] == [0o640, 0o640]
    assert {path.name for path in old.iterdir()} == {
        "conf.json", "conf.json.old", "gpu_slaver_info.json", "gpu_slaver_info.json.old", "psw", "task_info",
    }  # fmt: skip


def test_a_conda_elsewhere_is_found_and_none_is_told(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (old.parent / "envs/miniconda3").rename(old.parent / "anaconda3")
    assert told(old, capsys, "--dry-run")["conda"] == str(old.parent / "anaconda3")
    assert take_over(old) == 0
    assert load_config(old / "conf.json").conda == old.parent / "anaconda3"
    (old.parent / "anaconda3").rename(old.parent / "gone")
    capsys.readouterr()
    assert any("there is no conda" in warning for warning in told(old, capsys)["warnings"])


# -- what should be known ---------------------------------------------------------------------------------------------


def test_tasks_that_will_wait_or_may_still_run_are_told(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = old / "task_info/wait_task.json"
    tasks = json.loads(path.read_text(encoding="utf-8"))
    tasks[1]["slaver"], tasks[3]["need_gpus"] = "Slaver9", "8"
    tasks[0]["prev"], tasks[1]["prev"] = tasks[1]["task_id"], tasks[0]["task_id"]
    path.write_text(json.dumps(tasks), encoding="utf-8")
    warnings = "\n".join(told(old, capsys)["warnings"])
    assert "task 26112106060112 asked for node Slaver9, which the registry does not hold" in warnings
    assert "task 26112106071501 asked for 8 GPUs, more than any node has" in warnings
    assert "tasks 26112106053964, 26112106060112 would wait for ever, in a circle" in warnings
    assert "task 26112106080000 waited for a task that ran" in warnings
    assert "tasks 26112105000010, 26112105000011 ran under the old system on Slaver1, Slaver2" in warnings


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "at 127.0.0.1 only"),
        (["--bind", EVERYWHERE], "desktop clients on other PCs are refused"),
        (["--bind", EVERYWHERE, "--networks", "0.0.0.0/0"], "whoever reaches the ports"),
    ],
)
def test_who_cannot_come_in_is_told(
    old: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    assert any(expected in warning for warning in told(old, capsys, *words)["warnings"])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"hush", None),
        (b"\xef\xbb\xbfhush \r\n\r\n", None),
        (b"Slaver1:hush\n*:hush\n", None),
        (b"", "it holds no password for Slaver1, Slaver2, 数据节点"),
        (b"# passwords\nSlaver1:hush\n", "it holds no password for Slaver2, 数据节点"),
        (b"hush:hush", str(Message("passwords_ambiguous"))),
        (b"gpulab\nhush\n", "line 1 is not `NAME:PASSWORD`"),
        ("hush 密码".encode("gb18030"), "not UTF-8"),
    ],
)
def test_passwords_that_will_not_do_are_told_and_never_shown(
    old: Path, capsys: pytest.CaptureFixture[str], content: bytes, expected: str | None
) -> None:
    (old / "psw").write_bytes(content)
    warnings = [line for line in told(old, capsys)["warnings"] if line.startswith("nodes cannot be logged in to")]
    assert len(warnings) == (expected is not None)
    assert all(str(expected) in line and "hush" not in line for line in warnings)


def test_links_stay_links_and_the_folders_beside_them_count(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("conf.json", "gpu_slaver_info.json"):
        (old / name).rename(old.parent / name)
        (old / name).symlink_to(old.parent / name)
    was = (old / "conf.json").read_bytes()
    answer = told(old, capsys)
    assert (answer["conf"], answer["tasks"]["waiting"]) == (str(old / "conf.json"), 6)
    assert all((old / name).is_symlink() for name in ("conf.json", "gpu_slaver_info.json"))
    assert (old / "conf.json.old").read_bytes() == was
    assert load_registry(load_config(old / "conf.json").registry)[1].gpu_count == 2


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("nowhere")], ids=["a folder", "a dead link"])
def test_what_bears_the_name_of_a_copy_stays(old: Path, make: Callable[[Path], None]) -> None:
    was = (old / "conf.json").read_bytes()
    make(old / "conf.json.old")
    assert take_over(old) == 0
    assert not (old / "conf.json.old").is_file()
    assert (old / "conf.json.old2").read_bytes() == was


@pytest.mark.real
def test_nobody_reading_on_is_no_traceback(old: Path) -> None:
    words = [sys.executable, "-m", "master", "init", "--from", str(old), "--dry-run"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_lab_without_password_file_or_tasks_is_told_so(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (old / "psw").unlink()
    for path in (old / "task_info").iterdir():
        path.unlink()
    answer = told(old, capsys)
    assert answer["tasks"] == {"taken_over_before": False, "waiting": 0, "lost": [], "doubtful": [], "history": 0}
    assert any("there is no password file" in warning for warning in answer["warnings"])


def test_people_read_a_table_without_what_a_terminal_would_act_on(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = old / "task_info/exec_task.json"
    tasks = json.loads(path.read_text(encoding="utf-8"))
    tasks[0]["exec"] = "printf '\x1b[31m'\nsecond line" + "x" * 200
    path.write_text(json.dumps(tasks), encoding="utf-8")
    assert take_over(old) == 0
    said = capsys.readouterr().out
    assert "6 wait, 2 ran and become lost, 4 of history" in said
    assert f"muster up --detach --conf {old / 'conf.json'}" in said
    assert "muster node trust --all" in said
    assert "\x1b" not in said
    assert "26112105000010  Slaver1 GPUs 0, 1  printf" in said
    assert "x" * 100 not in said


# -- what is refused, with nothing changed ----------------------------------------------------------------------------


def test_comments_after_values_are_told_with_line_and_column(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (old / "conf.json").read_text(encoding="utf-8").replace('"envs"],', '"envs"],    #客户端可见的文件夹')
    (old / "conf.json").write_text(text, encoding="utf-8")
    fault = fault_in(old / "conf.json", lambda: old_lab.read(old))
    assert (fault.key, fault.args["line"], fault.args["column"]) == ("json_comment_at", 2, 45)
    assert str(fault) in refusal(old, capsys)


def _same_ports(conf: Path) -> None:
    ports = json.loads(conf.read_text(encoding="utf-8"))["socket_info"]
    edit_json(conf, socket_info={**ports, "train_state_port": ports["monitor_port"]})


def _as_chinese_windows(path: Path) -> None:
    path.write_bytes(path.read_text(encoding="utf-8").encode("gb18030"))


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda old: edit_json(old / "conf.json", socket_info=None), "socket_info"),
        (lambda old: edit_json(old / "conf.json", root="/home/xxx/"), "/home/xxx"),
        (lambda old: edit_json(old / "conf.json", visible_folders="data"), "visible_folders"),
        (lambda old: (old / "conf.json").write_text("[]", encoding="utf-8"), "conf.json"),
        (lambda old: edit_json(old / "conf.json", root="~nobody-here/"), str(Message("path_of_known_user"))),
        (lambda old: edit_json(old / "conf.json", root="/a\0b"), str(Message("path_without_nul"))),
        (lambda old: edit_json(old / "conf.json", psw_file="./"), str(Message("passwords_no_file"))),
        (lambda old: _same_ports(old / "conf.json"), "socket_info.train_state_port"),
        (lambda old: _as_chinese_windows(old / "gpu_slaver_info.json"), str(Message("not_utf8_at", line=3))),
        (lambda old: _as_chinese_windows(old / "task_info/hist_task.json"), str(Message("not_utf8"))),
        (lambda old: (old / "gpu_slaver_info.json").unlink(), "gpu_slaver_info.json"),
        (lambda old: (old / "gpu_slaver_info.json").write_text("{}", encoding="utf-8"), "gpu_slaver_info.json"),
        (
            lambda old: (old / "task_info/hist_task.json").write_text("", encoding="utf-8"),
            str(Message("queue_file_empty")),
        ),
        (lambda old: (old / "task_info/hist_task.json").write_text('[{"id": 1}]', encoding="utf-8"), "hist_task.json"),
    ],
)
def test_a_file_that_cannot_be_is_named(
    old: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], object], expected: str
) -> None:
    spoil(old)
    assert expected in refusal(old, capsys)


def test_folders_of_another_machine_are_told_in_one_line(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_json(old / "conf.json", root="/home/xxx/", server_log_path="/home/xxx/master/server_log.log")
    fault = fault_in(old / "conf.json", lambda: old_lab.read(old))
    assert fault.key == "old_folders_missing"
    folders = "root (/home/xxx), server_log_path (/home/xxx/master)"
    assert folders in str(fault)
    assert str(fault) in refusal(old, capsys)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"gpu_count": "many"}, "[0] (Slaver1).gpu_count"),
        ({"gpu_count": 2}, str(Message("as_many_as_gpus", count=2, found=3))),
        ({"ip": ""}, str(Message("entry_for_ssh"))),
        ({"name": "Slaver2"}, str(Message("node_name_free", entry=0))),
        (5, "[0]"),
    ],
)
def test_an_entry_of_the_registry_that_cannot_be_is_named(
    old: Path, capsys: pytest.CaptureFixture[str], entry: Any, expected: str
) -> None:
    path = old / "gpu_slaver_info.json"
    entries = json.loads(path.read_text(encoding="utf-8"))
    entries[0] = {**entries[0], **entry} if isinstance(entry, dict) else entry
    path.write_text(json.dumps(entries), encoding="utf-8")
    assert expected in refusal(old, capsys)


def test_a_task_that_cannot_be_is_named_with_file_line_and_entry(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = old / "task_info/wait_task.json"
    path.write_text(
        path.read_text(encoding="utf-8").replace('"need_gpus": "0"', '"need_gpus": "some"'), encoding="utf-8"
    )
    said = refusal(old, capsys)
    found = Message("old_gpus_no_count", found="some")
    entry = Message("queue_entry_wrong", number=4, detail=str(found))
    told = Message("queue_line_wrong", path=str(path), line=4, fault=entry, folder=str(path.parent))
    assert said.startswith(f"error: store_corrupt: {told}")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--networks", "192.168.36.5/24"],
            Message("no_network_but", found="192.168.36.5/24", meant="192.168.36.0/24"),
        ),
        (["--networks", "the lab"], Message("no_network", found="the")),
        (
            ["--bind", "203.0.113.7"],
            Message("bind_elsewhere", address="203.0.113.7", detail=os.strerror(errno.EADDRNOTAVAIL)),
        ),
    ],
)
def test_a_wish_that_cannot_be_is_refused(
    old: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: Message
) -> None:
    assert str(expected) in refusal(old, capsys, *words)


def test_a_host_that_has_no_address_is_none_to_bind_to(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such host" in refusal(old, capsys, "--bind", "no such host")


def test_a_folder_without_an_old_lab_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert take_over(tmp_path / "nowhere") == 1
    assert str(Message("no_old_conf")) in capsys.readouterr().err


def test_a_disk_that_takes_no_more_leaves_all_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = takeover.plan(old_lab.read(old), Wishes())
    before = tree(old.parent)
    synced: list[int] = []

    def full(fd: int) -> None:
        synced.append(fd)
        if len(synced) == len(steps.files):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = refused(lambda: takeover.carry_out(steps))
    assert str(said.args["path"]).endswith("conf.json")
    assert said.args["fault"] == Message("file_unwritable", detail="No space left on device")
    assert tree(old.parent) == before


# -- while the old master runs ----------------------------------------------------------------------------------------


@pytest.fixture
def old_main(old: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The old system's main.py, running in its folder."""
    program = old / "main.py"
    program.write_text("print('up', flush=True)\ninput()\n", encoding="utf-8")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "main.py"], cwd=old, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.real
def test_while_its_process_runs_nothing_is_done(
    old: Path, old_main: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(old, capsys)
    sign = Message("process_runs", pid=old_main.pid, program=str(old / "main.py"))
    runs = Message("old_master_runs", why=Message("old_master_seems_to_run", signs=(sign,)))
    assert said == f"error: conflict: {runs}\n"
    assert told(old, capsys, "--dry-run")["old_master"] == [str(sign)]
    assert take_over(old, "--force") == 0


def test_while_its_ports_are_in_use_nothing_is_done(
    old: Path, free_ports: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", free_ports[1])):
        in_use = Message("ports_in_use", ports=(f"{free_ports[1]} (data_port)",))
        assert str(in_use) in refusal(old, capsys)
    assert take_over(old) == 0


@pytest.mark.real
def test_a_main_py_of_somebody_else_is_not_it(old: Path, old_main: subprocess.Popen[bytes], tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("", encoding="utf-8")
    assert old_master.processes(tmp_path) == []
    assert old_master.processes(old) == [old_main.pid]


def test_this_machines_address_towards_the_nodes_is_known_without_asking_them() -> None:
    assert old_master.own_addresses(["127.0.0.1", "127.1.2.3"]) == []


def test_the_frozen_lab_itself_names_folders_of_no_machine() -> None:
    fault = fault_in(old_lab.find_conf(FROZEN), lambda: old_lab.read(FROZEN))
    assert fault.key == "old_folders_missing"
    assert "root (" in str(fault.args["folders"])


def test_tasks_of_ours_without_their_state_are_refused(old: Path) -> None:
    (old / "task_info/hist_task.json").write_text('[{"id": 1, "command": "x"}]', encoding="utf-8")
    with refusing(StoreCorruptError, "tasks_without_state", state="state.json"):
        old_lab.read(old)
