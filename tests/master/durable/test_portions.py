"""Many tasks in portions: so many at once, and so many bytes; and large ended tasks do not stay in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from master.core.tasks.task import Task
from master.durable.portions import MOST_BYTES, portions
from tests.master.in_process import InProcess, run
from tests.waiting import settled

LARGE = MOST_BYTES // 2


def test_a_portion_ends_with_so_many_tasks_or_so_many_bytes_and_all_come_in_their_order() -> None:
    sizes = [1, 1, 1, LARGE, LARGE, 1, LARGE, 1, 1, MOST_BYTES, 1]
    tasks = [Task(id=number, command="x" * size) for number, size in enumerate(sizes)]
    parts = [[task.id for task in part] for part in portions(tasks, 4)]
    assert parts == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9], [10]]
    assert list(portions([], 4)) == []


@pytest.mark.master
def test_large_tasks_that_have_ended_move_to_the_monthly_files_beyond_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.core.tuning.set("scheduler.keep_history_bytes", 250_000, "root", 1.0)
            peer = await master.peer()
            small = await peer.call("task.submit", command="true", hold=True)
            await peer.call("task.cancel", ids=[small["id"]])
            for _ in range(6):
                large = await peer.call("task.submit", command="x" * 100_000, hold=True)
                await peer.call("task.cancel", ids=[large["id"]])
            known = len(master.core.tasks)
            monkeypatch.setattr(master.engine.store, "should_compact", lambda: len(master.core.tasks) >= known)
            await peer.call("task.submit", command="true", hold=True)
            await settled(lambda: len(master.core.tasks) < known and not master.engine.compacting.is_running)
            assert sorted(master.core.tasks) == [small["id"], 6, 7, 8]
            archived = await peer.call("task.archived")
            assert archived["total"] == 4
            first = archived["tasks"][-1]["id"]
            assert (await peer.call("task.show", id=first))["state"] == "cancelled"
            assert (await peer.call("task.retry", id=first))["state"] == "waiting"

    run(story())
