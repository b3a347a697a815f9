"""What an elastic task is asked for over the wire, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.master.in_process import InProcess, run
from tests.waiting import settled

WISH: dict[str, Any] = {"command": "true", "gpus": 1, "gpus_max": 4, "elastic": True, "checkpoint": "out/*.pt"}


def test_it_needs_a_range_and_a_checkpoint_and_nothing_that_is_fixed_for_its_life(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            for wrong, key in (
                ({"gpus_max": None}, "elastic_without_range"),
                ({"gpus_max": 1}, "elastic_without_range"),
                ({"checkpoint": ""}, "elastic_without_checkpoint"),
                ({"checkpoint": " "}, "elastic_without_checkpoint"),
                ({"checkpoint": "x" * 5000}, "wrong_value"),
                ({"checkpoint": "a\0b"}, "field_with_nul"),
                ({"elastic": False}, "checkpoint_for_nothing"),
                ({"share": True, "gpu_memory_mib": 100}, "elastic_beside"),
                ({"nodes": 2}, "elastic_beside"),
            ):
                code, why = await peer.told("task.submit", **{**WISH, **wrong})
                assert (code, why.key) == ("bad_request", key), repr(why)
            assert not master.core.tasks

    run(story())


def test_that_there_is_no_new_checkpoint_is_told_in_lists_where_nothing_else_looks_wrong(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            await peer.call("task.submit", **WISH)
            task = master.core.tasks[1]
            await settled(lambda: bool(task.allocation))
            part = task.allocation[0]
            master.core.started(part.node, part.launch_id, 9.0, 9.0)
            master.core.checkpoint_seen(part.launch_id, None, 20.0)
            [whole] = (await peer.call("task.list"))["tasks"]
            assert whole["warning_key"] == "no_new_checkpoint"
            sparse = await peer.call("task.list", sparse=True)
            assert list(sparse["warnings"].values()) == [[1]]

    run(story())


def test_it_is_shown_and_edited_as_a_whole(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit", **WISH, hold=True)
            task = await peer.call("task.show", id=1)
            assert (task["elastic"], task["checkpoint"], task["resizing"], task["resizes"]) == (
                True,
                "out/*.pt",
                None,
                0,
            )
            for wrong in ({"elastic": False}, {"checkpoint": ""}, {"gpus": 2}, {"nodes": 2}):
                assert (await peer.refusal("task.edit", id=1, changes=wrong))[0] == "bad_request"
            await peer.call("task.edit", id=1, changes={"gpus": 2, "gpus_max": 3, "checkpoint": "new/*"})
            task = await peer.call("task.show", id=1)
            assert (task["gpus"], task["gpus_max"], task["checkpoint"]) == (2, 3, "new/*")
            await peer.call("task.edit", id=1, changes={"elastic": False, "checkpoint": ""})
            assert master.core.tasks[1].elastic is False

    run(story())
