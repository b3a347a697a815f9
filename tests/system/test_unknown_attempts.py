"""What runs on nodes when the queue lost its records: it runs on and keeps its GPUs until an admin decides.

What happened is judged by the tasks' own locks and processes, never by what the queue says of them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from client.api import Client
from tests.system.lab import Lab
from tests.waiting import PATIENCE_S, until

Loss = Callable[[Lab], None]


def emptied(lab: Lab) -> None:
    (lab.task_info / "journal.jsonl").write_bytes(b"")


def journal_gone(lab: Lab) -> None:
    (lab.task_info / "journal.jsonl").unlink()


def folder_gone(lab: Lab) -> None:
    shutil.rmtree(lab.task_info)


def training(client: Client, holds: Path, **wants: object) -> int:
    """A task that has a lock of the kernel's for as long as it lives, and ends with 7 once it may; its id."""
    go = holds.with_suffix(".go")
    script = f"exec 9>{holds}; flock 9; echo began >&2; while [ ! -e {go} ]; do sleep 0.1; done; exit 7"
    number = client.submit(script, name="training", **wants)
    until("the task runs", lambda: client.show(number)["state"] == "running")
    until("it has its lock", holds.exists)
    return number


def lose(lab: Lab, loss: Loss) -> None:
    """A master that is killed, a queue that loses its records, and a start that passes over that."""
    lab.kill_master()
    loss(lab)
    assert lab.muster("up", "--detach").returncode == 1, "the loss is refused at first"
    lab.start_past_damage()
    with lab.client() as client:
        until("the node is there", lambda: client.nodes()[0]["state"] == "online")


def found(lab: Lab, node: str = "node0") -> list[dict[str, object]]:
    """The attempts of unknown origin, as the command tells them."""
    done = lab.muster("node", "attempts", node, "--json")
    assert done.returncode == 0, done.stderr
    told: list[dict[str, object]] = json.loads(done.stdout)
    return told


def alive(lab: Lab) -> set[str]:
    """The launch ids of which something lives."""
    return {process.launch_id for process in lab.attempts_alive()}


@pytest.mark.parametrize("loss", [emptied, journal_gone, folder_gone])
def test_what_runs_is_not_killed_and_keeps_its_gpus_until_it_is_ended(lab: Lab, tmp_path: Path, loss: Loss) -> None:
    holds = tmp_path / "holds"
    lab.start()
    with lab.client() as client:
        training(client, holds, gpus=3)
    (launch,) = alive(lab)
    lose(lab, loss)
    with lab.client() as client:
        small = client.submit("echo $CUDA_VISIBLE_DEVICES", gpus=5)
        assert client.wait([small], timeout=PATIENCE_S)[small]["state"] == "succeeded"
        assert set(client.show(small)["allocation"][0]["gpus"]) == {3, 4, 5, 6, 7}
        other = client.submit(f"flock -n {holds} true", gpus=6)
        until("the planner has looked at it", lambda: client.show(other)["reason"])
        assert alive(lab) == {launch}
        assert "muster node attempts node0" in client.node("node0")["gpus"][0]["health"]
        assert client.why(other)["state"] == "waiting"
    (one,) = found(lab)
    assert (one["launch_id"], one["gpus"], one["name"]) == (launch, [0, 1, 2], "training")

    lab.kill_master()
    lab.start()
    until("the attempt is known after a restart", lambda: [one["launch_id"] for one in found(lab)] == [launch])
    assert alive(lab) == {launch}
    assert lab.muster("node", "attempts", "node0", "--end", launch, "--yes").returncode == 0
    with lab.client() as client:
        assert client.wait([other], timeout=PATIENCE_S)[other]["state"] == "succeeded"
    until("it is forgotten", lambda: found(lab) == [])


@pytest.mark.parametrize("loss", [emptied, folder_gone])
def test_what_is_adopted_is_a_task_again_with_its_end_and_its_log(lab: Lab, tmp_path: Path, loss: Loss) -> None:
    holds = tmp_path / "holds"
    lab.start()
    with lab.client() as client:
        number = training(client, holds, gpus=3)
    (launch,) = alive(lab)
    lose(lab, loss)
    done = lab.muster("node", "attempts", "node0", "--adopt", launch)
    assert done.returncode == 0, done.stderr
    with lab.client() as client:
        task = client.show(number)
        assert (task["state"], task["name"], task["allocation"][0]["gpus"]) == ("running", "training", [0, 1, 2])
        assert client.node("node0")["gpus"][0]["held_by"] == [number]
        assert alive(lab) == {launch}
        lab.kill_master()
        lab.start()
    with lab.client() as client:
        assert client.show(number)["state"] == "running"
        holds.with_suffix(".go").touch()
        ended = client.wait([number], timeout=PATIENCE_S)[number]
        assert (ended["state"], ended["exit_code"]) == ("failed", 7)
        assert "began" in lab.muster("logs", str(number)).stdout
