"""Starting and ending an agent: one per folder, private, reachable, bridged, and gone when nobody needs it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

from monitor.agent.daemon import MAX_LOG, Log

from .small_master import Node, alive, eventually

HELLO = b'{"op":"hello","protocol":1,"cluster":"c","epoch":1,"incarnation":"a","lineage":[[1,"a"]]}\n'


def attach(node: Node) -> subprocess.Popen[bytes]:
    command = [node.python, "-I", "-S", str(node.archive), "attach", "--state", str(node.state)]
    return subprocess.Popen(command, env=node.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_the_welcome_says_who_and_where(node: Node) -> None:
    welcome = node.up().welcome
    assert welcome["protocol"] == 1
    assert f"agent-{welcome['version']}.pyz" == node.archive.name
    assert alive(welcome["pid"])
    assert len(welcome["state_id"]) == 16
    assert welcome["cpus"] == os.cpu_count()
    assert welcome["memory_mib"] > 0


def test_the_state_folder_is_private_and_keeps_its_id(node: Node) -> None:
    link = node.up()
    assert stat.S_IMODE(node.state.stat().st_mode) == 0o700
    node.kill_agent(link)
    assert node.up().welcome["state_id"] == link.welcome["state_id"]


def test_the_daemon_has_a_session_of_its_own(node: Node) -> None:
    pid = node.up().welcome["pid"]
    assert os.getsid(pid) not in (os.getsid(0), 0)
    assert str(Path(f"/proc/{pid}/fd/0").readlink()) == os.devnull
    assert Path(f"/proc/{pid}/fd/2").readlink() == node.state / "agent.log"


def test_a_second_agent_on_the_folder_is_refused_with_one_line(node: Node) -> None:
    link = node.up()
    done = node.serve()
    assert done.returncode == 1
    assert done.stderr == f"agent: an agent (pid {link.welcome['pid']}) already serves {node.state}\n"
    assert node.run(link, "t1", "exit 1")["code"] == 1


def test_a_long_path_still_has_a_socket(node: Node, tmp_path: Path) -> None:
    node.state = tmp_path / ("long-" * 30) / ("状态" * 20)
    link = node.up()
    assert node.run(link, "t1", "exit 1")["code"] == 1
    assert b"refused" not in attach_and_greet(node)


def attach_and_greet(node: Node) -> bytes:
    """The first line that comes back through `attach`."""
    with attach(node) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(HELLO)
        process.stdin.flush()
        line = process.stdout.readline()
        process.stdin.close()
        process.stdout.read()
    assert process.returncode == 0
    return line


def test_attach_starts_an_agent_where_there_is_none_and_ends_with_its_input(node: Node) -> None:
    welcome = json.loads(attach_and_greet(node))
    assert welcome["op"] == "welcome"
    again = json.loads(attach_and_greet(node))
    assert again["pid"] == welcome["pid"]
    node.agents.append(welcome["pid"])


def test_several_attach_at_once_share_one_agent(node: Node) -> None:
    several = [attach(node) for _ in range(4)]
    pids = []
    for process in several:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(HELLO)
        process.stdin.flush()
        pids.append(json.loads(process.stdout.readline())["pid"])
    for process in several:
        process.communicate()
    assert len(set(pids)) == 1
    node.agents.append(pids[0])


def test_attach_says_why_no_agent_starts(node: Node) -> None:
    node.state.mkdir()
    (node.state / "state_id").mkdir()
    command = [node.python, "-I", "-S", str(node.archive), "attach", "--state", str(node.state)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "Is a directory" in done.stderr


def test_wrong_words_give_one_line(node: Node, tmp_path: Path) -> None:
    for words in ([], ["serve"], ["fly", "--state", "x"]):
        done = subprocess.run(
            [node.python, str(node.archive), *words], capture_output=True, text=True, check=False, timeout=30
        )
        assert (done.returncode, done.stderr) == (2, "agent: usage: agent (serve | attach) --state DIR\n")
    node.state = tmp_path / "file" / "state"
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = node.serve()
    assert done.returncode == 1
    assert done.stderr == f"agent: the state folder {node.state} cannot be used: Not a directory\n"


def test_an_idle_agent_ends_and_one_with_a_running_task_does_not(node: Node) -> None:
    link = node.up(MUSTER_AGENT_IDLE_S="0.3")
    node.launch(link, "t1", "sleep 1000")
    link.wait_for("started", "t1")
    link.close()
    again = node.link()
    again.kill("t1")
    again.wait_for("exit", "t1")
    again.close()
    node.wait_agent_gone(again)
    assert node.up().inventory["t1"]["code"] == 143


def test_the_agents_own_log_is_rotated(tmp_path: Path) -> None:
    """In a child, because the log is descriptor 2."""
    path = tmp_path / "agent.log"
    pid = os.fork()
    if pid == 0:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(fd, 2)
        log = Log(str(path))
        for _ in range(3):
            log.say("x" * (MAX_LOG // 2))
        os._exit(0)
    os.waitpid(pid, 0)
    assert (tmp_path / "agent.log.1").stat().st_size > MAX_LOG
    assert path.stat().st_size < MAX_LOG


def test_a_frozen_sampler_is_replaced_and_the_agent_goes_on(node: Node) -> None:
    link = node.up()
    agent = link.welcome["pid"]
    children = Path(f"/proc/{agent}/task/{agent}/children")
    sampler = int(eventually(lambda: children.read_text(encoding="ascii").split(), "the sampler")[0])
    os.kill(sampler, signal.SIGKILL)
    fresh = eventually(
        lambda: [pid for pid in children.read_text(encoding="ascii").split() if int(pid) != sampler], "another sampler"
    )
    assert alive(int(fresh[0]))
    link.close()
    eventually(lambda: not alive(int(fresh[0])), "no sampling without a master")
