"""A directory service that hangs, or answers late, holds up who is looked up in it, and nobody else."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from master.callers.peer import Person
from master.nodes.registry import NodeConfig
from master.ports import local_accounts
from master.ports.local_accounts import LocalAccounts
from tests.master.in_process import run
from tests.master.local_users import connects_as, same_names
from tests.waiting import PATIENCE_S, settled

SHORT_S = 0.05
ANN = 4713


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The uids that the directory service was asked for; it knows ann."""
    uids: list[int] = []

    def person(uid: int | None) -> Person:
        assert uid is not None
        uids.append(uid)
        return Person("ann" if uid == ANN else "")

    monkeypatch.setattr(local_accounts, "person", person)
    return uids


def test_an_account_is_asked_for_once_a_while(asked: list[int]) -> None:
    async def story() -> None:
        accounts = LocalAccounts()
        assert [(await accounts.person(uid)).name for uid in (ANN, 4714, ANN, 4714)] == ["ann", "", "ann", ""]
        assert asked == [ANN, 4714]
        forgetful = LocalAccounts(kept_s=0.0)
        assert [(await forgetful.person(ANN)).name for _ in range(2)] == ["ann", "ann"]
        assert asked == [ANN, 4714, ANN, ANN]

    run(story())


def test_who_is_not_known_in_time_is_nobody_and_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        answer = threading.Event()
        monkeypatch.setattr(local_accounts, "person", lambda _uid: Person("ann" if answer.wait() else ""))
        accounts = LocalAccounts(patience_s=SHORT_S)
        assert await accounts.person(ANN) == Person()
        answer.set()
        await settled(lambda: not accounts.is_asking)
        accounts._threads.patience_s = PATIENCE_S
        assert await accounts.person(ANN) == Person("ann")

    run(story())


def test_while_the_directory_service_hangs_others_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        answer, here = threading.Event(), threading.Event()

        def person(_uid: int | None) -> Person:
            here.set()
            return Person("ann" if answer.wait() else "")

        monkeypatch.setattr(local_accounts, "person", person)
        async with same_names(tmp_path, {"name": "ann"}) as (master, owner):
            with monkeypatch.context() as meanwhile:
                connects_as(meanwhile, ANN)
                ann = await master.peer()
                asking = ann.ask("auth.whoami")
                await settled(here.is_set)
            assert (await owner.call("auth.whoami"))["role"] == "admin", "the loop goes on"
            answer.set()
            assert (await ann.answer(asking))["result"]["user"] == "ann"

    run(story())


@pytest.mark.usefixtures("asked")
def test_an_account_as_which_others_tasks_run_here_is_nobody_by_the_kernels_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with same_names(tmp_path, {"name": "ann", "role": "admin"}) as (master, _):
            connects_as(monkeypatch, ANN)
            assert (await (await master.peer()).call("auth.whoami"))["role"] == "admin"
            shared = NodeConfig(name="here", gpu_count=0, ip="127.0.0.1", user_name="ann")
            master.place.fleet.configs = {"here": shared}
            a_task_of_bob = await master.peer()
            assert (await a_task_of_bob.call("auth.whoami"))["user"] is None
            refused = (await a_task_of_bob.answer(a_task_of_bob.ask("user.add", name="eve")))["error"]["data"]
            assert (refused["code"], refused["key"]) == ("unauthenticated", "account_of_tasks")

    run(story())


@pytest.mark.usefixtures("asked")
def test_a_user_by_the_kernels_word_may_send_large_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with same_names(tmp_path, {"name": "ann"}) as (master, _):
            connects_as(monkeypatch, ANN)
            ann = await master.peer()
            assert (await ann.call("auth.whoami"))["user"] == "ann"
            assert (await ann.call("task.submit", command="true " + "x" * 100_000, hold=True))["id"]

    run(story())
