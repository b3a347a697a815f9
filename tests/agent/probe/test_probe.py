"""Questions about the node: answered whatever they run into, bounded, and leaving nothing behind."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor.agent import tree
from monitor.agent.probe import probe as probe_module
from monitor.agent.probe.probe import Probe
from monitor.agent.probe.probes import MAX_PROBES
from tests.agent.small_master import Link, Node, alive
from tests.cases import each_case
from tests.waiting import until
from wire.framing import strict_loads

DAEMON = """
import os, sys
standing, stands = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1], "w") as file:
            file.write(str(os.getpid()))
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"], {})
    os._exit(0)
os.close(stands)
os.wait()
os.read(standing, 1)
"""
"""Ends when what it leaves behind stands; before, that might be killed when it has not said its pid yet."""


def bash(link: Link, script: str, **keys: object) -> dict[str, object]:
    return link.probe(["/bin/bash", "-c", script], **keys)


def pid_in(path: Path) -> int:
    def text() -> str:
        return path.read_text(encoding="ascii").strip() if path.exists() else ""

    return int(until(str(path), text))


def test_it_says_what_the_command_printed_and_how_it_ended(node: Node) -> None:
    answer = bash(node.up(), "echo out; echo 错 >&2; exit 3")
    assert answer == {
        "op": "probed", "probe_id": "p", "code": 3, "output": "out\n错\n", "truncated": False, "error": "",
    }  # fmt: skip


def test_input_folder_and_environment_are_those_asked_for(node: Node, tmp_path: Path) -> None:
    link = node.up(MUSTER_TASK_ID="outer", COLOUR="red", SHAPE="round")
    answer = bash(link, "cat; pwd; env", stdin="问题\n", cwd=str(tmp_path), env={"COLOUR": "blue"})
    lines = str(answer["output"]).splitlines()
    assert lines[:2] == ["问题", str(tmp_path)]
    assert "COLOUR=blue" in lines
    assert not [line for line in lines if line.startswith("MUSTER_")]


def test_much_input_and_much_output_at_once(node: Node) -> None:
    text = "x" * 999 + "\n"
    answer = node.up().probe(["/bin/cat"], stdin=text * 400, output_limit=400_000)
    assert (answer["output"], answer["truncated"], answer["code"]) == (text * 400, False, 0)


def test_input_that_nobody_reads_is_no_fault(node: Node) -> None:
    assert bash(node.up(), "exit 0", stdin="x" * 1_000_000)["code"] == 0


def test_the_head_of_long_output_is_kept_and_the_command_goes_on(node: Node) -> None:
    answer = bash(node.up(), "echo 开始; head -c 5000000 /dev/zero; exit 4", output_limit=1000)
    assert answer["code"] == 4
    assert answer["truncated"] is True
    assert answer["output"] == "开始\n" + "\0" * (1000 - 7)


def test_no_limit_lifts_the_agents_own_and_no_character_is_cut_in_two(node: Node) -> None:
    answer = bash(node.up(), "yes 训练 | head -c 4000000", output_limit=1 << 40)
    output = str(answer["output"])
    assert answer["truncated"] is True
    assert probe_module.MAX_OUTPUT - 3 < len(output.encode()) <= probe_module.MAX_OUTPUT
    assert "\ufffd" not in output


def test_bytes_that_are_not_text_are_replaced(node: Node) -> None:
    assert bash(node.up(), r"printf 'a\xffb'")["output"] == "a\ufffdb"


CANNOT_BE_ASKED: list[tuple[dict[str, Any], str]] = [
    ({"argv": ["/no/such/python"]}, "/no/such/python: No such file or directory"),
    ({"argv": ["no-such-program"]}, "no-such-program: No such file or directory"),
    ({"argv": ["/etc/passwd"]}, "/etc/passwd: Permission denied"),
    ({"argv": ["/bin/true", "a\0b"]}, "/bin/true: embedded null byte"),
    ({"cwd": "/no/such/folder"}, "/no/such/folder: No such file or directory"),
    ({"cwd": "/etc/passwd"}, "/etc/passwd: Not a directory"),
    ({"argv": []}, "argv is not a list of words"),
    ({"env": {"A": 1}}, "env is not an object of strings"),
    ({"cwd": 5}, "cwd is not a folder's name"),
    ({"stdin": None}, "stdin is not text"),
    ({"timeout_s": "soon"}, "timeout_s is not a positive number"),
    ({"timeout_s": 0}, "timeout_s is not a positive number"),
    ({"output_limit": -1}, "output_limit is not a number of bytes"),
]


def test_what_cannot_be_asked_says_why(node: Node) -> None:
    link = node.up()
    with each_case() as cases:
        for keys, said in CANNOT_BE_ASKED:
            with cases.case(f"{keys}"):
                answer = link.probe(**{"argv": ["/bin/true"], **keys})
                assert (answer["error"], answer["code"], answer["output"]) == (said, None, "")


def test_when_its_time_is_over_the_whole_tree_is_killed_and_what_it_said_is_kept(node: Node, tmp_path: Path) -> None:
    """Also what made itself a daemon and hid from session and environment."""
    link = node.up()
    daemon = shlex.join([node.python, "-I", "-S", "-c", DAEMON, str(tmp_path / "daemon")])
    script = f"trap '' TERM; echo so far; {daemon}; sleep 1000 & sleep 1000"
    link.ask("p", ["/bin/bash", "-c", script], timeout_s=15)
    pid = pid_in(tmp_path / "daemon")
    answer = link.answer("p")
    assert (answer["code"], answer["output"], answer["error"]) == (None, "so far\n", "timed out after 15 s")
    assert not alive(pid)
    assert [pid for pid in node.children(link) if b"sleep" in command_line(pid)] == []


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_what_a_command_leaves_behind_is_ended_and_delays_the_answer_little(node: Node, tmp_path: Path) -> None:
    link = node.up()
    # Would it wait for what was left behind, the answer would not come within the patience of the small master.
    answer = link.probe([node.python, "-I", "-S", "-c", DAEMON, str(tmp_path / "daemon")], timeout_s=600)
    assert (answer["code"], answer["error"]) == (0, "")
    assert not alive(pid_in(tmp_path / "daemon"))


def test_several_run_at_once_and_launches_do_not_wait_for_them(node: Node, tmp_path: Path) -> None:
    link = node.up()
    gate = tmp_path / "gate"
    for number in range(MAX_PROBES):
        link.ask(f"p{number}", ["/bin/bash", "-c", f"until [ -e {gate} ]; do sleep 0.05; done; echo {number}"])
    link.ask("one more", ["/bin/true"])
    assert "24 probes run on this node already" in link.answer("one more")["error"]
    assert node.run(link, "t1", "exit 3")["code"] == 3
    gate.touch()
    answers = {message["probe_id"]: message for message in (link.read() for _ in range(MAX_PROBES))}
    assert {name: answer["output"] for name, answer in answers.items()} == {
        f"p{number}": f"{number}\n" for number in range(MAX_PROBES)
    }
    assert link.probe(["/bin/true"])["code"] == 0


@pytest.mark.parametrize("how", ["it closes", "another takes its place", "the agent is killed", "the agent retires"])
def test_it_dies_with_the_connection_that_asked(node: Node, tmp_path: Path, how: str) -> None:
    link = node.up()
    script = f"trap '' TERM HUP; echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done"
    link.ask("p", ["/bin/bash", "-c", script], timeout_s=1000.0)
    pid = pid_in(tmp_path / "pid")
    ends: dict[str, Callable[[], object]] = {
        "it closes": link.close,
        "another takes its place": node.link,
        "the agent is killed": lambda: node.kill_agent(link),
        "the agent retires": link.retire,
    }
    ends[how]()
    until("the probe's end", lambda: not alive(pid))


def test_its_fork_killed_or_frozen_is_answered_too(node: Node, tmp_path: Path) -> None:
    link = node.up()
    script = f"echo $PPID > {tmp_path}/PID; mv {tmp_path}/PID {tmp_path}/$0; sleep 1000"
    link.ask("killed", ["/bin/bash", "-c", script, "killed"])
    os.kill(pid_in(tmp_path / "killed"), signal.SIGKILL)
    assert link.answer("killed")["error"] == "the process that ran the probe was killed"
    link.ask("frozen", ["/bin/bash", "-c", script, "frozen"], timeout_s=10.0)
    os.kill(pid_in(tmp_path / "frozen"), signal.SIGSTOP)
    assert link.answer("frozen")["error"] == "timed out after 10 s"
    until("nothing but the sampler and a spare", lambda: len(node.children(link)) <= 2)


def test_nothing_of_the_agent_is_open_in_it(node: Node) -> None:
    script = "import os; print(os.getsid(0) == os.getpid(), sorted(os.listdir('/proc/self/fd')))"
    answer = node.up().probe([node.python, "-I", "-S", "-c", script])
    assert answer["output"] == "True ['0', '1', '2', '3']\n"  # 3 is the listing itself


def test_nothing_of_it_is_durable_and_nothing_is_taken_for_an_attempt(node: Node) -> None:
    link = node.up()
    bash(link, "echo $$")
    assert list((node.state / "attempts").iterdir()) == []
    assert node.link().inventory == {}


def test_what_cannot_even_be_killed_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that waits for a dead file server. Here the killing is what does not work."""
    monkeypatch.setattr(tree, "send", lambda _processes, _number: None)
    monkeypatch.setattr(probe_module, "GIVE_UP_S", 0.2)
    answer = answer_of(["/bin/sleep", "1000"], timeout_s=0.1)
    assert answer["error"] == "timed out after 0.1 s"


def test_what_a_command_printed_that_is_over_at_once_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    fork = os.fork

    def slow() -> int:
        """The command has ended before anybody looks at it."""
        pid = fork()
        if pid:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return pid

    answer = answer_of(["/bin/echo", "quick"], before=lambda: monkeypatch.setattr(os, "fork", slow))
    assert (answer["code"], answer["output"], answer["error"]) == (0, "quick\n", "")


def answer_of(argv: list[str], timeout_s: float = 60.0, before: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """What the fork says that stands over a probe, made here. `before`: what it does first."""
    read, write = os.pipe()
    message: dict[str, Any] = {"probe_id": "p", "argv": argv, "cwd": None, "env": {}, "stdin": ""}
    pid = os.fork()
    if pid == 0:
        os.close(read)
        before()
        Probe({**message, "timeout_s": timeout_s, "output_limit": 100}, write, {}).run()
        os._exit(0)  # which ends the command: it dies with its parent
    os.close(write)
    answer: dict[str, Any] = strict_loads(os.read(read, 65536))
    os.close(read)
    os.waitpid(pid, 0)
    return answer
