"""Allocations over real connections: what may be asked for, whose they are, and who may be within."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.master.in_process import InProcess, run
from tests.master.verbs.test_arrays import online
from tests.master.verbs.test_people import people
from tests.waiting import settled

EXP = {"name": "exp", "gpus": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "12", "gpus": 1},
        {"name": "a b", "gpus": 1},
        {"name": "", "gpus": 1},
        {"name": "exp"},
        {"name": "exp", "gpus": 0},
        {"name": "exp", "gpus": 1, "command": "true"},
        {"name": "exp", "gpus": 1, "max_retries": 2},
        {"name": "exp", "gpus": 1, "share": True},
        {"name": "exp", "gpus": 2, "gpus_max": 1},
    ],
)
def test_what_says_nothing_of_an_allocation_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            assert (await peer.refusal("alloc.new", **wrong))[0] == "bad_request"
            assert await peer.call("alloc.list") == []

    run(story())


def test_a_task_is_put_within_by_name_or_id_and_edited_out_of_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            online(master)
            peer = await master.peer()
            exp = (await peer.call("alloc.new", **EXP, request_id="x"))["id"]
            assert (await peer.call("alloc.new", **EXP, request_id="x"))["id"] == exp
            assert (await peer.refusal("alloc.new", **EXP))[0] == "conflict"
            first = (await peer.call("task.submit", command="true", gpus=1, within="exp"))["id"]
            second = (await peer.call("task.submit", command="true", gpus=1, within=exp))["id"]
            await settled(lambda: master.core.tasks[first].state == "starting")
            [told] = await peer.call("alloc.list")
            held = [{"node": "a", "gpus": [0]}]
            assert (told["state"], told["held"], told["tasks"], told["waiting"]) == ("running", held, [first], [second])
            assert told["free"] == [{"node": "a", "gpus": []}]
            assert (await peer.call("task.show", id=second))["within"] == exp
            edited = await peer.call("task.edit", id=second, changes={"within": None})
            assert edited["within"] is None
            await settled(lambda: master.core.tasks[second].state == "starting")
            assert (await peer.refusal("task.submit", command="true", within="none"))[0] == "not_found"
            dry = await peer.refusal("task.submit", command="true", gpus=2, within="exp", dry_run=True)
            assert dry[0] == "impossible"
            assert (await peer.refusal("log.read", id=exp, offset=0))[0] == "not_found"

    run(story())


def test_of_a_waiting_allocation_only_what_it_has_can_be_edited(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            exp = (await peer.call("alloc.new", **EXP))["id"]
            assert (await peer.call("task.edit", id=exp, changes={"gpus": 2, "name": "two"}))["gpus"] == 2
            for changes in ({"command": "true"}, {"share": True}, {"within": exp}, {"name": "7"}):
                assert (await peer.refusal("task.edit", id=exp, changes=changes))[0] == "bad_request"
            assert [one["name"] for one in await peer.call("alloc.list")] == ["two"]

    run(story())


@pytest.mark.parametrize("changes", [{"gpus": 0}, {"gpu_ids": []}, {"gpus": 0, "name": "none"}])
def test_an_allocation_cannot_be_edited_until_nothing_is_left_of_it(tmp_path: Path, changes: dict[str, Any]) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            exp = (await peer.call("alloc.new", **EXP))["id"]
            assert (await peer.refusal("task.edit", id=exp, changes=changes))[0] == "bad_request"
            assert (await peer.call("task.show", id=exp))["gpus"] == 1

    run(story())


def test_an_allocation_is_its_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with people(tmp_path, monkeypatch) as here:
            ann, bob = await here.user("ann"), await here.user("bob")
            exp = (await ann.call("alloc.new", **EXP))["id"]
            code, said = await bob.refusal("task.submit", command="true", gpus=1, within="exp")
            assert (code, "ann's" in said) == ("forbidden", True)
            assert (await bob.refusal("alloc.release", id=exp))[0] == "forbidden"
            assert (await here.owner.refusal("task.submit", command="true", within="exp"))[0] == "forbidden"
            assert (await ann.call("alloc.release", id=exp))["state"] == "cancelled", "it was not granted yet"

    run(story())
