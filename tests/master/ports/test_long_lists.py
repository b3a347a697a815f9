"""Lists that take longer to make than others may wait: they are made in slices, others have their turn in between, and
what is told is still the truth."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client.task_list import whole_tasks
from master.ports.port_server import TASKS
from master.verbs import task_list, turns
from tests.master.in_process import InProcess, Peer, run
from tests.waiting import settled

MANY = 6000


@pytest.fixture(autouse=True)
def one_slice_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast the machine is, there are many turns."""
    monkeypatch.setattr(turns, "SHARE_S", 0.0)


async def filled(master: InProcess) -> Peer:
    peer = await master.peer()
    await peer.call("task.submit_batch", commands=[f"echo {number}" for number in range(MANY)])
    return peer


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"sparse": True},
        {"sort": "name", "reverse": True},
        {"search": "echo 5"},
        {"ids": list(range(1, MANY + 1))},
    ],
    ids=str,
)
def test_others_are_answered_while_a_long_list_is_made(tmp_path: Path, params: dict[str, Any]) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            other = await filled(master)
            reader = await master.peer()
            listing = asyncio.create_task(reader.call("task.list", **params))
            await settled(lambda: master.port_server.streams.turns.busy)
            for number in range(5):
                assert (await other.call("task.submit", command="true"))["id"] == MANY + 1 + number
                assert not listing.done(), "the list was made in one piece"
            listed = whole_tasks(await listing)
            assert {task["id"] for task in listed} <= set(range(1, MANY + 1)), "settled at one moment"

    run(story())


def test_several_long_lists_share_the_turns(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            other = await filled(master)
            readers = [await master.peer() for _ in range(8)]
            lists = [asyncio.create_task(reader.call("task.list")) for reader in readers]
            await settled(lambda: master.port_server.streams.turns.busy)
            await other.call("task.submit", command="true")
            assert not any(listing.done() for listing in lists)
            assert [len((await listing)["tasks"]) for listing in lists] == [MANY] * 8

    run(story())


def test_a_connection_gets_its_answers_in_the_order_of_its_questions(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await filled(master)
            peer = await master.peer()
            numbers = [peer.ask(verb) for verb in ("server.info", "task.list", "server.info", "task.list")]
            assert [(await peer.read())["id"] for _ in numbers] == numbers

    run(story())


def test_who_leaves_during_his_list_stops_it_and_what_he_asked_for_behind_it_still_happens(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            other = await filled(master)
            leaver = await master.peer()
            leaver.ask("task.list")
            leaver.ask("task.submit", command="echo last")
            await settled(lambda: master.port_server.streams.turns.busy)
            leaver.writer.transport.abort()
            await settled(lambda: len(master.core.tasks) == MANY + 1)
            await settled(lambda: not master.port_server.streams.turns.busy)
            assert len((await other.call("task.list"))["tasks"]) == MANY + 1

    run(story())


def test_what_is_gone_or_not_like_that_any_more_when_its_slice_comes_is_left_out(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            other = await filled(master)
            reader = await master.peer()
            listing = asyncio.create_task(reader.call("task.list", states=["waiting"]))
            await settled(lambda: master.port_server.streams.turns.busy)
            await other.call("task.remove", id=MANY)
            await other.call("task.hold", id=MANY - 1)
            await other.call("task.cancel", ids=[MANY - 2])
            assert not listing.done()
            answer = await listing
            assert [task["id"] for task in answer["tasks"]] == list(range(1, MANY - 2))
            assert answer["total"] == MANY - 3

    run(story())


@pytest.mark.parametrize("seed", range(3))
def test_a_snapshot_and_what_follows_it_are_the_truth_whatever_changes_while_it_is_made(
    tmp_path: Path, seed: int
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            other = await filled(master)
            reader = await master.peer(TASKS)
            subscribed = asyncio.create_task(reader.call("subscribe"))
            await settled(lambda: master.port_server.streams.turns.busy)
            chance = random.Random(seed)
            changes: list[Callable[[int], int]] = [
                lambda task_id: other.ask("task.hold", id=task_id),
                lambda task_id: other.ask("task.edit", id=task_id, changes={"name": f"n{task_id}"}),
                lambda task_id: other.ask("task.remove", id=task_id),
                lambda _task_id: other.ask("task.submit", command="echo new"),
            ]
            for number in range(60):
                await other.answer(chance.choice(changes)(chance.randrange(1, MANY + 1)))
                assert number > 5 or not subscribed.done(), "the snapshot was made in one piece"
            known = {task["id"]: task for task in (await subscribed)["tasks"]}
            assert not reader.pushed, "a change before the snapshot would be forgotten by who reads it"
            last = (await other.call("task.submit", command="echo last"))["id"]
            while last not in known:
                told = (await reader.notification())["params"]
                if told.get("gone"):
                    known.pop(told["id"], None)
                else:
                    known[told["task"]["id"]] = told["task"]
            really = {task["id"]: task for task in (await other.call("task.list"))["tasks"]}
            assert known == really

    run(story())


def test_who_watches_a_batch_come_in_holds_up_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            watcher = await master.peer(TASKS)
            await watcher.call("subscribe", snapshot="none")
            other = await filled(master)
            assert master.port_server.streams.turns.busy, "thousands of updates were made in one piece"
            await other.call("task.hold", id=MANY)
            assert master.port_server.streams.turns.busy
            told: dict[int, str] = {}
            while len(told) < MANY:
                task = (await watcher.notification())["params"]["task"]
                told[task["id"]] = task["state"]
            assert told[MANY] == "held"
            assert set(told) == set(range(1, MANY + 1))

    run(story())


def test_a_defect_in_a_slice_is_answered_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_task: object) -> str:
        raise RuntimeError("a defect")

    monkeypatch.setattr(task_list, "text_of", broken)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await filled(master)
            code, _ = await peer.refusal("task.list", search="x")
            assert code == "internal"
            assert (await peer.call("task.list", limit=1))["total"] == MANY

    run(story())
