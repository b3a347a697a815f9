"""A lab's command is told when GPUs fall free that nobody waits for; one that fails or hangs holds up nothing."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from client.api import Client
from tests.system.lab import Lab
from tests.waiting import until

TELL = """#!/bin/sh
cd {folder} || exit
cat >> told
if [ -e hang ]; then sleep 1000 & echo $$ $! > pids; wait; fi
echo no channel >&2
exit 3
"""


def told(lab: Lab) -> list[dict[str, Any]]:
    path = lab.folder / "told"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def begins(client: Client, lab: Lab, name: str, gpus: int) -> int:
    """A task that ends when there is a file of its name."""
    return client.submit(f"until [ -e {name} ]; do sleep 0.1; done", gpus=gpus, cwd=str(lab.folder))


def is_running(client: Client, task_id: int) -> bool:
    return bool(client.show(task_id)["state"] == "running")


def ends(client: Client, lab: Lab, name: str, task_id: int) -> None:
    (lab.folder / name).touch()
    assert client.wait([task_id], 60)[task_id]["state"] == "succeeded"


def hooked(lab: Lab) -> None:
    command = lab.folder / "tell"
    command.write_text(TELL.format(folder=lab.folder), encoding="utf-8")
    command.chmod(0o755)
    lab.write_conf(hooks={"gpus_free": [str(command)]})


def test_a_command_is_told_what_falls_free_and_a_fault_or_a_hang_of_it_holds_up_nothing(lab: Lab) -> None:
    hooked(lab)
    lab.start()
    with lab.client() as client:
        first, second = begins(client, lab, "a", lab.gpus), begins(client, lab, "b", lab.gpus)
        ends(client, lab, "a", first)  # the second one takes them, so nobody is told
        until("the second runs", lambda: is_running(client, second))
        ends(client, lab, "b", second)
        [once] = until("it is told", lambda: told(lab))
        assert once["event"] == "gpus_free"
        assert once["gpus"] == [{"node": "node0", "gpus": list(range(lab.gpus))}]
        assert once["free"] == lab.gpus
        assert once["at"] >= client.show(second)["ended_at"]
        until("its fault is told", lambda: "it ended with 3: no channel" in lab.server_log())
        third = begins(client, lab, "c", 1)
        until("the third runs", lambda: is_running(client, third))
    lab.stop_master()
    (lab.folder / "hang").touch()
    lab.start()
    with lab.client() as client:
        ends(client, lab, "c", third)
        pids = until("it hangs", lambda: text_of(lab.folder / "pids")).split()
        assert told(lab)[1:] == [{**told(lab)[-1], "gpus": [{"node": "node0", "gpus": [0]}], "free": lab.gpus}]
        ends(client, lab, "d", begins(client, lab, "d", 1))
    lab.stop_master()
    until("it went with the master", lambda: not any(Path("/proc", pid).exists() for pid in pids))


def test_what_a_killed_master_could_not_tell_the_next_one_tells(lab: Lab) -> None:
    hooked(lab)
    (lab.folder / "hang").touch()
    lab.start()
    with lab.client() as client:
        ends(client, lab, "a", begins(client, lab, "a", 2))
    pids = until("it hangs", lambda: text_of(lab.folder / "pids")).split()
    lab.kill_master()
    for pid in pids:
        os.kill(int(pid), signal.SIGKILL)
    (lab.folder / "hang").unlink()
    lab.start()
    again = until("it is told again", lambda: told(lab)[1:])
    assert again[0]["gpus"] == told(lab)[0]["gpus"] == [{"node": "node0", "gpus": [0, 1]}]


def text_of(path: Path) -> str:
    return path.read_text(encoding="ascii") if path.exists() else ""
