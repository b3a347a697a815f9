"""The file system of a task's log hangs (its server is stopped): the task runs on, other tasks start and end, the
master answers everybody, and it all goes on when the server does; and a shim that dies frees no GPU."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hanging_share import Share
from tests.system.lab import Lab
from tests.testbed.processes import alive
from tests.waiting import until

BEATS = """
import os, sys, time
print("up", flush=True)
while not os.path.exists(sys.argv[2]):
    with open(sys.argv[1], "w") as file:
        file.write(str(time.monotonic()))
    time.sleep(0.05)
print("over", flush=True)
sys.exit(6)
"""


@pytest.fixture
def share(tmp_path: Path) -> Iterator[Share]:
    made = Share(tmp_path)
    yield made
    made.close()


def test_a_task_whose_logs_server_hangs_runs_on_and_keeps_nobody_waiting(
    lab: Lab, share: Share, tmp_path: Path
) -> None:
    beat, stop = tmp_path / "beat", tmp_path / "stop"
    # A child would inherit the log, and FUSE keeps even who closes such a file waiting: this one has none.
    command = ["python3", "-c", BEATS, str(beat), str(stop)]
    lab.start()
    with lab.client() as client:
        task = client.submit(command, gpus=1, log=str(share.path / "task.log"))
        until("the log", lambda: (share.path / "task.log").exists() and "up" in (share.path / "task.log").read_text())
        until("its first beat", lambda: beat.exists() and beat.read_text(encoding="utf-8"))
        share.hang()
        try:
            before = beat.read_text(encoding="utf-8")
            reader = threading.Thread(target=lambda: lab.muster("logs", str(task)), daemon=True)
            reader.start()
            until("the task's beat", lambda: beat.read_text(encoding="utf-8") not in ("", before))
            for _ in range(5):
                other = client.submit("true", gpus=1)
                assert client.wait([other], 60)[other]["state"] == "succeeded"
                assert client.node("node0")["state"] == "online"
            assert client.show(task)["state"] == "running"
        finally:
            share.go_on()
            stop.touch()
        assert client.wait([task], 60)[task]["exit_code"] == 6
        reader.join(60)
        assert "over" in (share.path / "task.log").read_text(encoding="utf-8")


def test_a_task_whose_logs_server_hangs_is_killed_when_the_kernel_lets_it_go(lab: Lab, share: Share) -> None:
    lab.start()
    with lab.client() as client:
        task = client.submit("while :; do echo line; done", gpus=1, log=str(share.path / "task.log"))
        until("the log", lambda: (share.path / "task.log").exists() and (share.path / "task.log").stat().st_size)
        share.hang()
        client.cancel([task])
        # The kernel lets nobody go whose write the stopped server has taken already: until then its GPU is held.
        other = client.submit("true", gpus=1)
        assert client.wait([other], 60)[other]["state"] == "succeeded"
        share.go_on()
        assert client.wait([task], 60)[task]["state"] == "cancelled"


def test_a_killed_shim_frees_no_gpu_before_its_tree_is_gone(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        task = client.submit(["env", "-i", "/bin/sh", "-c", "sleep 1000; true"], gpus=8)
        client.wait([task], 60, until="started")
        part: Any = client.show(task)["allocation"][0]
        pid = int(part["pid"])
        [sleeps] = until("its child", lambda: [one.pid for one in alive(lambda _: True) if one.parent == pid])
        shim = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        os.kill(shim, signal.SIGKILL)
        os.kill(pid, signal.SIGSTOP)  # it cannot even be asked to end
        waits = client.submit("true", gpus=1)
        killed = lab.agent_pid("node0")
        lab.kill_agent("node0")
        until("a new agent", lambda: lab.agent_pid("node0") not in (None, killed))
        until("it is heard", lambda: client.node("node0")["state"] == "online")
        assert client.show(task)["state"] == "running"
        assert client.show(waits)["state"] == "waiting"
        client.cancel([task])
        ended = client.wait([task, waits], 60)
        assert (ended[task]["state"], ended[waits]["state"]) == ("cancelled", "succeeded")
        assert alive(lambda one: one == sleeps) == []  # zombies do not count
