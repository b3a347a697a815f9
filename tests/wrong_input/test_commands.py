"""Commands that are wrong, strange or large, through the real command line to a real bash and back."""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import reason_of
from tests.ports import free_ports
from tests.wrong_input.mistakes import Lab8
from wire.message import Message

ECHO = ["printf", "<%s>\\n"]
QUOTED = [
    "two words",
    "",
    "'single' it's",
    '"double"',
    "`backtick`",
    "$(dollar) $HOME ${X}",
    "back\\slash \\\\ \\n",
    "; & | && || > < * ? [x] {1,2} ~ ! #",
    "中文，“引号” 「角」 😀",
    "--gpus",
    "--",
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab8]:
    """One running master for all mistakes of this file: none of them may do it any harm."""
    made = Lab8(tmp_path_factory.mktemp("实验室 'lab'"))
    made.start()
    assert made.master is not None
    pid = made.master.pid
    yield made
    with made.client() as client:
        assert client.info()["pid"] == pid
    left = made.close()
    made.no_traceback()
    assert not left


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show", "999999"], "not_found"),
        (["show", "../x"], "not_found"),
        (["why", "999999"], "not_found"),
        (["logs", "999999"], "not_found"),
        (["cancel", "999999"], "not_found"),
        (["edit", "999999", "priority=1"], "not_found"),
        (["retry", "999999"], "not_found"),
        (["rm", "999999"], "not_found"),
        (["move", "999999", "1"], "not_found"),
        (["hold", "999999"], "not_found"),
        (["release", "999999"], "not_found"),
        (["start", "999999"], "not_found"),
        (["submit", "--gpus", "9", "--", "true"], "impossible"),
        (["submit", "--gpu-ids", "0,8", "--", "true"], "impossible"),
        (["submit", "--node", "没有", "--", "true"], "impossible"),
        (["submit", "--after", "999999", "--", "true"], "not_found"),
        (["submit", "--env", "a;b", "--", "true"], "bad_request"),
        (["submit", "--", ""], "bad_request"),
        (["submit", "--", "x" * 130_000], "bad_request"),
        (["submit", "--script", "/没有/this.sh"], "bad_request"),
        (["submit", "--batch", "/没有/this.txt"], "bad_request"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[:40],
)
def test_what_cannot_be_done_is_refused_in_one_line(lab: Lab8, words: list[str], code: str) -> None:
    before = lab.tasks().keys()
    refusal = lab.refused(*words)
    assert refusal.code == code
    assert lab.tasks().keys() == before


@pytest.mark.parametrize(
    "words",
    [
        ["sumbit", "--", "true"],
        ["submit"],
        ["submit", "--gpus", "two", "--", "true"],
        ["submit", "--gpus", "-1", "--", "true"],
        ["submit", "--time-limit", "soon", "--", "true"],
        ["submit", "--nonsense", "--", "true"],
        ["show"],
        ["show", "1/2"],
        ["show", "1.5"],
        ["cancel", "5-"],
        ["edit", "1"],
        ["move", "1", "first"],
        ["logs", "1", "--tail", "-3"],
        ["--nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_told_with_status_2(lab: Lab8, words: list[str]) -> None:
    done = lab.muster(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert sum("error:" in line for line in done.stderr.splitlines()) == 1


def test_a_master_that_is_not_there_is_told_with_status_3(lab: Lab8, tmp_path: Path) -> None:
    del lab
    away = Lab8(tmp_path)
    assert away.refused("queue", status=3).code == "unreachable"
    assert away.refused("show", "1", status=3).code == "unreachable"
    away.conf.unlink()
    assert away.refused("queue").code == "config"


def test_something_else_on_the_port_is_told_as_that(tmp_path: Path) -> None:
    away = Lab8(tmp_path)
    port = free_ports(1)[0]
    conf = json.loads(away.conf.read_text(encoding="utf-8"))
    conf["socket_info"]["data_port"] = port
    away.change(**conf)
    with socket.create_server(("127.0.0.1", port)) as server:
        pid = os.fork()
        if pid == 0:
            accepted, _ = server.accept()
            accepted.sendall(b"220 mail.example ESMTP\r\n")
            accepted.recv(1 << 16)
            os._exit(0)
        refusal = away.refused("queue")
        os.waitpid(pid, 0)
    assert refusal.code == "protocol"


@pytest.mark.parametrize("word", QUOTED)
def test_every_quote_reaches_the_program_as_it_was_typed(lab: Lab8, word: str) -> None:
    done = lab.muster("run", "--", *ECHO, word)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"<{word}>"


def test_chinese_everywhere(lab: Lab8) -> None:
    folder = lab.folder / "数据 集"
    folder.mkdir()
    script = folder / "训练.sh"
    script.write_text('#!/bin/bash\necho "在 $(pwd): $变 $1"\n'.replace("$变", "$NAME"), encoding="utf-8")
    log = "日志/输出 1.log"
    words = ["--name", "任务 一", "--project", "项目", "--cwd", str(folder), "--log", log]
    task_id = lab.submit(*words, "--", "env", "NAME=名", "bash", "训练.sh", "参数")
    task = lab.ended(task_id)
    assert (task["state"], task["name"], task["project"]) == ("succeeded", "任务 一", "项目")
    assert (lab.folder / log).read_text(encoding="utf-8").startswith(f"在 {folder}: 名 参数\n")
    assert "任务 一" in lab.muster("queue", "--all").stdout
    assert lab.muster("logs", str(task_id)).stdout.startswith(f"在 {folder}")
    [found] = json.loads(lab.muster("queue", "--all", "--json", "--search", "任务 一").stdout)
    assert found["id"] == task_id


def test_a_command_that_does_not_exist_says_so(lab: Lab8) -> None:
    task = lab.ended(lab.submit("--", "no-such-程序", "x"))
    assert (task["state"], task["exit_code"]) == ("failed", 127)
    assert "not found" in (task["reason"] or "")
    assert "no-such-程序" in lab.muster("logs", str(task["id"])).stdout
    done = lab.muster("run", "--", "no-such-程序")
    assert done.returncode == 127
    assert "Traceback" not in done.stderr


def test_a_command_that_may_not_be_executed_says_so(lab: Lab8) -> None:
    path = lab.folder / "plain.txt"
    path.write_text("", encoding="utf-8")
    task = lab.ended(lab.submit("--", str(path)))
    assert (task["state"], task["exit_code"]) == ("failed", 126)


def test_an_environment_that_is_missing_is_named_where_people_look(lab: Lab8) -> None:
    for env in ("no-such-env", str(lab.folder / "no-such-venv")):
        task = lab.ended(lab.submit("--env", env, "--", "true"))
        assert task["state"] == "failed"
        why = Message("env_failed", code=task["exit_code"], env=env)
        assert reason_of(task) == why
        assert str(why) in lab.muster("why", str(task["id"])).stdout


def test_what_is_missing_is_told_when_it_is_submitted_and_the_task_is_queued_all_the_same(lab: Lab8) -> None:
    there = lab.folder / "there"
    there.mkdir()
    absent, long = str(lab.folder / "absent"), str(lab.folder / ("x" * 300))
    for words, told in (
        (["--env", "no-such-env"], str(Message("env_absent", env="no-such-env"))),
        (["--cwd", absent], str(Message("folder_absent", path=absent))),
        (["--env", f"{absent}/venv"], str(Message("env_absent", env=f"{absent}/venv"))),
        (["--cwd", long], str(Message("folder_absent", path=long))),
        (["--cwd", str(there)], ""),
    ):
        done = lab.muster_seen("submit", "--hold", *words, "--", "true")
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip().isdigit()
        assert (told in done.stderr) if told else done.stderr == "", words


def test_what_would_fail_at_its_start_is_noted_and_refused_where_that_is_asked_for(lab: Lab8) -> None:
    there = lab.folder / "preflight"
    there.mkdir()
    script = there / "go 去.sh"
    script.write_bytes(b"#!/bin/bash\r\ntrue\r\n")
    script.chmod(0o755)
    batch = there / "batch.txt"
    batch.write_text("true\npython3 none.py\n", encoding="utf-8")
    before = max(lab.tasks(), default=0)
    absent = str(Message("file_absent", path=f"{there}/none.py"))
    for words, told in (
        (["--", f"./{script.name}"], str(Message("interpreter_with_line_end", path=str(script)))),
        (["--", "python3", "none.py", "--lr", "1"], absent),
        (
            ["--array", "0-99", "--", "python3", "none.py", "{index}"],
            absent,
        ),
        (["--batch", str(batch)], absent),
        (["--gpus", "1", "--gpu-mem", "30g", "--", "true"], str(Message("gpu_memory_unknown", mib=30 * 1024))),
    ):
        where = ["--hold", "--cwd", str(there)]
        refused = lab.muster_seen("submit", "--strict", *where, *words)
        assert (refused.returncode, refused.stdout) == (1, ""), words
        assert refused.stderr.startswith("error: conflict: "), refused.stderr
        assert told in refused.stderr
        assert max(lab.tasks(), default=0) == before
        noted = lab.muster_seen("submit", *where, *words)
        assert noted.returncode == 0, noted.stderr
        assert noted.stderr.startswith("note: "), noted.stderr
        assert told in noted.stderr
        assert noted.stderr.count("\n") == 1
        before = max(lab.tasks())
    refused = lab.muster_seen("submit", "--dry-run", "--strict", "--cwd", str(there), "--", "./none.sh")
    assert (refused.returncode, refused.stdout) == (1, "")
    looked = lab.muster_seen("submit", "--dry-run", "--json", "--cwd", str(there), "--", "./none.sh")
    assert looked.returncode == 0
    [note] = json.loads(looked.stdout)["notes"]
    assert (note["key"], note["args"]) == ("file_absent", {"path": f"{there}/none.sh"})


def test_an_edit_that_names_what_is_not_there_says_so_and_any_other_says_nothing(lab: Lab8) -> None:
    task_id = str(lab.submit("--hold", "--", "true"))
    for change, told in (
        (f"cwd={lab.folder}/nowhere", str(Message("folder_absent", path=f"{lab.folder}/nowhere"))),
        ("name=x", ""),
        (f"cwd={lab.folder}", ""),
        ("command=./none.sh", str(Message("file_absent", path=f"{lab.folder}/none.sh"))),
    ):
        done = lab.muster_seen("edit", task_id, change)
        assert done.returncode == 0, done.stderr
        assert (told in done.stderr) if told else done.stderr == "", change


def test_a_node_that_is_named_is_asked_for_what_only_it_has(lab: Lab8, tmp_path: Path) -> None:
    own = tmp_path / "its own 'disk"
    own.mkdir()
    moved = own / "moved"
    moved.write_text(f"#!{own}/gone/python\n", encoding="utf-8")
    moved.chmod(0o755)
    gone = str(Message("interpreter_absent", path=str(moved), interpreter=f"{own}/gone/python".split()[0]))
    for words, told in (
        (["--cwd", "/no/such/folder", "--", "true"], str(Message("folder_absent", path="/no/such/folder"))),
        (
            ["--cwd", str(own), "--", "no-such-程序", "x"],
            str(Message("program_unknown", node="node0", name="no-such-程序")),
        ),
        (["--cwd", str(own), "--", "python3", "-u", "none.py"], str(Message("file_absent", path=f"{own}/none.py"))),
        (["--cwd", str(own), "--", "./moved"], gone),
        (["--gpus-on", "node0=0", "--cwd", str(own), "--", "./moved"], gone),
        (["--cwd", str(own), "--", "bash", "moved"], ""),
        (["--cwd", str(own), "--", "echo", "none.py"], ""),
    ):
        where = [] if "--gpus-on" in words else ["--node", "node0"]
        done = lab.muster_seen("submit", "--hold", *where, *words)
        assert done.returncode == 0, done.stderr
        assert (told in done.stderr) if told else done.stderr == "", (words, done.stderr)
        strict = lab.muster_seen("submit", "--hold", "--strict", *where, *words)
        assert strict.returncode == (1 if told else 0), strict.stderr
        if where:
            anywhere = lab.muster_seen("submit", "--hold", *words)
            assert anywhere.returncode == 0, anywhere.stderr
            # A folder is told where no node has it (tests/system/test_envs.py), a program of one node is not.
            assert anywhere.stderr == "" or "/no/such/folder" in words, (words, anywhere.stderr)


def test_in_what_two_tasks_differ_is_told_with_what_became_of_them(lab: Lab8) -> None:
    good = lab.submit("--var", "FLAVOUR=甜", "--", "sh", "-c", "exit 0")
    bad = lab.submit("--var", "FLAVOUR=\x1b[31m咸", "--", "sh", "-c", "exit 3")
    for task_id in (good, bad):
        lab.ended(task_id)
    done = lab.muster("diff", str(good), str(bad))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:3] == ["command:", f"  {good} sh -c 'exit 0'", f"  {bad} sh -c 'exit 3'"]
    assert lines[lines.index("exit code:") :][1:3] == [f"  {good} 0", f"  {bad} 3"]
    assert lines[lines.index("variables FLAVOUR:") + 1] == f"  {good} 甜"
    assert "\x1b" not in done.stdout
    told = json.loads(lab.muster("diff", str(good), str(bad), "--json").stdout)
    assert (told["id"], told["other"], told["hidden"]) == (good, bad, [])
    assert {"field": "state", "here": "succeeded", "there": "failed"} in told["fields"]
    assert lab.refused("diff", str(good)).code == "bad_request"


def test_a_folder_that_is_missing_when_the_task_starts_is_named(lab: Lab8) -> None:
    folder = lab.folder / "not yet"
    folder.mkdir()
    task_id = lab.submit("--hold", "--cwd", str(folder), "--", "true")
    folder.rmdir()
    lab.muster("release", str(task_id))
    task = lab.ended(task_id)
    assert task["state"] == "failed"
    assert str(folder) in (task["reason"] or "")
    assert "\n" not in (task["reason"] or "")
    folder.mkdir()
    assert lab.muster("retry", str(task_id)).returncode == 0
    assert lab.ended(task_id)["state"] == "succeeded"


def test_a_log_that_cannot_be_written_is_named(lab: Lab8) -> None:
    (lab.folder / "a file").write_text("", encoding="utf-8")
    task = lab.ended(lab.submit("--log", "a file/x.log", "--", "true"))
    assert task["state"] == "failed"
    assert "a file" in (task["reason"] or "")


def test_an_environment_that_does_not_exist_is_named_in_the_log(lab: Lab8) -> None:
    task = lab.ended(lab.submit("--env", "没有.这个", "--", "true"))
    assert task["state"] == "failed"
    assert "没有.这个 could not be activated" in lab.muster("logs", str(task["id"])).stdout


def test_the_largest_command_that_is_taken_can_also_be_run(lab: Lab8) -> None:
    word = "x" * 120_000
    done = lab.muster("run", "--", "bash", "-c", "echo ${#1} ${#2}", "-", word, word)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "120000 120000")


def test_a_batch_larger_than_what_a_stranger_may_send_is_taken_whole(lab: Lab8, tmp_path: Path) -> None:
    batch = tmp_path / "批.txt"
    lines = [f"true {number} # {'x' * 300}" for number in range(1000)]
    batch.write_text("# comment\n\n" + "\n".join(lines) + "\n", encoding="utf-8")
    done = lab.muster("submit", "--hold", "--batch", str(batch), "--json")
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)[0]["id"]
    assert lab.tasks()[first + 999]["command"] == lines[-1]
    done = lab.muster("cancel", f"{first}-{first + 999}")
    assert done.returncode == 0, done.stderr


def test_a_log_of_50_mb_is_read_whole_and_from_its_end(lab: Lab8, tmp_path: Path) -> None:
    # Any bytes: not text, with one line of 10 MB in it.
    data = random.Random(5).randbytes(40 << 20) + b"y" * (10 << 20) + "\n第一\n第二\n最后\n".encode()
    source = tmp_path / "data"
    source.write_bytes(data)
    task = lab.ended(lab.submit("--", "cat", str(source)))
    assert task["state"] == "succeeded"
    done = lab.muster_bytes("logs", str(task["id"]))
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(done.stdout[: len(data)]).digest() == hashlib.sha256(data).digest()
    assert b"Program Exit With Code 0" in done.stdout[len(data) :]
    tail = lab.muster("logs", "--tail", "4", str(task["id"]))
    assert tail.stdout.splitlines()[0] == "第二"
    assert lab.muster("logs", "--tail", "0", str(task["id"])).stdout == ""
