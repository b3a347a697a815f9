"""A user's account can stop the process that touches files with its rights, or mount what never answers: that keeps
nobody else from their files and logs."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from master.files.drafts import Drafts
from master.files.owners import Who
from master.files.threads import PER_KEY, STUCK, Threads, Whose
from master.helpers.helper import Helper
from master.helpers.pool import Pool
from master.helpers.remote import As, JailAs
from tests.faults import refusing
from tests.master.helpers.spawned import Spawned, setup_of
from tests.master.in_process import run
from tests.waiting import settled
from wire.errors import LimitError, StorageError

HASTY_S = 0.2
PATIENT_S = 30.0


def test_calls_of_one_account_that_hang_keep_no_other_from_the_same_storage() -> None:
    async def story() -> None:
        threads = Threads(patience_s=HASTY_S)
        hang = threading.Event()
        told = await asyncio.gather(
            *(threads.call("data", lambda _tick: hang.wait(), Whose("cy")) for _ in range(STUCK)),
            return_exceptions=True,
        )
        assert all(isinstance(one, StorageError) for one in told)
        threads.patience_s = PATIENT_S
        with pytest.raises(StorageError, match=f"{STUCK} calls hang"):
            await threads.call("data", lambda _tick: 1, Whose("cy"))
        assert await threads.call("data", lambda _tick: 2, Whose("bob")) == 2
        assert await threads.call("data", lambda _tick: 3) == 3
        hang.set()
        await settled(lambda: not threads.running)
        assert await threads.call("data", lambda _tick: 1, Whose("cy")) == 1
        assert not threads.storages

    run(story())


def test_a_storage_at_which_several_accounts_hang_or_the_master_does_is_refused_to_all() -> None:
    async def story() -> None:
        for accounts in ([f"user{number}" for number in range(STUCK)], [""] * STUCK, ["", "", "ann", "bob"]):
            threads = Threads(patience_s=HASTY_S)
            hang = threading.Event()
            calls = [threads.call("nfs", lambda _tick, hang=hang: hang.wait(), Whose(name)) for name in accounts]  # type: ignore[misc]
            await asyncio.gather(*calls, return_exceptions=True)
            for account in ("zoe", ""):
                with pytest.raises(StorageError, match=f"{STUCK} calls hang"):
                    await threads.call("nfs", lambda _tick: 1, Whose(account))
            assert await threads.call("data", lambda _tick: 2, Whose("zoe")) == 2
            hang.set()
            await settled(lambda threads=threads: not threads.running)  # type: ignore[misc]
            assert not threads.storages

    run(story())


def test_an_account_has_few_threads_whatever_storages_it_names() -> None:
    async def story() -> None:
        threads = Threads(patience_s=PATIENT_S)
        go = threading.Event()
        calls = [
            asyncio.ensure_future(threads.call(f"logs{number}", lambda _tick: go.wait(PATIENT_S), Whose("cy")))
            for number in range(4 * PER_KEY)
        ]
        await settled(lambda: threads.running.total() == PER_KEY)
        threads.patience_s = HASTY_S
        with pytest.raises(LimitError, match="try again"):
            await threads.call("one more", lambda _tick: 1, Whose("cy"))
        assert await threads.call("logs1", lambda _tick: 2, Whose("bob")) == 2
        go.set()
        assert all(await asyncio.gather(*calls))

    run(story())


def test_where_all_is_done_with_the_masters_rights_a_user_leaves_half_to_others() -> None:
    async def story() -> None:
        threads = Threads(patience_s=PATIENT_S)
        go = threading.Event()
        calls = [
            asyncio.ensure_future(threads.call("data", lambda _tick: go.wait(PATIENT_S), Whose(user="cy")))
            for _ in range(4 * PER_KEY)
        ]
        await settled(lambda: threads.running["data"] == PER_KEY // 2)
        assert await threads.call("data", lambda _tick: 2, Whose(user="bob")) == 2
        assert await threads.call("data", lambda _tick: 3) == 3
        alone = Threads(patience_s=PATIENT_S, per_key=1)
        assert await alone.call("data", lambda _tick: 4, Whose(user="cy")) == 4
        threads.patience_s = HASTY_S
        with pytest.raises(LimitError, match=f"{PER_KEY // 2} file operations"):
            await threads.call("data", lambda _tick: 5, Whose(user="cy"))
        go.set()
        assert all(await asyncio.gather(*calls))
        assert not threads.storages

    run(story())


class Stopped(Spawned):
    """Its helpers are stopped once they are who they shall be."""

    def start(self, account: str) -> Helper:
        helper = super().start(account)
        pid = self.running[-1].pid
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        return helper


def test_a_helper_that_was_stopped_holds_no_thread_and_is_followed_by_no_other(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    starter = Stopped(setup_of(tmp_path), patience_s=HASTY_S)
    pool = Pool(starter)
    jail = JailAs(As(pool, "cy", Who("cy"), Drafts(tmp_path / "drafts.json")))
    try:
        for _ in range(3):
            with refusing(StorageError, "helper_silent", account="cy", seconds=HASTY_S):
                jail.list("data")
        assert starter.started == ["cy"]
    finally:
        os.kill(starter.running[0].pid, signal.SIGCONT)
    pool.close()
    assert starter.close() == ""
