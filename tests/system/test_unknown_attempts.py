"""What runs on nodes when the queue lost its records: it runs on and keeps its GPUs until an admin decides.

What happened is judged by the tasks' own locks and processes, never by what the queue says of them.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from client.api import Client
from tests.soak import one_in
from tests.system.conftest import LabMaker
from tests.system.lab import Lab
from tests.system.oracle import Job, Oracle
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


# -- the same with a second fault, judged by the oracle -------------------------------------------------------

BLOCK = 4096


def block_zeroed(lab: Lab) -> None:
    with (lab.task_info / "journal.jsonl").open("r+b") as file:
        file.write(bytes(min(BLOCK, os.fstat(file.fileno()).st_size)))


def nothing_else(lab: Lab) -> None:
    lab.start_past_damage()


def agents_killed_too(lab: Lab) -> None:
    for name in lab.nodes:
        lab.kill_agent(name)
    lab.start_past_damage()


def start_killed(lab: Lab) -> None:
    """Once the loss is taken as it is, and again when the nodes are there."""
    for failpoint in ("start.numbered", "start.reconciled"):
        lab.master = lab.launch_master(failpoint, "--skip-damaged")
        lab.await_failpoint()
    lab.start()


def node_away(lab: Lab) -> None:
    """One agent is frozen when the master starts, and comes back when others have been given what seems free."""
    agent = lab.agent_pid("node1")
    assert agent is not None
    os.kill(agent, signal.SIGSTOP)
    try:
        lab.start_past_damage()
        with lab.client() as client:
            number = client.submit("true", gpus=8)
            until("the other node is full and was looked at", lambda: client.show(number)["reason"])
            client.cancel([number])
    finally:
        os.kill(agent, signal.SIGCONT)


LOSSES = (emptied, journal_gone, folder_gone, block_zeroed)
SECONDS = (nothing_else, agents_killed_too, start_killed, node_away)
CASES = [pytest.param(*case, id="-".join(one.__name__ for one in case)) for case in itertools.product(LOSSES, SECONDS)]


@pytest.mark.parametrize(("loss", "second"), one_in(7, CASES))
def test_whatever_is_lost_nothing_that_lives_dies_and_no_gpu_is_given_out_twice(
    make_system_lab: LabMaker, oracle: Oracle, tmp_path: Path, loss: Loss, second: Loss
) -> None:
    lab, go = make_system_lab(nodes=2), tmp_path / "go"
    lab.start()
    jobs = [Job(number, gpus, code=3, nap_s=0, awaits=go) for number, gpus in enumerate((3, 2, 4, 1, 0))]
    with lab.client() as client:
        for job in jobs:
            job.id = client.submit(oracle.command(job), gpus=job.gpus, node=f"node{job.number % 2}")
        until("all have their locks", lambda: len(oracle.starts()) == len(jobs))
        until("all run", lambda: all(client.show(job.id)["state"] == "running" for job in jobs))
    launched = set(oracle.starts())
    assert alive(lab) == launched
    lab.kill_master()
    loss(lab)
    second(lab)

    others = [Job(number, gpus, code=0, nap_s=0.1) for number, gpus in enumerate((1, 2, 3, 4, 5, 6, 7, 8, 0))]
    with lab.client() as client:
        until("the nodes are there", lambda: [one["state"] for one in client.nodes()] == ["online", "online"])
        for job in others:
            job.id = client.submit(oracle.command(job), gpus=job.gpus)
        fit = [job.id for job in others if job.gpus <= 3]
        ended = client.wait(fit, timeout=PATIENCE_S)
        assert {ended[number]["state"] for number in fit} == {"succeeded"}
        assert launched <= alive(lab), "what ran runs"
        known = {task["allocation"][0]["launch_id"] for task in client.tasks() if task["state"] == "running"}
        held = [(node, one["launch_id"]) for node in lab.nodes for one in client.unknown_attempts(node)]
        assert {launch for _, launch in held} | known >= launched

        adopted = [client.adopt_attempt(node, launch)["id"] for node, launch in held[::2]]
        for node, launch in held[1::2]:
            client.end_attempt(node, launch)
        go.touch()
        done = client.wait([*adopted, *(job.id for job in others)], timeout=PATIENCE_S)
        assert {done[number]["exit_code"] for number in adopted} <= {3}
        assert {done[job.id]["state"] for job in others} == {"succeeded"}
        until("nothing of it is left", lambda: not any(client.unknown_attempts(node) for node in lab.nodes))
    assert oracle.conflicts() == []
    assert set(oracle.starts().values()) == {1}
    assert launched <= set(oracle.starts())
    until("no attempt lives", lambda: not alive(lab))
