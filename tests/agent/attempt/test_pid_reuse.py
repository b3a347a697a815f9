"""Numbers of processes come again: whoever got that of a command, or of its shim, is never taken for it and never
signalled. A pid namespace of the test's own gives the numbers out as it is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.agent.small_master import Node
from tests.testbed.processes import children
from tests.waiting import until

FIRST = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True: signal.pause()"
"""Leaves no zombies."""
STRANGER = """
import os, signal, sys, time
out = open(sys.argv[1], "a", buffering=1)
all_there, said = os.pipe()
for wanted in map(int, sys.argv[2:]):
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(wanted - 1))
    if os.fork() == 0:
        os.close(said)
        os.read(all_there, 1)  # a child of ours would have the next number
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGHUP):
            signal.signal(number, lambda number, _: out.write(f"{os.getpid()} got {number}\\n"))
        out.write(f"{os.getpid()} is here\\n")
        if os.fork() == 0:
            out.write("child\\n")
        while True:
            time.sleep(1000)
"""


class Small(Node):
    """A machine that counts its processes from 1."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        first = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", FIRST]
        self._outer = subprocess.Popen(first, stderr=subprocess.DEVNULL)
        [self.init] = until("the first process", lambda: children(self._outer.pid))
        self.said = folder / "strangers"

    def inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", f"--target={self.init}", "--pid", "--mount"]
        return subprocess.run([*enter, *words], env=self.env, capture_output=True, text=True, check=False, timeout=60)

    def serve(self, **env: str) -> subprocess.CompletedProcess[str]:
        del env
        return self.inside(self.python, "-I", "-S", str(self.archive), "serve", "--state", str(self.state))

    def kill(self, *pids: int) -> None:
        """SIGKILL by the numbers inside, and wait until none is used any more."""
        self.inside("kill", "-9", *map(str, pids))
        until("gone", lambda: not any(self.inside("test", "-e", f"/proc/{pid}").returncode == 0 for pid in pids))

    def give_to_strangers(self, *pids: int) -> None:
        self.said.touch()
        done = self.inside(sys.executable, "-c", STRANGER, str(self.said), *map(str, pids))
        assert done.returncode == 0, done
        here = {f"{pid} is here" for pid in pids}
        until(f"strangers as {pids}", lambda: here <= set(self.said.read_text(encoding="utf-8").splitlines()))

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.init, signal.SIGKILL)
        self._outer.wait()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    made = Small(tmp_path)
    yield made
    made.close()
    made.agents.clear()
    made.clean()


@pytest.mark.parametrize("survives", ["nothing", "the shim's claim only"])
def test_a_stranger_with_the_number_of_a_command_and_of_its_shim_is_let_alone(small: Small, survives: str) -> None:
    link = small.up()
    small.launch(link, "t1", "exec sleep 1000")
    pid = int(link.wait_for("started", "t1")["pid"])
    shim = small.shim_of("t1")
    small.kill(int(link.welcome["pid"]), shim, pid)
    if survives != "nothing":
        record = small.claim("t1") / "record"
        record.write_bytes(record.read_bytes().splitlines(keepends=True)[0])
    small.give_to_strangers(shim, pid)
    again = small.up()
    again.kill("t1", grace_s=0.0)
    assert again.wait_for("exit", "t1")["cause"] in ("unknown", "killed")
    again.ping()
    assert "got" not in small.said.read_text(encoding="utf-8")
    alive = [small.inside("test", "-e", f"/proc/{one}").returncode for one in (shim, pid)]
    assert alive == [0, 0]


def test_what_the_master_remembers_of_a_number_that_came_again_is_not_believed(small: Small) -> None:
    """Its state folder was emptied, too, so that only the master still knows of the attempt."""
    link = small.up()
    small.launch(link, "t1", "exec sleep 1000")
    started = link.wait_for("started", "t1")
    small.kill(int(link.welcome["pid"]), small.shim_of("t1"), int(started["pid"]))
    small.empty()
    small.give_to_strangers(int(started["pid"]))
    again = small.up()
    again.adopt({"launch_id": "t1", "pid": started["pid"], "pid_start": started["pid_start"], "started_at": 1.0})
    assert again.wait_for("exit", "t1")["cause"] == "unknown"
    assert "got" not in small.said.read_text(encoding="utf-8")
    assert json.loads((small.claim("t1") / "record").read_text(encoding="utf-8").splitlines()[-1])["code"] is None
