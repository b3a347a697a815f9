"""The crowd of agents that the bench of nodes that dial in is measured with."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.far_agents import Attempts, Seen, probed
from bench.far_lab import FarLab, How
from master.watchers import shared_folders
from tests.waiting import until


def test_the_agents_are_ended_also_where_something_breaks_meanwhile(tmp_path: Path) -> None:
    with FarLab(tmp_path, 3) as lab:
        with pytest.raises(ZeroDivisionError), lab.agents():
            1 / 0  # noqa: B018
        with lab.client() as client:
            assert client.info()["nodes"].keys() <= {"online", "connecting"}


def test_they_have_the_shared_folders_that_they_are_asked_for() -> None:
    folders = ["/data", "/envs"]
    answer = probed({"probe_id": "p", "argv": shared_folders.question(folders)})
    assert shared_folders.fault(folders, answer) is None  # type: ignore[arg-type]


def test_a_task_of_theirs_is_begun_once_and_told_of_until_its_end_is_acknowledged() -> None:
    seen = Seen()
    attempts = Attempts(seen)
    launch = {"op": "launch", "launch_id": "7.1.a", "env": {"CUDA_VISIBLE_DEVICES": "0,3"}}
    assert attempts.launch(launch, 10.0, 5.0) == ({**attempts._told["7.1.a"], "op": "started", "at": 10.0}, True)
    assert attempts.gpus == {0: "7.1.a", 3: "7.1.a"}
    assert attempts.launch(launch, 11.0, 5.0)[1] is False
    ended = attempts.end("7.1.a", 15.0)
    assert ended is not None
    assert (ended["code"], ended["cause"], ended["started_at"]) == (0, "exited", 10.0)
    assert attempts.gpus == {}
    assert attempts.end("7.1.a", 16.0) is None
    assert attempts.launch(launch, 17.0, 5.0) == (ended, False)
    assert [one["state"] for one in attempts.inventory()["attempts"]] == ["ended"]
    attempts.acknowledge(["7.1.a", "8.1.b"], 18.0)
    assert attempts.inventory()["attempts"] == []
    assert seen == Seen(launched=1, again=2, ended=1, acknowledged=1, alive=0, longest_s=3.0)


def test_one_of_theirs_that_is_killed_before_it_was_launched_never_begins() -> None:
    attempts = Attempts(Seen())
    killed = attempts.kill("7.1.a", 1.0)
    assert (killed["cause"], killed["started_at"]) == ("killed", None)
    assert attempts.launch({"op": "launch", "launch_id": "7.1.a", "env": {}}, 2.0, 5.0) == (killed, False)


def test_they_run_what_a_master_gives_them(tmp_path: Path) -> None:
    with FarLab(tmp_path, 3, How(samples=False, slots=8)) as lab, lab.agents() as agents, lab.client() as client:
        client.wait(client.submit_batch(["true"] * 40, exclude=["here"]), 60)
        until("each end is acknowledged", lambda: agents.seen().acknowledged == 40)
        seen = agents.seen()
    assert (seen.launched, seen.again, seen.ended, seen.alive) == (40, 0, 40, 0)
