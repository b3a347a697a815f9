"""A request that is sent again gets what it got, also from the master that follows: what an older one made of what was
asked for is still known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import landed
from tests.master.in_process import InProcess, run

_REMEMBER = """
import json, sys
import msgspec
from master.verbs import tasks
for params in json.load(sys.stdin):
    kind, got = (tasks.SubmitBatch, {"first": 7, "count": 2}) if "commands" in params else (tasks.Submit, {"id": 7})
    print(bytes(tasks._answer_to(msgspec.convert(params, kind), got)).decode())
"""
REQUESTS: list[dict[str, Any]] = [
    {"command": "true"},
    {"command": ["a", "b c"], "gpus": 2, "name": "x", "share": False, "priority": 0},
    {"command": "x", "gpu_ids": [0, 1], "variables": {"b": "1", "A": "节点"}, "hold": True, "priority": -5},
    {"command": "x", "time_limit_s": 1.5, "env": "e", "cwd": "data", "cpus": 2, "urgent": True, "log": "data/x.log"},
    {"command": "x", "after": [{"id": 1, "on": "any"}, {"id": 2}], "dry_run": False, "gpus": 0},
    {"commands": ["a", "b"], "project": "p", "node": "a", "setup": "module load x"},
]


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """What a master of the version before kept of each."""
    code = landed.unpack("before", tmp_path_factory.mktemp("code"))
    asked = [{**params, "request_id": "once"} for params in REQUESTS]
    return landed.run(code, "-c", _REMEMBER, told=json.dumps(asked)).encode().splitlines()


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_a_request_that_an_older_master_answered_is_the_same_here(
    tmp_path: Path, remembered: list[bytes], number: int
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            core, known = master.core, msgspec.Raw(remembered[number])
            master.engine.client_change(lambda: core.remember_answer("once", known))
            peer = await master.peer()
            asked = {**REQUESTS[number], "request_id": "once"}
            verb = "task.submit_batch" if "commands" in asked else "task.submit"
            assert (await peer.call(verb, **asked)).items() <= {"id": 7, "first": 7, "count": 2}.items()
            assert (await peer.refusal(verb, **{**asked, "name": "other"}))[0] == "conflict"
            assert core.tasks == {}

    run(story())
