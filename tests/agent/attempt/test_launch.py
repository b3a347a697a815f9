"""A command is started as it stands, in its folder, with its environment and its log, and its end is told."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest

from monitor.agent.attempt import blame
from tests.agent.small_master import Node, known
from tests.cases import each_case
from tests.waiting import until


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 3", 3), ("kill -9 $$", 137), ("exit 255", 255)])
def test_the_exit_code_is_what_bash_would_say(node: Node, command: str, code: int) -> None:
    end = node.run(node.up(), "t1", command)
    assert (end["code"], end["cause"], end["error"]) == (code, "exited", "")


def test_started_is_told_with_pid_and_time_before_the_exit(node: Node) -> None:
    link = node.up()
    before = time.time()
    node.launch(link, "t1", "echo $$")
    started = link.read()
    assert started["op"] == "started"
    assert before - 1 < started["at"] < time.time() + 1
    end = link.wait_for("exit", "t1")
    assert end["started_at"] == started["at"] <= end["at"]
    assert node.text("t1").startswith(f"{started['pid']}\n")


def test_words_arrive_as_they_are(node: Node) -> None:
    words = ["/usr/bin/printf", "%s\\n", "a b", "'", '"', "$HOME", "`id`", "\\", "训练 模型", "*", ""]
    assert node.run(node.up(), "t1", words)["code"] == 0
    assert node.text("t1") == "\n".join(words[2:]) + "\n\nProgram Exit With Code 0\n"


def test_chinese_folder_log_and_variable(node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "数据 集"
    folder.mkdir()
    log = tmp_path / "日志" / "任务 一.log"
    end = node.run(
        node.up(), "t1", 'pwd; echo "$名"; echo "$V"', cwd=str(folder), log_path=str(log), env={"V": "值'\""}
    )
    assert end["code"] == 0
    assert log.read_text(encoding="utf-8").splitlines()[0] == str(folder)
    assert "值'\"" in log.read_text(encoding="utf-8")


def test_the_variables_of_a_launch_are_laid_over_a_log_ins(node: Node) -> None:
    link = node.up(MUSTER_TASK_ID="of an outer task", COLOUR="red", SHAPE="round")
    node.run(link, "t1", "env", env={"COLOUR": "blue"})
    lines = node.text("t1").splitlines()
    assert {"COLOUR=blue", f"MUSTER_LAUNCH_ID={known('t1')}"} <= set(lines)
    told = ("MUSTER_TASK_ID", "MUSTER_AGENT", "SHAPE")
    assert not [line for line in lines if line.startswith(told)]


def test_the_command_has_a_session_of_its_own_no_input_and_default_signals(node: Node) -> None:
    script = "import os,signal,sys; print(os.getsid(0)==os.getpid(), sys.stdin.read()=='', os.listdir('/proc/self/fd'))"
    node.run(node.up(), "t1", [node.python, "-I", "-S", "-c", script])
    session, no_input, descriptors = node.text("t1").split(maxsplit=2)
    assert (session, no_input) == ("True", "True")
    assert "'4'" not in descriptors  # 0 to 2, and 3 is the listing itself
    node.run(node.links[0], "t2", "grep -E 'Sig(Blk|Ign)' /proc/self/status")
    masks = [int(line.split()[1], 16) for line in node.text("t2").splitlines()[:2]]
    # Signals 32 and 33 are the C library's own: whoever started the tests may have had them ignored, and no program
    # can change that through it.
    assert [mask & ~(0b11 << 31) for mask in masks] == [0, 0]


def test_no_name_forges_a_line_of_the_agents_log_or_acts_on_the_terminal_of_who_reads_it(
    node: Node, tmp_path: Path
) -> None:
    folder = tmp_path / "logs\n2026-01-01 00:00:00 all is well \x1b[2J\u202e\x9b"
    folder.mkdir()
    (folder / "1.log").symlink_to("/dev/full")
    end = node.run(node.up(), "t1", "true", log_path=str(folder / "1.log"))
    assert (end["cause"], end["code"]) == ("exited", 0)
    # The report may come before the shim has complained of a log that takes nothing.
    lines = until("a complaint", lambda: [line for line in log_of(node).split("\n") if "the last line of" in line])
    assert "logs\\n2026-01-01 00:00:00 all is well \\x1b[2J\\u202e\\x9b" in lines[0]
    assert all(line.isprintable() for line in log_of(node).split("\n"))


def log_of(node: Node) -> str:
    return (node.state / "agent.log").read_text(encoding="utf-8")


ANOTHER_FOLDER = "submit from a folder that the nodes share, or name one with --cwd"


CANNOT_START: list[tuple[dict[str, object], str]] = [
    ({"cwd": "/no/such/folder"}, f"the folder /no/such/folder does not exist on HOST: {ANOTHER_FOLDER}"),
    ({"cwd": "/bin/bash"}, "/bin/bash is not a folder on HOST"),
    ({"argv": ["/no/such/python"]}, "the program /no/such/python does not exist on HOST"),
    ({"argv": ["no-such-program"]}, "the program no-such-program does not exist on HOST"),
    ({"argv": ["/etc/passwd"]}, "/etc/passwd cannot be run on HOST: Permission denied"),
    ({"log_path": "/proc/no/log"}, "the log /proc/no/log cannot be opened on HOST: No such file or directory"),
    ({"argv": ["/bin/true", "a\0b"]}, "/bin/true cannot be run on HOST: embedded null byte"),
    ({"argv": []}, "argv is not a list of words"),
    ({"env": {"A": 1}}, "env is not an object of strings"),
    ({"time_limit_s": "1h"}, "time_limit_s is not a number"),
]


def test_what_cannot_start_says_why(node: Node) -> None:
    link = node.up()
    with each_case() as cases:
        for at, (keys, said) in enumerate(CANNOT_START):
            with cases.case(said):
                end = node.run(link, f"t{at}", "true", **keys)
                assert (end["code"], end["cause"], end["started_at"]) == (None, "not_started", None)
                assert end["error"] == said.replace("HOST", socket.gethostname())
                assert end["fault"] == "task"


OF_THE_LAB: list[tuple[list[str], dict[str, str], str]] = [
    (["lab/data"], {"cwd": "lab/data/mine"}, "task"),
    (["lab"], {"cwd": "lab/mine"}, "node"),  # an empty mount point
    ([], {"cwd": "lab/mine"}, "node"),
    ([], {"log_path": "lab/logs/1.log"}, "node"),
    (["lab/data/1.log"], {"log_path": "lab/data/1.log"}, "task"),
    ([], {"cwd": "elsewhere"}, "task"),
    (["lab/data"], {"log_path": "/proc/self/no.log"}, "task"),
]


def test_a_folder_of_the_whole_lab_that_is_gone_is_the_nodes_fault_and_any_other_the_tasks(
    node: Node, tmp_path: Path
) -> None:
    link = node.up()
    with each_case() as cases:
        for at, (there, keys, fault) in enumerate(OF_THE_LAB):
            with cases.case(f"{keys} with {there}"):
                own = tmp_path / f"of {at}"
                own.mkdir()
                for folder in there:
                    (own / folder).mkdir(parents=True)
                places = {key: str(own / place) for key, place in keys.items()}
                end = node.run(link, f"t{at}", "true", roots=[str(own / "lab"), str(own / "lab/logs")], **places)
                assert (end["cause"], end["fault"]) == ("not_started", fault)
                assert (own / "lab").exists() == bool(there), "nothing is made where a file system should be mounted"


def test_a_disk_that_a_user_mounted_beneath_a_root_and_that_is_full_is_not_the_nodes_fault(tmp_path: Path) -> None:
    root, mine = tmp_path / "lab", tmp_path / "lab/mine"
    mine.mkdir(parents=True)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert blame.of_log(full, str(mine / "1.log"), [str(root)]) == "node"
    assert blame.of_log(full, "/dev/shm/1.log", [str(root)]) == "task"  # noqa: S108  (a disk of its own, and no root)
    assert blame.of_log(full, "/proc/1.log", ["/"]) == "task"
    for number in (errno.EROFS, errno.EDQUOT, errno.EIO):
        assert blame.of_log(OSError(number, os.strerror(number)), str(mine / "1.log"), [str(root)]) == "node"
    dead = OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
    assert blame.of_log(dead, str(mine / "dead"), [str(root)]) == "task"
    assert blame.of_log(dead, str(tmp_path / "gone/x"), [str(tmp_path / "gone")]) == "node"


def test_a_script_whose_interpreter_is_missing_says_so(node: Node, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("#!/no/such/python\n", encoding="utf-8")
    script.chmod(0o755)
    end = node.run(node.up(), "t1", [str(script)])
    assert end["error"] == f"{script} cannot be run on {socket.gethostname()}: its interpreter does not exist"


def test_a_launch_id_that_could_lead_out_is_refused(node: Node) -> None:
    link = node.up()
    with each_case() as cases:
        for launch_id in ("../x", ".hidden", "a/b", "", "x" * 65, "a\nb"):
            with cases.case(repr(launch_id)):
                assert node.run(link, launch_id, "true")["cause"] == "not_started"
                assert list((node.state / "attempts").iterdir()) == []


def test_the_log_is_live_and_ends_with_the_exit_code(node: Node) -> None:
    link = node.up()
    node.launch(link, "t1", "echo epoch 1; read -t 60 <> <(:); exit 4")
    until("the first line while it runs", lambda: node.text("t1") == "epoch 1\n")
    os.kill(link.wait_for("started", "t1")["pid"], signal.SIGTERM)
    assert link.wait_for("exit", "t1")["code"] == 143
    assert node.text("t1") == "epoch 1\n\nProgram Exit With Code 143\n"


def test_a_log_is_appended_to(node: Node) -> None:
    link = node.up()
    node.logs.mkdir()
    node.log("t1").write_text("before\n", encoding="utf-8")
    node.run(link, "t1", "echo now")
    assert node.text("t1") == "before\nnow\n\nProgram Exit With Code 0\n"


def test_what_an_earlier_life_left_is_moved_aside_and_that_is_said(node: Node) -> None:
    node.logs.mkdir()
    log, link = node.log("t1"), node.up()
    log.write_text("of an earlier life\n", encoding="utf-8")
    assert node.run(link, "t1", "echo ours; umask", log_new=True)["code"] == 0
    lines = log.read_text(encoding="utf-8").splitlines()
    assert lines[:2] == [f"muster: a log of an earlier task lay here; it is {log}.earlier now", "ours"]
    assert log.with_name("t1.log.earlier").read_text(encoding="utf-8") == "of an earlier life\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o640
    node.log("t2").symlink_to(node.state / "target")
    (node.state / "target").write_text("somebody's\n", encoding="utf-8")
    node.log("t2").with_name("t2.log.earlier").touch()
    node.run(link, "t2", "echo ours", log_new=True)
    assert (node.state / "target").read_text(encoding="utf-8") == "somebody's\n"
    assert node.log("t2").with_name("t2.log.earlier2").is_symlink()


def test_an_empty_log_is_used_and_one_that_is_new_needs_no_word(node: Node) -> None:
    node.logs.mkdir()
    node.log("t1").touch(mode=0o644)
    link = node.up()
    for name in ("t1", "t2"):
        node.run(link, name, "echo ours", log_new=True)
        assert node.text(name).startswith("ours\n")
        assert stat.S_IMODE(node.log(name).stat().st_mode) == 0o640
    assert sorted(path.name for path in node.logs.iterdir()) == ["t1.log", "t2.log"]


def test_fifty_megabytes_of_log(node: Node) -> None:
    link = node.up()
    assert node.run(link, "t1", "head -c 52428800 /dev/zero")["code"] == 0
    assert node.log("t1").stat().st_size == 52428800 + len("\nProgram Exit With Code 0\n")


def test_a_log_that_hangs_delays_neither_the_loop_nor_the_exit(node: Node, tmp_path: Path) -> None:
    """The log is a pipe that nobody reads: its opening blocks for ever, as on a dead file server."""
    link = node.up()
    pipe = tmp_path / "hung.log"
    os.mkfifo(pipe)
    node.launch(link, "hung", "true", log_path=str(pipe))
    link.ping()
    assert node.run(link, "t2", "true")["code"] == 0
    link.kill("hung", grace_s=0.1)
    assert link.wait_for("exit", "hung")["cause"] == "killed"


def test_the_time_limit_ends_the_whole_tree(node: Node) -> None:
    link = node.up()
    end = node.run(link, "t1", "sleep 1000 & sleep 1000", time_limit_s=0.3)
    assert (end["code"], end["cause"]) == (143, "timed_out")
    assert node.carriers("t1") == []


def test_the_time_limit_holds_while_no_agent_lives(node: Node) -> None:
    link = node.up()
    node.launch(link, "t1", "sleep 1000", time_limit_s=1.0)
    link.wait_for("started", "t1")
    node.kill_agent(link)
    until("the end of the tree", lambda: not node.carriers("t1"))
    end = node.up().wait_for("exit", "t1")
    assert end["cause"] == "timed_out"


def test_a_second_launch_is_answered_with_what_is_there(node: Node, tmp_path: Path) -> None:
    link = node.up()
    command = f"echo start >> {tmp_path}/starts; sleep 1000"
    node.launch(link, "t1", command)
    first = link.wait_for("started", "t1")
    node.launch(link, "t1", command)
    assert link.wait_for("started", "t1") == first
    link.kill("t1")
    end = link.wait_for("exit", "t1")
    node.launch(link, "t1", command)
    assert link.wait_for("exit", "t1") == end
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "start\n"


def test_the_exit_is_kept_until_it_is_acknowledged_and_then_forgotten(node: Node) -> None:
    link = node.up()
    end = node.run(link, "t1", "exit 7")
    record = (node.claim("t1") / "record").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["is"] for line in record] == ["claim", "start", "exit"]
    again = node.link()
    assert again.inventory["t1"]["code"] == 7
    assert again.wait_for("exit", "t1") == end
    again.ack("t1", "unknown")
    again.ping()
    assert not node.claim("t1").exists()
    assert node.link().inventory == {}


def test_an_ack_of_what_still_runs_is_ignored(node: Node) -> None:
    link = node.up()
    node.launch(link, "t1", "sleep 1000")
    link.wait_for("started", "t1")
    link.ack("t1")
    assert node.link().inventory["t1"]["state"] == "running"


def test_a_claim_that_the_disk_refuses_is_told_and_kept_until_the_ack(node: Node) -> None:
    """A folder that is a file refuses everybody, also root."""
    link = node.up()
    (node.state / "attempts").rmdir()
    (node.state / "attempts").write_text("", encoding="utf-8")
    end = node.run(link, "t1", "true")
    assert (end["cause"], end["fault"]) == ("not_started", "node")
    assert "cannot be recorded" in end["error"]
    assert "Not a directory" in end["error"]
    again = node.link()
    assert again.inventory["t1"]["cause"] == "not_started"
    again.ack("t1")
    again.ping()
    assert node.link().inventory == {}


def test_many_at_once(node: Node) -> None:
    link = node.up()
    names = [f"t{number}" for number in range(100)]
    for number, name in enumerate(names):
        node.launch(link, name, f"exit {number}")
    ends: dict[str, int] = {}
    while len(ends) < len(names):
        message = link.read()
        if message["op"] == "exit":
            ends[message["launch_id"]] = message["code"]
    assert ends == {name: number for number, name in enumerate(names)}
    link.ack(*names)
    link.ping()
    assert list((node.state / "attempts").iterdir()) == []
    until("nothing but the sampler and a spare", lambda: len(node.children(link)) <= 2)
