"""What a desktop client is shown of others' tasks where `privacy` is `own`: in its tables, and in the file of news."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.core.tasks.task import Task, TaskState
from master.desktop.news import News
from master.desktop.pushes import TaskPushes
from master.ports import connection
from master.verbs.access import Identify, by_desktop_client, sight_of
from tests.desktop.client import DesktopClient
from tests.desktop.place import DesktopPlace, in_loop, with_client
from tests.master.in_process import InProcess, run
from tests.waiting import until

ANNS = {"owner": "ann", "command": "secret-command", "env": "/secret-env", "urgent": True, "node": "a", "gpus": 2}


def coming_as(name: str, address: str, _user: str) -> Identify:
    """Whoever comes in with a desktop client is this one."""
    return by_desktop_client(address, name)


def tables(client: DesktopClient) -> dict[str, list[dict[str, Any]]]:
    """The newest tables that it was told."""
    until("the tables come", lambda: client.train.seen)
    told: dict[str, list[dict[str, Any]]] = client.train.seen[-1].info
    return told


def rows(client: DesktopClient) -> dict[str, dict[str, Any]]:
    """Those of the two tasks that wait, by the last digit of their ids."""
    until("it is told of both", lambda: len(tables(client)["wait"]) == 2)
    return {row["task_id"][-1]: row for row in tables(client)["wait"]}


def prepared(master: DesktopPlace, folder: Path, privacy: str) -> None:
    master.place.config = msgspec.structs.replace(master.place.config, privacy=privacy)
    people = master.core.people
    for name in ("ann", "bob", "mia"):
        people.add(name)
    people.add_group("vision")
    people.edit_group("vision", [people.find("ann")], [people.find("mia")])
    drafts = [
        Task(id=0, cwd=f"{folder}/secret-cwd", state=TaskState.HELD, **ANNS),  # type: ignore[arg-type]
        Task(id=0, owner="bob", command="bobs", cwd=str(folder), state=TaskState.HELD),
    ]
    master.engine.client_change(lambda: master.core.submit(drafts, 1.0))


@pytest.mark.parametrize("privacy", ["open", "own"])
def test_the_rows_of_others_say_that_they_are_there_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, privacy: str
) -> None:
    def story(_client: DesktopClient, master: DesktopPlace) -> None:
        in_loop(master, lambda: prepared(master, tmp_path, privacy))
        seen = {}
        for name in ("ann", "bob", "mia"):
            monkeypatch.setattr(connection, "by_desktop_client", partial(coming_as, name))
            client = DesktopClient({port: master.address(port) for port in master.servers})
            seen[name] = rows(client)
            client.close()
        assert seen["ann"]["1"]["exec"] == seen["mia"]["1"]["exec"] == "secret-command"
        assert seen["bob"]["2"]["exec"] == "bobs"
        if privacy == "open":
            assert seen["ann"] == seen["bob"] == seen["mia"]
        else:
            assert seen["bob"]["1"] == {
                "task_id": "00000000000001", "envs": "", "path": "/", "exec": "（他人的任务）", "need_gpus": "2",
                "slaver": "<默认>", "prev": "(无)", "is_urgent": 0, "is_reuse_gpu": 0, "state": "wait",
            }  # fmt: skip
            assert seen["ann"]["2"]["exec"] == seen["mia"]["2"]["exec"] == "（他人的任务）"

    with_client(tmp_path, story)


def test_a_row_is_made_once_for_all_to_whom_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with DesktopPlace(tmp_path) as master:
            prepared(master, tmp_path, "own")
            await master.engine.settled()
            made: list[int] = []

            def encoded(row: dict[str, Any]) -> bytes:
                made.append(len(row))
                return b"{}"

            monkeypatch.setattr("master.desktop.pushes.json_of", encoded)
            pushes = TaskPushes(master.engine, str(tmp_path))
            for name in ("ann", "bob", "mia", "ann"):
                caller = by_desktop_client("10.0.0.1", name)(master.core.people, 1.0)
                assert pushes.frame(sight_of(caller, master.core.people, "own")) is not None
            assert len(made) == 4

    run(story())


@pytest.mark.parametrize("hides", [False, True])
def test_the_news_tell_no_command_where_tasks_are_their_owners(tmp_path: Path, *, hides: bool) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            news = News(master.engine, tmp_path / "news.log", None, hides=hides)
            peer = await master.peer()
            await peer.call("task.submit", command="secret-command", env="/secret-env", gpus=1)
            await peer.call("task.cancel", ids=[1])
            news.close()

    run(story())
    told = (tmp_path / "news.log").read_text(encoding="utf-8")
    assert "已添加" in told
    assert "已中止" in told
    assert ("secret" in told) != hides
