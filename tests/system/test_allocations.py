"""Allocations with a real master, agents and processes: held over kills, shared among tasks, free when all is dead."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.system.conftest import LabMaker
from tests.system.lab import ROOT, Lab
from tests.waiting import PATIENCE_S, until

INTERRUPTED = 130
GPUS = 2
"""Those of the lab's node."""


@pytest.fixture
def lab(make_system_lab: LabMaker) -> Lab:
    """A lab of one node."""
    return make_system_lab(nodes=1, gpus=GPUS)


def listed(lab: Lab) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lab.muster("alloc", "list", "--json").stdout)
    return found


def shown(lab: Lab, number: int) -> dict[str, Any]:
    task: dict[str, Any] = json.loads(lab.muster("show", str(number), "--json").stdout)
    return task


def test_tasks_run_on_the_gpus_of_an_allocation_which_outlives_masters_agents_and_them(lab: Lab) -> None:
    lab.start()
    assert (
        lab.muster("alloc", "exp", "--gpus", "1", "--time-limit", "1h").stdout == "allocation exp (task 1): node0:0\n"
    )
    assert not lab.attempts_alive(), "nothing runs for it"
    go = lab.folder / "go"
    script = lab.folder / "job.sh"
    text = f"#MUSTER --in exp --gpus 1\nuntil [ -e {go} ]; do sleep 0.05; done; echo gpus=$CUDA_VISIBLE_DEVICES\n"
    script.write_text(text, encoding="utf-8")
    assert lab.muster("submit", "--script", str(script)).stdout == "2\n"
    assert lab.muster("submit", "--in", "1", "--script", str(script)).stdout == "3\n"
    until("the first runs", lambda: shown(lab, 2)["state"] == "running")
    assert "0 of 1 GPUs of allocation 1 free (task 2)" in lab.muster("why", "3").stdout
    before = listed(lab)
    lab.kill_master()
    lab.kill_agent("node0")
    lab.start()
    until("all is as it was", lambda: listed(lab) == before and shown(lab, 2)["state"] == "running")
    refused = lab.muster("alloc", "release", "exp")
    assert (refused.returncode, "tasks 2-3" in refused.stderr) == (1, True)
    go.touch()
    assert lab.muster("alloc", "release", "exp", "--wait").stdout == "released exp\n"
    assert [shown(lab, number)["state"] for number in (1, 2, 3)] == ["succeeded"] * 3
    assert "gpus=0" in lab.muster("logs", "3").stdout
    assert listed(lab) == []
    assert lab.muster("logs", "1").returncode == 1


def test_a_cancel_kills_what_runs_within_before_others_get_the_gpus(lab: Lab) -> None:
    lab.start()
    assert lab.muster("alloc", "exp", "--gpus", "1").returncode == 0
    with lab.client() as client:
        assert [client.submit(["sleep", "1000"], gpus=1, within="exp") for _ in range(2)] == [2, 3]
        assert client.submit(["true"], gpus=GPUS) == 4
    until("it runs", lambda: shown(lab, 2)["state"] == "running")
    lab.muster("cancel", "1")
    assert lab.muster("wait", "4").returncode == 0
    first, within, queued, after = (shown(lab, number) for number in (1, 2, 3, 4))
    assert [one["state"] for one in (first, within, queued)] == ["cancelled"] * 3
    assert within["reason_key"] == queued["reason_key"] == "its_allocation_ended"
    assert within["ended_at"] <= after["started_at"]


def test_an_allocation_gives_its_gpus_back_when_its_time_is_over(lab: Lab) -> None:
    lab.start()
    # It is told that it is granted only while it is.
    assert lab.muster("alloc", "exp", "--gpus", str(GPUS), "--time-limit", "8").returncode == 0
    with lab.client() as client:
        client.wait([client.submit(["true"], gpus=GPUS)], PATIENCE_S)
    assert (shown(lab, 1)["state"], shown(lab, 1)["reason_key"]) == ("timed_out", "allocation_time_over")


def test_who_waits_for_an_allocation_and_presses_ctrl_c_leaves_it_waiting(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        client.submit(["sleep", "1000"], gpus=GPUS)
    words = [sys.executable, "-m", "muster", "alloc", "exp", "--gpus", "1", "--conf", str(lab.conf)]
    with subprocess.Popen(words, cwd=ROOT, env=lab.environment(), stderr=subprocess.PIPE, text=True) as waiting:
        until("it waits", lambda: [one["state"] for one in listed(lab)] == ["waiting"])
        waiting.send_signal(signal.SIGINT)
        told = waiting.communicate()[1]
    assert "goes on waiting" in told
    assert waiting.returncode == INTERRUPTED
    lab.muster("cancel", "1")
    until("it is granted", lambda: [one["state"] for one in listed(lab)] == ["running"])
