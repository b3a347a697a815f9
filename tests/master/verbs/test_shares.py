"""The share of one user in the queue, over real connections: what is refused, what still passes, and what is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from master.core.tasks.task import TaskState
from tests.master.in_process import InProcess, Peer, comes_as, run

MIB = 1 << 20
COMMAND = "x" * 100_000


@asynccontextmanager
async def two_users(folder: Path, **settings: float) -> AsyncIterator[tuple[InProcess, Peer, Peer]]:
    """A master with the users ann and bob, who are connected."""
    async with InProcess(folder) as master:
        for name, value in settings.items():
            master.core.tuning.set(f"limits.{name}", value, "root", 1.0)
        with comes_as("ann", master.core):
            ann = await master.peer()
            await ann.call("auth.whoami")
        with comes_as("bob", master.core):
            bob = await master.peer()
            await bob.call("auth.whoami")
        yield master, ann, bob


def test_status_tells_users_their_own_share_and_admins_who_is_near_the_bound(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_users(tmp_path, waiting_tasks=20) as (master, ann, bob):
            await ann.call("task.submit_batch", commands=["true"] * 7, hold=True)
            await bob.call("task.submit_batch", commands=["true"] * 2, hold=True)
            owner = await master.peer()
            told = await owner.call("server.info")
            assert told["near_shares"] == []
            assert told["filled"] == {"waiting": 9, "most_waiting": 20, "bytes": 0, "most_bytes": 1 << 30}
            await ann.call("task.submit", command="true", hold=True)
            near = {"waiting": 8, "most_waiting": 9, "bytes": 0, "most_bytes": 1 << 29}
            assert (await owner.call("server.info"))["near_shares"] == [{**near, "user": "ann"}]
            for peer, waiting in ((ann, 8), (bob, 2)):
                told = await peer.call("server.info")
                assert told["share"]["waiting"] == waiting
                assert (told["near_shares"], told.get("filled")) == ([], None)

    run(story())


NEW: tuple[tuple[str, dict[str, Any]], ...] = (
    ("task.submit", {"command": "true"}),
    ("task.submit", {"command": "true", "dry_run": True}),
    ("task.submit_batch", {"commands": ["true", "false"]}),
    ("task.submit_array", {"command": "true", "array": "0-1"}),
    ("task.submit_array", {"command": "true", "sweep": {"a": ["1", "2"]}}),
    ("task.retry", {"id": 1}),
    ("task.edit", {"id": 1, "changes": {"priority": 0}}),
    ("alloc.new", {"name": "x", "gpus": 1}),
)


def test_beyond_the_share_every_verb_that_files_something_is_refused_and_others_submit(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_users(tmp_path, waiting_tasks=8) as (_master, ann, bob):
            await ann.call("task.submit", command="true", hold=True)
            await ann.call("task.cancel", ids=[1])
            await ann.call("task.submit_batch", commands=["true"] * 4, hold=True)
            for verb, params in NEW:
                code, told = await ann.told(verb, **params)
                assert (code, told.key) == ("limit", "queue_share"), verb
                assert (told.args["owner"], told.args["waiting"], told.args["most"]) == ("ann", 4, 4), verb
            share = (await ann.call("auth.whoami"))["share"]
            assert share == {"waiting": 4, "most_waiting": 4, "bytes": 0, "most_bytes": 1 << 29}
            await bob.call("task.submit_batch", commands=["true"] * 2, hold=True)
            assert (await bob.call("auth.whoami"))["share"]["most_waiting"] == 2

    run(story())


LARGE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("task.submit", {"command": COMMAND}),
    ("task.submit", {"command": ["x", *["ab"] * 2000]}),
    ("task.submit", {"command": "x", "variables": {"A": COMMAND}}),
    ("task.submit", {"command": COMMAND, "dry_run": True}),
    ("task.submit_batch", {"commands": ["x", COMMAND]}),
    ("task.submit_array", {"command": COMMAND, "array": "0-1"}),
    ("task.retry", {"id": 1}),
    ("task.edit", {"id": 1, "changes": {"priority": 0}}),
    ("task.edit", {"id": 2, "changes": {"command": COMMAND}}),
)


def test_beyond_the_bytes_of_one_user_large_tasks_are_refused_small_ones_pass_and_others_submit(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_users(tmp_path, task_bytes=MIB) as (master, ann, bob):
            await ann.call("task.submit", command=COMMAND, hold=True)
            await ann.call("task.cancel", ids=[1])
            await ann.call("task.submit", command="true", hold=True)
            await ann.call("task.submit_batch", commands=[COMMAND] * 5, hold=True)
            before = master.core.share_of("ann").size
            for verb, params in LARGE:
                code, told = await ann.told(verb, **params)
                assert (code, told.key, told.args["owner"]) == ("limit", "size_share", "ann"), verb
            assert master.core.share_of("ann").size == before > 5 * len(COMMAND)
            await ann.call("task.submit", command="true", hold=True)
            await bob.call("task.submit", command=COMMAND, hold=True)
            await ann.call("task.cancel", ids=[3, 4])
            await ann.call("task.edit", id=2, changes={"command": COMMAND})

    run(story())


def test_a_request_that_is_sent_again_is_answered_as_before_although_there_is_no_room_now(tmp_path: Path) -> None:
    requests: tuple[tuple[str, dict[str, Any]], ...] = (
        ("task.submit", {"command": COMMAND, "hold": True}),
        ("task.submit_batch", {"commands": [COMMAND, "true"], "hold": True}),
        ("task.submit_array", {"command": COMMAND, "array": "0-1", "hold": True}),
    )

    async def story() -> None:
        async with two_users(tmp_path, waiting_tasks=10, task_bytes=MIB) as (master, ann, _bob):
            got = [
                await ann.call(verb, **params, request_id=str(number)) for number, (verb, params) in enumerate(requests)
            ]
            master.core.tuning.set("limits.waiting_tasks", 1, "root", 1.0)
            master.core.tuning.set("limits.user_share", 0.01, "root", 1.0)
            tasks = dict(master.core.tasks)
            for number, (verb, params) in enumerate(requests):
                assert await ann.call(verb, **params, request_id=str(number)) == got[number]
                assert (await ann.told(verb, **params, request_id="new"))[1].key in ("queue_full", "array_too_large")
            assert master.core.tasks == tasks

    run(story())


def test_two_users_at_once_get_what_each_may_have_and_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        async with two_users(tmp_path, waiting_tasks=16) as (master, ann, bob):
            asked = [
                (peer, peer.ask("task.submit", command="true", hold=True)) for _ in range(12) for peer in (ann, bob)
            ]
            answers = [await peer.answer(one) for peer, one in asked]
            assert sum("result" in answer for answer in answers) == master.core.counts[TaskState.HELD]
            shares = [master.core.share_of(name) for name in ("ann", "bob")]
            assert all(4 <= one.waiting <= 8 and one.waiting >= one.most_waiting for one in shares), shares
            with comes_as("cy", master.core):
                await (await master.peer()).call("task.submit", command="true", hold=True)

    run(story())
