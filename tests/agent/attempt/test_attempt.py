"""An attempt as the agent tells of it."""

from __future__ import annotations

from monitor.agent.attempt.attempt import GIVEN_LENGTH, said


def test_of_gpus_and_a_path_that_are_too_long_nothing_is_told_and_of_a_name_the_beginning() -> None:
    gpus, path, name = "1," * GIVEN_LENGTH + "12", "/x" * GIVEN_LENGTH, "x" * (GIVEN_LENGTH + 1)
    assert said(gpus, name, path) == {"name": name[:-1]}
    assert said("0,1", "training", "/logs/3.log") == {"gpus": "0,1", "name": "training", "log": "/logs/3.log"}
    assert said("", "", "") == {"gpus": ""}
    assert said(None, None, None) == {}
