"""`muster pause` and `resume` on real processes, whatever happens meanwhile to master and agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from client.api import Client
from tests.system.lab import Lab
from tests.waiting import until

COUNTS = "while :; do echo x >> {file}; sleep 0.01; done"


def until_state(client: Client, task: int, state: str) -> None:
    until(state, lambda: client.show(task)["state"] == state, seen=lambda: client.show(task))


def counts_on(counted: Path) -> None:
    before = counted.stat().st_size
    until("it counts on", lambda: counted.stat().st_size > before)


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    return tmp_path / "counted"


def test_a_paused_task_stands_until_it_is_resumed_whoever_restarts(lab: Lab, counted: Path) -> None:
    lab.start()
    with lab.client() as client:
        task = client.submit(f"setsid bash -c '{COUNTS.format(file=counted)}' & wait", gpus=1)
        until_state(client, task, "running")
        until("it counts", counted.exists)
    told = lab.muster("pause", str(task))
    assert f"task {task}: told to pause" in told.stdout
    with lab.client() as client:
        until_state(client, task, "paused")
        stood_at = counted.stat().st_size
        asked = client.show(task)["pause_asked"]
        assert asked is not None
        assert client.show(task)["allocation"][0]["gpus"] == [0]
    for words in (["queue"], ["show", str(task)], ["why", str(task)], ["top", "--once"]):
        said = lab.muster(*words).stdout
        assert "paused" in said, words
    assert json.loads(lab.muster("queue", "--json").stdout)[0]["reason_key"] == "paused"
    lab.kill_master()
    lab.kill_agent("node0")
    lab.start()
    with lab.client() as client:
        until("the node is back", lambda: all(node["state"] == "online" for node in client.nodes()))
        assert (client.show(task)["state"], client.show(task)["pause_asked"]) == ("paused", asked)
        assert counted.stat().st_size == stood_at
        assert client.resume(task)["pause_asked"] is None
        until_state(client, task, "running")
        counts_on(counted)
        client.pause(task)
        until_state(client, task, "paused")
        client.cancel([task])
        assert client.wait([task], 60)[task]["state"] == "cancelled"
    assert lab.muster("pause", str(task)).returncode == 1


def test_what_is_asked_while_nobody_hears_is_done_when_the_agent_is_back(lab: Lab, counted: Path) -> None:
    lab.start()
    with lab.client() as client:
        task = client.submit(COUNTS.format(file=counted), gpus=1)
        until_state(client, task, "running")
        until("it counts", counted.exists)
        client.stop_agents(["node0"])
        client.pause(task)
        shown = client.show(task)
        assert shown["state"] == "running"
        assert shown["reason_key"] == "to_be_paused"
        counts_on(counted)
        client.start_agents(["node0"])
        until_state(client, task, "paused")
        client.resume(task)
        until_state(client, task, "running")
        client.cancel([task])
        client.wait([task], 60)


def test_one_that_is_paused_before_it_runs_stands_as_soon_as_it_does(lab: Lab, counted: Path) -> None:
    lab.start()
    with lab.client() as client:
        task = client.submit(COUNTS.format(file=counted), gpus=1)
        until("it is on its way", lambda: client.show(task)["state"] != "waiting")
        client.pause(task)
        until_state(client, task, "paused")
        client.cancel([task])
        assert client.wait([task], 60)[task]["state"] == "cancelled"


def test_the_limit_ends_what_is_paused(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        task = client.submit("sleep 1000", gpus=1, time_limit_s=12)
        until_state(client, task, "running")
        client.pause(task)
        until_state(client, task, "paused")
        assert client.wait([task], 60)[task]["state"] == "timed_out"
