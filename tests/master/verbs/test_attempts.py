"""The attempts of a task as clients get them: with the task alone all of them, in a list what the last one is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from client.task_list import whole_tasks
from master.core.attempts.exits import Exit
from master.core.tasks.attempt import Part
from master.core.tasks.task import Task, TaskState
from master.durable import history
from master.durable.disk import OsDisk
from tests.master.in_process import InProcess, Peer, run
from tests.waiting import settled

PAGE_ONLY = ("attempts", "expected_s", "gpu_use", "held_by", "holders")
"""What `show` alone tells."""


async def ends(master: InProcess, task_id: int, code: int) -> None:
    """The task is started, runs and ends so."""
    task = master.core.tasks[task_id]
    await settled(lambda: bool(task.allocation))
    launch_id = task.allocation[0].launch_id
    master.engine.event(lambda: master.core.started("a", launch_id, task.submitted_at, task.submitted_at))
    exit_ = Exit(launch_id, "exited", task.submitted_at + 1.0, code)
    master.engine.event(lambda: master.core.exited("a", exit_, task.submitted_at + 1.0))


def test_show_tells_all_attempts_and_lists_tell_the_last_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            task_id = (await peer.call("task.submit", command="true", gpus=1))["id"]
            await ends(master, task_id, 3)
            await peer.call("task.retry", id=task_id)
            task = master.core.tasks[task_id]
            await settled(lambda: bool(task.allocation))
            assert (await peer.call("task.cancel", ids=[task_id]))["signalled"] == [task_id]
            shown = await peer.call("task.show", id=task_id)
            first, second = shown["attempts"]
            assert (first["no"], first["exit_code"], first["reason"], first["asked_end"]) == (1, 3, "exit code 3", None)
            assert (second["no"], second["ended_at"]) == (2, None)
            assert second["asked_end"] == shown["asked_end"] == {"why": "cancel", "by": await who(peer)}
            assert [second["parts"]] == [shown["allocation"]]
            assert all(one["parts"][0]["launch_id"].startswith(f"{task_id}.") for one in (first, second))
            (listed,) = (await peer.call("task.list"))["tasks"]
            assert listed == {key: value for key, value in shown.items() if key not in PAGE_ONLY}
            (sparse,) = whole_tasks(await peer.call("task.list", sparse=True))
            assert sparse == listed
            assert sparse["cancel_requested"]

    run(story())


async def who(peer: Peer) -> str:
    """Whose tasks those of this peer are."""
    task = await peer.call("task.submit", command="true", hold=True)
    shown = await peer.call("task.show", id=task["id"])
    await peer.call("task.remove", id=task["id"])
    return str(shown["owner"])


def test_attempts_outlive_the_master_and_go_with_the_task_to_the_monthly_files(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            task_id = (await peer.call("task.submit", command="true"))["id"]
            await ends(master, task_id, 3)
            await peer.call("task.retry", id=task_id)
            await ends(master, task_id, 0)
            before = await peer.call("task.show", id=task_id)
        assert len(before["attempts"]) == 2
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            assert (await peer.call("task.show", id=task_id))["attempts"] == before["attempts"]
            history.extend(OsDisk(), tmp_path / "task_info" / "history", [master.core.tasks[task_id]])
            master.engine.event(lambda: master.core.drop_archived([task_id]))
            await settled(lambda: task_id not in master.core.tasks)
            assert (await peer.call("task.show", id=task_id))["attempts"] == before["attempts"]

    run(story())


def test_what_an_earlier_version_archived_is_one_attempt_of_one_part(tmp_path: Path) -> None:
    old: dict[str, Any] = {
        "id": 7, "state": "failed", "command": "true", "attempt": 2, "started_at": 5.0, "ended_at": 1e9, "exit_code": 3,
        "allocation": [{"node": "a", "gpus": [1]}],
        "launch": {"launch_id": "7.2.x", "node": "a", "boot_id": "b", "state_id": "s"},
    }  # fmt: skip
    folder = tmp_path / "task_info" / "history"
    history.extend(OsDisk(), folder, [Task(id=8, command="true", state=TaskState.FAILED, ended_at=1e9)])
    month = next(folder.glob("*.jsonl"))
    month.write_text(f"{json.dumps(old, separators=(',', ':'))}\n{month.read_text('utf-8')}", "utf-8")

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            (attempt,) = (await peer.call("task.show", id=7))["attempts"]
            assert attempt["parts"] == [
                {"node": "a", "gpus": [1], "launch_id": "7.2.x", "boot_id": "b", "state_id": "s"}
            ]
            assert (attempt["no"], attempt["started_at"], attempt["ended_at"], attempt["exit_code"]) == (2, 5.0, 1e9, 3)
            await peer.call("task.retry", id=7)
            assert master.core.tasks[7].earlier[0].parts == [Part("a", [1], "7.2.x", "b", "s")]

    run(story())
