"""`muster alloc`: what is asked of the master, what is waited for, and what is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.cli.main import main
from client.text.allocations import allocations_table
from tests.client.fake_master import FakeMaster, Verb

EXP: dict[str, Any] = {
    "id": 12, "name": "exp\x1b[2J", "owner": "wang", "project": "", "state": "running", "gpus": 3, "nodes": 1,
    "held": [{"node": "gpu1", "gpus": [0, 1, 2]}], "free": [{"node": "gpu1", "gpus": [2]}], "tasks": [13, 14],
    "waiting": [15], "since": 100.0, "ends_at": 4000.0, "is_ending": False,
    "reason": None, "reason_key": None, "reason_args": None,
}  # fmt: skip
WAITS: dict[str, Any] = {
    **EXP, "id": 16, "name": "big", "state": "waiting", "nodes": 2, "held": [], "free": [], "tasks": [], "waiting": [],
    "since": None, "ends_at": None, "reason": "needs 3 GPUs",
}  # fmt: skip


class Lab:
    """What was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def answer(self, result: Any) -> Verb:
        def told(params: dict[str, Any]) -> Any:
            self.asked.append({key: value for key, value in params.items() if key != "request_id"})
            return result

        return told


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    found = Lab()
    verbs: dict[str, Verb] = {
        "alloc.new": found.answer({"id": 12}),
        "alloc.list": found.answer([EXP, WAITS]),
        "alloc.grow": found.answer(EXP),
        "alloc.shrink": found.answer(EXP),
        "alloc.release": found.answer(EXP),
    }
    with FakeMaster(verbs) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        yield found


def test_what_is_typed_reaches_the_master(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["alloc", "exp", "--gpus", "2-4", "--gpu-model", "A100", "--nodes", "2", "--time-limit", "4h", "--urgent"]
    assert main([*line, "--no-wait"]) == 0
    assert main(["alloc", "--json", "--gpus", "1", "x", "--no-wait"]) == 0
    assert json.loads(capsys.readouterr().out.removeprefix("12\n")) == {"id": 12}
    assert main(["alloc", "new", "list", "--gpu-ids", "0,1", "--node", "gpu1", "--no-wait"]) == 0
    assert main(["alloc", "pair", "--gpus-on", "b=0,1", "--gpus-on", "a=3", "--no-wait"]) == 0
    for verb in ("grow", "shrink"):
        assert main(["alloc", verb, "12", "--gpus", "2"]) == 0
    assert main(["alloc", "release", "12", "--json"]) == 0
    assert lab.asked == [
        {
            "name": "exp", "gpus": 2, "gpus_max": 4, "gpu_models": ["A100"], "nodes": 2, "time_limit_s": 14400.0,
            "urgent": True,
        },
        {"name": "x", "gpus": 1},
        {"name": "list", "gpu_ids": [0, 1], "node": "gpu1"},
        {"name": "pair", "gpus_on": {"b": [0, 1], "a": [3]}},
        {"id": 12, "gpus": 2},
        {"id": 12, "gpus": 2},
        {"id": 12, "wait": False},
    ]  # fmt: skip
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["12", "12"]
    assert all(line.startswith("allocation exp") for line in said[2:4])
    assert json.loads("\n".join(said[4:])) == EXP


@pytest.mark.parametrize("line", [["alloc", "exp"], ["alloc", "exp", "--gpus", "2", "--env", "torch"]])
def test_what_makes_no_sense_is_wrong_usage_and_asks_nobody(lab: Lab, line: list[str]) -> None:
    assert main(line) == 2
    assert lab.asked == []


def test_the_table_tells_who_has_which_gpus_and_which_are_free_and_is_harmless() -> None:
    lines = allocations_table([EXP, WAITS], None, 400.0).splitlines()  # type: ignore[list-item]
    assert "\x1b[2J" not in lines[1]
    assert all(cell in lines[1] for cell in ("running", "gpu1:0-2", "gpu1:2", "2 run, 1 wait", "1h"))
    assert all(cell in lines[2] for cell in ("waiting", "2 x 3 GPUs", "needs 3 GPUs"))
