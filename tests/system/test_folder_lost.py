"""An agent's state folder is lost under a real master while tasks run: they stay what they are, can be killed, tell
their exit, and the node goes on taking tasks by itself."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from client.api import Client
from tests.system.lab import Lab
from tests.waiting import until


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def launch_of(client: Client, task: int) -> Any:
    return dict(client.show(task)["allocation"][0])


def until_new_agent(lab: Lab, client: Client, before: str) -> None:
    def there() -> bool:
        with suppress(FileNotFoundError):
            is_new = (lab.agent_folder("node0") / "state_id").read_text(encoding="ascii") != before
            return is_new and client.node("node0")["state"] == "online"
        return False

    until("a new agent is online", there)


@pytest.mark.parametrize("agent", ["lives", "is killed"])
@pytest.mark.parametrize("loses", [empty, shutil.rmtree])
def test_nothing_is_lost_that_lives(lab: Lab, tmp_path: Path, loses: object, agent: str) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    lab.start()
    with lab.client() as client:
        stays = client.submit(f"read word < {gate}; exit 7", gpus=2)
        killed = client.submit(["env", "-i", "/bin/sleep", "1000"], gpus=1)
        client.wait([stays, killed], 60, until="started")
        folder = lab.agent_folder("node0")
        state_id = (folder / "state_id").read_text(encoding="ascii")
        assert callable(loses)
        if agent == "is killed":
            lab.kill_master()
            lab.kill_agent("node0")
            loses(folder)
            lab.start()
        else:
            loses(folder)
    with lab.client() as client:
        until_new_agent(lab, client, state_id)
        assert [client.show(task)["state"] for task in (stays, killed)] == ["running", "running"]
        assert [client.show(task)["allocation"][0]["gpus"] for task in (stays, killed)] == [[0, 1], [2]]
        client.cancel([killed])
        assert client.wait([killed], 60)[killed]["state"] == "cancelled"
        gate.write_text("go\n", encoding="utf-8")
        client.wait([stays], 60)
        assert (client.show(stays)["state"], client.show(stays)["exit_code"]) == ("failed", 7)
        after = client.submit("true", gpus=8)
        assert client.wait([after], 60)[after]["state"] == "succeeded"


def test_a_task_whose_shim_died_too_holds_its_gpus_until_it_is_gone(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        task = client.submit(["env", "-i", "/bin/sleep", "1000"], gpus=8)
        client.wait([task], 60, until="started")
        pid = until("its pid", lambda: launch_of(client, task)["pid"])
        folder = lab.agent_folder("node0")
        state_id = (folder / "state_id").read_text(encoding="ascii")
        shim = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        lab.kill_agent("node0")
        shutil.rmtree(folder)
        os.kill(shim, signal.SIGKILL)
        until_new_agent(lab, client, state_id)
        waits = client.submit("true", gpus=1)
        assert client.show(task)["state"] == "running"
        assert client.show(waits)["state"] == "waiting"
        os.kill(pid, signal.SIGKILL)
        ended = client.wait([task, waits], 60)
        assert (ended[task]["state"], ended[waits]["state"]) == ("lost", "succeeded")
        assert "state folder was lost" in (client.show(task)["reason"] or "")
