"""The order of a list, and of its parts, however they are put together."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any, get_args

import pytest

from master.verbs import task_list
from master.verbs.task_rows import SparseRows, WholeRows
from master.views.sight import Sight
from tests.master.core.small_core import core_with, submit
from tests.master.in_process import InProcess, Peer, run
from tests.waiting import settled

ORDERS: list[dict[str, Any]] = [{}, *({"sort": key} for key in get_args(task_list.SortKey))]
WHICH: list[dict[str, Any]] = [{"ended": True}, {"ids": [9, 2, 13, 4, 1, 7]}, {"states": ["cancelled", "held"]}]


@pytest.fixture(params=[1, 3, 1000], ids=lambda tasks: f"{tasks} at once")
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many tasks are looked at, and sorted, before others have a chance."""
    monkeypatch.setattr(task_list, "SLICE", request.param)
    monkeypatch.setattr(task_list, "RUN", 2 * request.param)


async def filled(master: InProcess) -> Peer:
    """Two run; of the others some wait, some are held, and some ended, several at the same moment."""
    peer = await master.peer()
    master.online()
    for number in range(2):
        await peer.call("task.submit", command="true", gpus=1, name=f"run {number}")
    await settled(lambda: len(master.core.active()) == 2)
    await peer.call("task.submit_batch", commands=["b", "a", "c"], name="held", hold=True, priority=1)
    await peer.call("task.submit_batch", commands=["true"] * 8, name="over", hold=True, gpus=1)
    await peer.call("task.submit", command="true", hold=True, urgent=True)
    for ids in ([6, 9], [13], [7, 8, 10]):
        await peer.call("task.cancel", ids=ids)
    return peer


@pytest.mark.usefixtures("at_once")
def test_a_list_has_what_runs_then_the_queue_then_what_ended_the_newest_first(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await filled(master)
            listed = (await peer.call("task.list", ended=True))["tasks"]
            assert [task["id"] for task in listed] == [1, 2, 14, 3, 4, 5, 11, 12, 10, 8, 7, 13, 9, 6]
            named = (await peer.call("task.list", ids=[9, 2, 13, 4, 1, 7]))["tasks"]
            assert [task["id"] for task in named] == [1, 2, 4, 7, 13, 9]

    run(story())


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.get("sort", "of the queue"))
def test_the_list_of_ones_own_is_that_of_all_without_those_of_others(tmp_path: Path, order: dict[str, Any]) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await filled(master)
            await peer.call("user.add", name="bob")
            for number in (1, 2, 4, 11, 12, 13):
                master.core.give_to(number, "bob")
            for which in ({}, {"ended": True}, {"states": ["held"]}, {"states": ["starting", "cancelled"]}):
                for reverse in (False, True):
                    asked = {**which, **order, "reverse": reverse}
                    whole = (await peer.call("task.list", **asked))["tasks"]
                    for owner in {task["owner"] for task in whole}:
                        his = (await peer.call("task.list", **asked, user=owner))["tasks"]
                        assert his == [task for task in whole if task["owner"] == owner], asked
                    assert (await peer.call("task.list", **asked, user="nobody at all"))["tasks"] == []

    run(story())


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.get("sort", "of the queue"))
def test_every_part_of_an_ordered_list_either_way_is_the_part_that_the_whole_has_there(
    tmp_path: Path, order: dict[str, Any]
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await filled(master)
            for which in WHICH:
                whole = (await peer.call("task.list", **which, **order))["tasks"]
                assert len(whole) > 5
                for reverse in (False, True):
                    for offset in (0, 1, 4, 20):
                        for limit in (None, 0, 2, 5, 20):
                            asked = {**which, **order, "reverse": reverse, "offset": offset, "limit": limit}
                            part = await peer.call("task.list", **asked)
                            end = None if limit is None else offset + limit
                            assert part["tasks"] == whole[:: -1 if reverse else 1][offset:end], asked
                            assert part["total"] == len(whole)

    run(story())


@pytest.mark.parametrize("kind", [SparseRows, WholeRows])
def test_an_answer_of_megabytes_is_gone_at_once_when_it_was_sent(kind: type[SparseRows | WholeRows]) -> None:
    core = core_with()
    tasks = [submit(core, gpus=1) for _ in range(3)]
    gc.disable()
    try:
        rows = kind(core, Sight())
        rows.add(tasks)
        assert rows.result(3).parts
        is_there = weakref.ref(rows)
        del rows
        assert is_there() is None
    finally:
        gc.enable()


def test_since_leaves_out_what_ended_before_and_nothing_that_is_not_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await filled(master)
            listed = (await peer.call("task.list", ended=True))["tasks"]
            ends = sorted({task["ended_at"] for task in listed if task["ended_at"]})
            assert len(ends) > 1
            for since in (0.0, *ends, ends[-1] + 1.0):
                found = (await peer.call("task.list", ended=True, since=since))["tasks"]
                assert found == [task for task in listed if task["ended_at"] is None or task["ended_at"] >= since]

    run(story())
