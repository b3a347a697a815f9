"""Tasks in the monthly files, as verbs see them: what comes after them, and who takes them back or away."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from master.core.tasks.task import Task, TaskState
from master.durable import history
from master.durable.disk import OsDisk
from tests.master.in_process import InProcess, MoodyDisk, run

SUCCEEDED, FAILED = 101, 102


class FullJournal(MoodyDisk):
    """A disk that takes everything but the journal while `is_full`."""

    is_full = False

    def write(self, fd: int, data: bytes) -> int:
        """Write, unless it is the journal."""
        if self.is_full and os.readlink(f"/proc/self/fd/{fd}").endswith("journal.jsonl"):  # noqa: PTH115  (no path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, data)

    @contextmanager
    def full(self) -> Iterator[None]:
        """The journal takes nothing."""
        self.is_full = True
        try:
            yield
        finally:
            self.is_full = False


@pytest.fixture
def months(tmp_path: Path) -> Path:
    """The history of `tmp_path`: one task that succeeded, one that failed."""
    folder = tmp_path / "task_info" / "history"
    ends = {SUCCEEDED: TaskState.SUCCEEDED, FAILED: TaskState.FAILED}
    tasks = [Task(id=number, command="true", state=state, ended_at=1e9) for number, state in ends.items()]
    history.extend(OsDisk(), folder, tasks)
    return next(folder.glob("*.jsonl"))


@pytest.mark.usefixtures("months")
def test_what_comes_after_an_archived_task_goes_by_how_that_ended(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            met = [{"id": SUCCEEDED}, {"id": FAILED, "on": "fail"}]
            first = (await peer.call("task.submit", command="true", after=met, request_id="once"))["id"]
            assert (await peer.call("task.submit", command="true", after=met, request_id="once"))["id"] == first
            shown = await peer.call("task.show", id=first)
            assert (shown["state"], [one["id"] for one in shown["after"]]) == ("waiting", [SUCCEEDED, FAILED])
            assert (await peer.call("task.why", id=first))["blocked_by"] == []
            preview = await peer.call("task.submit", command="true", after=met, dry_run=True)
            assert preview["possible"]
            code, said = await peer.refusal("task.submit", command="true", after=[{"id": FAILED}])
            assert (code, f"task {FAILED} has ended as failed" in said) == ("conflict", True)
            batch = {"commands": ["true"] * 2, "after": [{"id": SUCCEEDED, "on": "fail"}]}
            assert (await peer.refusal("task.submit_batch", **batch))[0] == "conflict"
            changed = await peer.call("task.edit", id=first, changes={"after": [{"id": SUCCEEDED, "on": "any"}]})
            assert changed["after"] == [{"id": SUCCEEDED, "on": "any"}]
            assert (await peer.refusal("task.edit", id=first, changes={"after": [{"id": FAILED}]}))[0] == "conflict"
            assert (await peer.refusal("task.submit", command="true", after=[{"id": 103}]))[0] == "not_found"

    run(story())


@pytest.mark.usefixtures("months")
@pytest.mark.parametrize("number", [1 << 63, 1 << 70])
def test_a_number_beyond_all_ids_is_no_task(tmp_path: Path, number: int) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            for verb in ("task.show", "task.why", "task.retry", "task.remove", "log.read"):
                assert (await peer.refusal(verb, id=number))[0] == "not_found"
            assert (await peer.call("task.cancel", ids=[number]))["codes"] == {str(number): "not_found"}
            assert (await peer.refusal("task.submit", command="true", after=[{"id": number}]))[0] == "not_found"

    run(story())


def test_a_task_that_is_taken_back_leaves_the_files_only_when_the_journal_has_it(tmp_path: Path, months: Path) -> None:
    content = months.read_bytes

    async def story() -> None:
        disk = FullJournal()
        before = content()
        async with InProcess(tmp_path, disk) as master:
            peer = await master.peer()
            with disk.full():
                assert (await peer.refusal("task.retry", id=SUCCEEDED))[0] == "store_unavailable"
                assert content() == before, "a kill now must leave it in the history"
            assert (await peer.call("task.retry", id=FAILED))["state"] == "waiting"
            assert content().startswith(before)
            assert b'"gone":[%d]' % FAILED in content()

    run(story())


def test_a_task_that_a_kill_left_in_both_places_is_deleted_from_both(tmp_path: Path, months: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            number = (await peer.call("task.submit", command="true"))["id"]
            await peer.call("task.cancel", ids=[number])
            # Between putting away and forgetting.
            history.extend(OsDisk(), months.parent, [master.core.tasks[number]])
            assert await peer.call("task.remove", id=number) == {"removed": [number]}
            assert (await peer.refusal("task.show", id=number))[0] == "not_found"
            assert (await peer.call("task.archived"))["total"] == 2

    run(story())


@pytest.mark.usefixtures("months")
@pytest.mark.parametrize("first", ["task.remove", "task.retry"])
def test_whoever_is_told_that_an_archived_task_is_deleted_never_sees_it_again(tmp_path: Path, first: str) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peers = {verb: await master.peer() for verb in (first, "task.remove", "task.retry")}
            asked = {verb: peer.ask(verb, id=SUCCEEDED) for verb, peer in peers.items()}
            answers = {verb: await peer.answer(asked[verb]) for verb, peer in peers.items()}
            assert answers["task.remove"]["result"] == {"removed": [SUCCEEDED]}
            assert (await (await master.peer()).refusal("task.show", id=SUCCEEDED))[0] == "not_found"

    run(story())
