"""The crowd of agents that the bench of nodes that dial in is measured with."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.far_agents import probed
from bench.report_agents import FarLab
from master.watchers import shared_folders


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
