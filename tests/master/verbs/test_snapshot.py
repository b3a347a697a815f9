"""What a submit says of the copy of code that its task runs in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.master.in_process import InProcess, run

COPY = {"of": "/lab/ann/网络", "digest": "ab" * 32, "files": 3, "bytes": 1200, "commit": "1a2b3c4d5e", "changed": True}
SUBMIT = {"command": "true", "hold": True, "cwd": "/lab/ann/网络/.muster/snapshots/abab"}


def test_it_is_kept_and_shown_until_the_task_runs_elsewhere(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit", snapshot=COPY, **SUBMIT)
            await peer.call("task.submit", **SUBMIT)
            shown = [(await peer.call("task.show", id=number))["snapshot"] for number in (1, 2)]
            assert shown == [COPY, None]
            fields = {one["field"] for one in (await peer.call("task.diff", id=1, other=2))["fields"]}
            assert "snapshot" in fields
            assert (await peer.call("task.edit", id=1, changes={"priority": 1}))["snapshot"] == COPY
            assert (await peer.call("task.edit", id=1, changes={"cwd": "/lab/ann"}))["snapshot"] is None

    run(story())


@pytest.mark.parametrize(
    "wrong",
    [
        {"of": ""},
        {"of": "/a\0b"},
        {"of": "/" + "a" * 5000},
        {"digest": "../../etc"},
        {"commit": "HEAD; rm"},
        {"files": -1},
        {"more": 1},
    ],
)
def test_what_is_none_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            code, message = await peer.refusal("task.submit", snapshot={**COPY, **wrong}, **SUBMIT)
            assert code == "bad_request"
            assert "snapshot" in message
            assert not master.core.tasks

    run(story())
