"""No queue jumping, over real connections: what puts a task before those of others is for mentors and admins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.desktop.client import DesktopClient, form
from tests.desktop.place import DesktopPlace, in_loop, with_client
from tests.master.in_process import InProcess, Peer, run
from tests.master.verbs.test_people import people
from wire.message import names

JUMPS = [
    ("task.submit", {"command": "true", "priority": 1}),
    ("task.submit", {"command": "true", "urgent": True}),
    ("task.submit", {"command": "true", "priority": 1, "dry_run": True}),
    ("task.submit_batch", {"commands": ["true"], "priority": 1}),
    ("task.submit_batch", {"commands": ["true"], "urgent": True}),
    ("task.edit", {"id": 3, "changes": {"priority": 1}}),
    ("task.edit", {"id": 3, "changes": {"urgent": True}}),
    ("task.start", {"id": 3}),
    ("task.move", {"id": 3, "position": 1}),
    ("task.move", {"id": 3, "position": 2}),
]
"""Of tasks 1 to 5 in a queue, of ann, bob, ann, ann, bob: what would put a task of ann's before one of bob's."""
FINE = [
    ("task.submit", {"command": "true", "priority": 0}),
    ("task.submit", {"command": "true", "priority": -4}),
    ("task.edit", {"id": 3, "changes": {"priority": -1}}),
    ("task.edit", {"id": 3, "changes": {"name": "x", "priority": 0, "urgent": False}}),
    ("task.move", {"id": 4, "position": 3}),
    ("task.move", {"id": 3, "position": 4}),
    ("task.move", {"id": 1, "position": 5}),
    ("task.move", {"id": 3, "position": 3}),
]


class Queue:
    """A shared queue: ann and bob submit, mia looks after ann's group."""

    def __init__(self, master: InProcess, owner: Peer, named: dict[str, Peer]) -> None:
        self.master = master
        self.owner = owner
        self.named = named

    async def order(self) -> list[int]:
        return [task["id"] for task in (await self.owner.call("task.list"))["tasks"]]


@asynccontextmanager
async def queue(folder: Path, monkeypatch: pytest.MonkeyPatch, urgent: str = "mentors") -> AsyncIterator[Queue]:
    async with people(folder, monkeypatch) as here:
        here.master.core.tuning.set("scheduler.urgent", urgent, "root", 1.0)
        named = {name: await here.user(name) for name in ("ann", "bob", "mia")}
        await here.owner.call("group.add", name="vision")
        await here.owner.call("group.edit", name="vision", add=["ann"], add_mentors=["mia"])
        for name in ("ann", "bob", "ann", "ann", "bob"):
            await named[name].call("task.submit", command="true")
        yield Queue(here.master, here.owner, named)


@pytest.mark.parametrize(("verb", "params"), JUMPS)
def test_a_user_puts_nothing_of_his_before_the_tasks_of_others_and_is_told_who_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, params: dict[str, Any]
) -> None:
    async def story() -> None:
        async with queue(tmp_path, monkeypatch) as here:
            code, why = await here.named["ann"].told(verb, **params)
            assert (code, why.key) == ("forbidden", "ahead_for_mentors")
            assert (why.args["owner"], why.args["mentors"]) == ("ann", names(["mia"]))
            assert await here.order() == [1, 2, 3, 4, 5]

    run(story())


@pytest.mark.parametrize(("verb", "params"), FINE)
def test_a_user_lowers_a_priority_and_reorders_his_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, params: dict[str, Any]
) -> None:
    async def story() -> None:
        async with queue(tmp_path, monkeypatch) as here:
            await here.named["ann"].call(verb, **params)
            others = [task_id for task_id in await here.order() if task_id in (2, 5)]
            assert others == [2, 5]

    run(story())


@pytest.mark.parametrize("who", ["mia", "owner"])
@pytest.mark.parametrize(("verb", "params"), JUMPS[5:])
def test_a_mentor_of_its_owner_and_an_admin_put_a_task_before_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, params: dict[str, Any], who: str
) -> None:
    async def story() -> None:
        async with queue(tmp_path, monkeypatch) as here:
            await (here.owner if who == "owner" else here.named[who]).call(verb, **params)
            order = await here.order()
            assert order.index(3) < order.index(2)

    run(story())


def test_a_mentor_has_his_word_for_what_is_his_and_none_for_another_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with queue(tmp_path, monkeypatch) as here:
            mia = here.named["mia"]
            assert (await mia.call("task.submit", command="true", urgent=True))["id"] == 6
            assert (await here.order())[0] == 6
            assert (await mia.refusal("task.start", id=2))[0] == "forbidden"
            assert await here.order() == [6, 1, 2, 3, 4, 5]

    run(story())


def test_where_nobody_looks_after_somebody_it_is_for_admins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with queue(tmp_path, monkeypatch) as here:
            _, why = await here.named["bob"].told("task.submit", command="true", urgent=True)
            assert why.key == "ahead_for_admins"

    run(story())


def test_what_was_raised_for_somebody_stays_so_and_is_not_taken_along_into_another_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with queue(tmp_path, monkeypatch) as here:
            ann, mia = here.named["ann"], here.named["mia"]
            await mia.call("task.edit", id=3, changes={"priority": 7, "urgent": True})
            assert (await ann.call("task.edit", id=3, changes={"name": "x"}))["priority"] == 7
            assert (await ann.call("task.edit", id=3, changes={"priority": 5}))["priority"] == 5
            assert (await ann.refusal("task.edit", id=3, changes={"priority": 6}))[0] == "forbidden"
            await ann.call("task.cancel", ids=[3])
            assert (await ann.refusal("task.retry", id=3))[0] == "forbidden"
            assert (await ann.refusal("task.edit", id=3, changes={"command": "false"}))[0] == "forbidden"
            again = await ann.call("task.edit", id=3, changes={"priority": 0, "urgent": False})
            assert again["state"] == "waiting"

    run(story())


BEHIND, KEPT = [2, 3, 4, 5, 1, 6], [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("verb", "more"), [("task.retry", {}), ("task.edit", {"changes": {"command": "new"}})])
@pytest.mark.parametrize(
    "case", [("ann", "mentors", BEHIND), ("owner", "mentors", KEPT), ("ann", "all", KEPT)], ids=["user", "admin", "all"]
)
def test_what_has_ended_is_queued_again_behind_the_tasks_of_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    more: dict[str, Any],
    case: tuple[str, str, list[int]],
) -> None:
    who, urgent, order = case

    async def story() -> None:
        async with queue(tmp_path, monkeypatch, urgent) as lab:
            await lab.owner.call("task.start", id=1)
            await lab.named["ann"].call("task.cancel", ids=[1])
            await lab.named.get(who, lab.owner).call(verb, id=1, **more)
            await lab.named["bob"].call("task.submit", command="true")
            assert await lab.order() == order

    run(story())


@pytest.mark.parametrize(("verb", "params"), JUMPS)
def test_where_the_lab_says_so_everybody_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, params: dict[str, Any]
) -> None:
    async def story() -> None:
        async with queue(tmp_path, monkeypatch, urgent="all") as here:
            await here.named["ann"].call(verb, **params)

    run(story())


def test_the_box_of_the_desktop_client_works_until_there_are_users_and_is_refused_in_chinese_then(
    tmp_path: Path,
) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        assert client.ask("add_task", form("true", is_urgent=1)) == ""
        in_loop(master, lambda: master.core.people.add("ann", master.core.owners()))
        refused = "不能排到他人的任务之前：请联系管理员"
        assert client.ask("add_task", form("true", is_urgent=1)) == refused
        assert client.ask("add_task", form("true")) == ""
        assert client.ask("change_task", {**form("true", is_urgent=1), "task_id": "00000000000002"}) == refused
        assert client.ask("change_task", {**form("false"), "task_id": "00000000000001"}) == ""
        in_loop(master, _mentored(master))
        refused = "不能排到他人的任务之前：请联系组内导师（ann）或管理员"
        assert client.ask("add_task", form("true", is_urgent=1)) == refused

    with_client(tmp_path, story)


def _mentored(master: DesktopPlace) -> Any:
    def change() -> None:
        everybody = master.core.people
        everybody.add_group("vision")
        everybody.edit_group("vision", [everybody.find("desktop")], [everybody.find("ann")])

    return change
