"""Starting and ending an agent: one per folder, private, reachable, bridged, and gone when nobody needs it."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import stat
import subprocess
from contextlib import ExitStack
from pathlib import Path

from monitor.agent.log import MAX_LOG, Log
from monitor.agent.main import USAGE
from monitor.agent.serve.bridge import MARKER
from monitor.agent.serve.connections import HELLO_S
from tests.agent.small_master import Link, Node, alive, descriptors
from tests.waiting import PATIENCE_S, until
from wire.agent import PROTOCOL

HELLO = b'{"op":"hello","protocol":1,"cluster":"c","epoch":1,"incarnation":"a","lineage":[[1,"a"]]}\n'


def attach(node: Node) -> subprocess.Popen[bytes]:
    command = [node.python, "-I", "-S", str(node.archive), "attach", "--state", str(node.state)]
    return subprocess.Popen(command, env=node.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_the_welcome_says_who_and_where(node: Node) -> None:
    welcome = node.up().welcome
    assert welcome["protocol"] == PROTOCOL
    assert welcome["version"] == node.version
    assert alive(welcome["pid"])
    assert len(welcome["state_id"]) == 16
    assert welcome["cpus"] == os.cpu_count()
    assert welcome["memory_mib"] > 0
    room = os.statvfs("/tmp")  # noqa: S108  (nothing is written there)
    assert welcome["tmp_disk_mib"] == room.f_blocks * room.f_frsize // (1 << 20)


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


def has_reached_it(process: subprocess.Popen[bytes]) -> bool:
    """Whether an `attach` found or started an agent."""
    assert process.stdout is not None
    return process.stdout.readline() == MARKER


def greet(process: subprocess.Popen[bytes]) -> bytes:
    """Say hello through an `attach`; the first line of the agent's."""
    assert has_reached_it(process)
    return hello(process)


def hello(process: subprocess.Popen[bytes]) -> bytes:
    """The same through one that has reached it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(HELLO)
    process.stdin.flush()
    return process.stdout.readline()


def attach_and_greet(node: Node) -> bytes:
    """The first line that comes back through `attach`."""
    with attach(node) as process:
        line = greet(process)
        assert process.stdin is not None
        assert process.stdout is not None
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
    for place in range(len(several)):
        # On a busy machine the agent of one listens late, and another one gives up: a master tries again.
        while not has_reached_it(several[place]):
            several[place].communicate()
            assert several[place].returncode == 1
            several[place] = attach(node)
    pids = [json.loads(hello(process))["pid"] for process in several]
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
            [node.python, str(node.archive), *words], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stderr) == (2, f"agent: {USAGE}\n")
    node.state = tmp_path / "file" / "state"
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = node.serve()
    assert done.returncode == 1
    assert done.stderr == f"agent: the state folder {node.state} cannot be used: Not a directory\n"


def test_an_idle_agent_ends_and_one_with_a_running_task_does_not(node: Node) -> None:
    link = node.up(MUSTER_AGENT_IDLE_S="8")  # in which we have to come
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
    sampler = sampler_of(node, link)
    os.kill(sampler, signal.SIGKILL)
    fresh = until("another one", lambda: [pid for pid in node.children(link) if pid != sampler and samples(pid)])
    link.close()
    until("no sampling without a master", lambda: not alive(fresh[0]))


def test_the_sampler_ends_with_its_agent(node: Node) -> None:
    """Also where some other process still holds the pipe that the sampler watches."""
    link = node.up()
    sampler = sampler_of(node, link)
    pipe = os.open(f"/proc/{sampler}/fd/{output_of(sampler)}", os.O_RDONLY | os.O_NONBLOCK)
    try:
        node.kill_agent(link)
        until("the sampler's end", lambda: not alive(sampler))
    finally:
        os.close(pipe)


def test_whoever_says_nothing_or_no_hello_is_given_up_and_the_master_stays(node: Node) -> None:
    link = node.up()
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as talking:
        for stranger in (silent, talking):
            stranger.connect(str(node.state / "agent.sock"))
            stranger.sendall(b'{"op":"hel')
            stranger.settimeout(0)

        def is_cut_off() -> bool:
            """Whether the one who talks is, who never makes a pause that would be taken for silence."""
            try:
                talking.send(b"l")
                return talking.recv(10) == b""
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError):
                return True

        until("who talks on is given up", is_cut_off, HELLO_S + PATIENCE_S)
        silent.settimeout(PATIENCE_S)
        assert silent.recv(10) == b""
    link.ping()


def test_without_descriptors_the_agent_neither_spins_nor_forgets_its_master(node: Node) -> None:
    link = node.up()
    pid = link.welcome["pid"]
    few = len(list(Path(f"/proc/{pid}/fd").iterdir())) + 4
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, most))
    log = node.state / "agent.log"
    with ExitStack() as strangers:
        for _ in range(20):
            strangers.enter_context(socket.socket(socket.AF_UNIX)).connect(str(node.state / "agent.sock"))
        until(
            "the refusal in the log",
            lambda: "a connection was not accepted: Too many open files" in log.read_text(encoding="utf-8"),
        )
        link.ping()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
    assert node.link().welcome["pid"] == pid
    assert log.read_text(encoding="utf-8").count("not accepted") < 10


def test_attach_ends_when_the_agent_ends(node: Node) -> None:
    with attach(node) as process:
        pid = json.loads(greet(process))["pid"]
        os.kill(pid, signal.SIGKILL)
        assert process.wait(timeout=60) == 0


def test_attach_outlives_a_hang_up_until_its_input_ends(node: Node) -> None:
    with attach(node) as process:
        welcome = json.loads(greet(process))
        node.agents.append(welcome["pid"])
        os.kill(process.pid, signal.SIGHUP)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"op":"ping"}\n')
        process.stdin.flush()
        assert any(b'"pong"' in line for line in process.stdout)
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_the_agent_that_attach_started_keeps_nothing_of_its_channel_open(node: Node) -> None:
    """Else sshd would wait for it before it closes the session."""
    extra, inherited = os.pipe()
    command = [node.python, "-I", "-S", str(node.archive), "attach", "--state", str(node.state)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=node.env, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=(inherited,), start_new_session=True
    ) as process:
        os.close(inherited)
        pid = json.loads(greet(process))["pid"]
        node.agents.append(pid)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read()
        assert process.stderr.read() == b""
    assert os.read(extra, 1) == b""
    os.close(extra)
    assert alive(pid)
    assert node.link().welcome["pid"] == pid


def sampler_of(node: Node, link: Link) -> int:
    return int(until("the sampler", lambda: [pid for pid in node.children(link) if samples(pid)])[0])


def samples(pid: int) -> bool:
    """Only the sampler stays in its agent's session: a spare and the shims have sessions of their own."""
    try:
        return os.getsid(pid) != pid
    except ProcessLookupError:
        return False


def output_of(sampler: int) -> str:
    """The one pipe of a sampler, once it gave up what it had of its agent."""

    def pipes() -> list[str]:
        return [number for number, target in descriptors(sampler).items() if target.startswith("pipe:")]

    until("nothing but its own pipe", lambda: len(pipes()) == 1)
    return pipes()[0]
