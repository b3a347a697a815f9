"""`muster shell`: as a pipe and on a real terminal, over a real sshd and on this machine."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from master.drivers.host_keys import HostKeys
from tests.conftest import LabMaker, declared_node
from tests.master.drivers.real_sshd import PASSWORD, RealSshd, registry_entry
from tests.system.lab import ROOT
from tests.waiting import PATIENCE_S, until
from wire.message import Message


@pytest.fixture
def conf(server: RealSshd, make_lab: LabMaker) -> Path:
    """A lab whose node `far` is the server (by password), `near` is this machine."""
    far = registry_entry(server.node("far", key_file=None))
    path = make_lab([far, declared_node("near", gpus=0)])
    (path.parent / "psw").write_text(f"{PASSWORD}\n", encoding="utf-8")
    (path.parent / "psw").chmod(0o600)
    HostKeys(path.parent / "task_info" / "known_hosts").pin("127.0.0.1", server.port, server.host_key)
    return path


def command(conf: Path, node: str) -> list[str]:
    return [sys.executable, "-m", "muster", "shell", "--conf", str(conf), node]


def piped(conf: Path, node: str, text: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(conf, node),
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PATIENCE_S,
        cwd=ROOT,
        env={**os.environ, **env},
    )


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, words: list[str], rows: int = 24, columns: int = 80) -> None:
        self.seen = ""
        self._master, self.tty = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.tty)
        self.process = subprocess.Popen(
            words,
            stdin=self.tty,
            stdout=self.tty,
            stderr=self.tty,
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm"},
            preexec_fn=self._take,  # noqa: PLW1509  (the terminal has to be its own)
        )

    def _take(self) -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.tty, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, words: str) -> None:
        self.until(lambda: words in self.seen, words)
        self.seen = self.seen[self.seen.index(words) + len(words) :]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        until(what, condition, seen=lambda: self.seen, turn=self._read)

    def _read(self) -> None:
        if select.select([self._master], [], [], 0.05)[0]:
            self.seen += os.read(self._master, 65536).decode(errors="replace")

    def wait(self) -> int:
        """The exit status, when it has ended."""
        self.until(lambda: self.process.poll() is not None, "its end")
        return self.process.returncode

    @property
    def is_raw(self) -> bool:
        return not termios.tcgetattr(self.tty)[3] & termios.ICANON

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)
        os.close(self.tty)


@pytest.fixture
def terminal(conf: Path) -> Iterator[Terminal]:
    made = Terminal(command(conf, "far"))
    yield made
    made.close()


def test_without_a_terminal_it_is_a_pipe_with_the_shells_exit_code(conf: Path, server: RealSshd) -> None:
    done = piped(conf, "far", "echo here; echo there >&2; cd; pwd; exit 7\n")
    assert (done.returncode, done.stdout) == (7, f"here\n{server.home}\n")
    assert done.stderr == "there\n"


def test_a_lot_goes_through_the_pipe_and_the_end_of_stdin_ends_the_shell(conf: Path) -> None:
    done = piped(conf, "far", "wc -c\n" + "x" * 3_000_000)
    assert (done.returncode, done.stdout.strip()) == (0, "3000000")
    done = piped(conf, "far", "head -c 3000000 /dev/zero | tr '\\0' y\n")
    assert (done.returncode, done.stdout) == (0, "y" * 3_000_000)


def test_a_terminal_is_raw_has_its_size_and_is_as_before_afterwards(terminal: Terminal) -> None:
    terminal.type("stty size; tty; echo TERM=$TERM\n")
    terminal.expect("24 80")
    terminal.expect("/dev/pts/")
    terminal.expect("TERM=xterm")
    assert terminal.is_raw
    terminal.resize(50, 132)
    terminal.type("until stty size | grep -q '50 132'; do sleep 0.05; done; echo gr''own\n")
    terminal.expect("grown")
    terminal.type("PS1='next''> '; sed -u s/m.w/purr/\nmew\n")
    terminal.expect("purr\r\n")
    terminal.type("\x03")  # Ctrl-C is the other side's
    terminal.expect("next> ")
    terminal.type("exit 42\n")
    assert terminal.wait() == 42
    assert termios.tcgetattr(terminal.tty) == terminal.before


def test_the_terminal_is_as_before_when_the_connection_breaks(terminal: Terminal, server: RealSshd) -> None:
    terminal.type("echo $((6*7))\n")
    terminal.expect("42")
    server.end_connections()
    terminal.expect("the connection is lost")
    assert terminal.wait() == 255
    assert termios.tcgetattr(terminal.tty) == terminal.before


def test_the_terminal_is_as_before_when_the_shell_is_terminated(conf: Path) -> None:
    terminal = Terminal([sys.executable, "-m", "master", "--conf", str(conf), "shell", "far"])
    try:
        terminal.type("echo $((6*7))\n")
        terminal.expect("42")
        os.kill(terminal.process.pid, signal.SIGTERM)
        assert terminal.wait() == 128 + signal.SIGTERM
        assert termios.tcgetattr(terminal.tty) == terminal.before
    finally:
        terminal.close()


def test_this_machine_gives_the_users_own_shell(conf: Path) -> None:
    done = piped(conf, "near", "echo $0; exit 9\n", SHELL="/bin/sh")
    assert (done.returncode, done.stdout) == (9, "/bin/sh\n")


def test_what_is_in_the_way_is_one_line(conf: Path, server: RealSshd) -> None:
    def refusal(node: str) -> str:
        done = piped(conf, node, "")
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = done.stderr.splitlines()
        return line

    registry = conf.parent / "gpu_slaver_info.json"
    nobody = Message("no_such_node_in", node="nobody", path=str(registry), nodes=("far", "near"))
    assert refusal("nobody") == f"error: not_found: {nobody}"
    (conf.parent / "psw").write_text("wrong\n", encoding="utf-8")
    where, psw = f"127.0.0.1:{server.port}", str(conf.parent / "psw")
    wrong = Message("node_said", node="far", said=Message("password_refused", where=where, user="lab", path=psw))
    assert refusal("far") == f"error: node_unreachable: {wrong}"
    (conf.parent / "task_info" / "known_hosts").unlink()
    assert "`muster node trust far`" in refusal("far")
    server.stop()
    assert "refuses the connection" in refusal("far")
    entries = json.loads(registry.read_text(encoding="utf-8"))
    entries[0]["driver"] = "report"
    registry.write_text(json.dumps(entries), encoding="utf-8")
    assert refusal("far") == f"error: bad_request: {Message('no_shell_there', node='far', driver='report')}"
