"""A lab that ran the old system goes on with Muster: its queue, its history, its logs, with a real master."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.old_lab import lay_out, tree
from tests.system.lab import Lab, NeverError, free_ports, until
from tests.testbed.processes import Process

TRAIN, SECOND, AFTER_HISTORY, AFTER_DELETED, AFTER_RUNNING, URGENT = WAITING = (
    26112106053964, 26112106060112, 26112106071500, 26112106071501, 26112106080000, 26112106090000,
)  # fmt: skip
ENDED = ("succeeded", "failed", "cancelled", "timed_out", "lost")
RUNNING = (26112105000010, 26112105000011)
HISTORY = {
    26111812000001: "succeeded", 26112018300099: "failed", 26112019000000: "cancelled", 26112020000000: "lost",
}  # fmt: skip


class MovedLab(Lab):
    """A lab whose folder is an old system's; its nodes are this machine, and take no tasks until they are told to."""

    def __init__(self, folder: Path, *, state: Path | None = None) -> None:
        super().__init__(folder, nodes=0, state=state)
        self.old = lay_out(folder / "gpulab", free_ports(3))
        self.conf = self.old / "conf.json"

    @property
    def task_info(self) -> Path:
        """Where the old system kept its queues, and Muster goes on to."""
        return self.old / "task_info"

    def take_over(self) -> dict[str, Any]:
        """`muster init --from`, and then what an admin might do: other nodes."""
        done = self.muster("init", "--from", str(self.old), "--json")
        assert done.returncode == 0, done.stderr
        self.set_nodes(schedulable=False)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def set_nodes(self, *, schedulable: bool) -> None:
        """Have the registry's nodes be this machine."""
        path = self.old / "gpu_slaver_info.json"
        entries = json.loads(path.read_text(encoding="utf-8"))
        extra = {"driver": "local", "gpu_probe": "declared", "slots": 4, "schedulable": schedulable}
        path.write_text(json.dumps([{**entry, **extra} for entry in entries]), encoding="utf-8")
        self.nodes = [entry["name"] for entry in entries]

    def submit(self, *command: str) -> int:
        """A new task; its id."""
        with self.client() as client:
            return client.submit(list(command))

    def tasks(self) -> dict[int, dict[str, Any]]:
        """`muster queue --all --json`."""
        done = self.muster("queue", "--all", "--json")
        assert done.returncode == 0, done.stderr
        return {task["id"]: task for task in json.loads(done.stdout)}

    def close(self) -> list[Process]:
        """End all of it. An agent is known by its command: its folder does not spell the node's name as we do."""
        self.kill_master()
        for process in self.processes():
            if " serve --state " in process.command:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
        with suppress(NeverError):
            until("nothing of the lab lives", lambda: not self.processes(), patience=6)
        self.nodes = []
        return super().close()


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[MovedLab]:
    """An old lab, not taken over yet."""
    made = MovedLab(tmp_path / "lab")
    yield made
    assert made.close() == []


def test_the_queues_are_what_they_should_be(moved: MovedLab) -> None:
    assert moved.take_over()["tasks"]["waiting"] == len(WAITING)
    before = tree(moved.task_info)
    moved.start()
    tasks = moved.tasks()
    assert {task_id: tasks[task_id]["state"] for task_id in HISTORY} == HISTORY
    for task_id in RUNNING:
        assert tasks[task_id]["state"] == "lost"
        assert "how it ended is not known" in tasks[task_id]["reason"]
    assert tasks[RUNNING[0]]["allocation"] == [{"node": "Slaver1", "gpus": [0, 1]}]
    assert {task_id for task_id, task in tasks.items() if task["state"] == "waiting"} == set(WAITING)
    assert tasks.keys() == {*WAITING, *RUNNING, *HISTORY}
    first = tasks[TRAIN]
    assert first["command"] == 'bash run.sh --name "it\'s 第一" $((1+1))'
    assert (first["gpus"], first["env"], first["cwd"]) == (2, "base", str(moved.old.parent / "data/项目/检测"))
    assert first["log_path"] == str(moved.old.parent / f"data/task_logs/{TRAIN}.log")
    assert tasks[URGENT]["urgent"]
    assert tasks[URGENT]["node"] == "Slaver1"
    for name, (_, content) in before.items():
        assert (moved.task_info / f"{name}.old").read_bytes() == content


def test_waiting_tasks_come_in_their_order_and_wait_for_what_can_still_end(moved: MovedLab) -> None:
    moved.take_over()
    moved.start()
    new = moved.submit("true")
    assert new == 1
    for _ in range(2):
        assert [task["id"] for task in json.loads(moved.muster("queue", "--json").stdout)] == [
            URGENT, TRAIN, SECOND, AFTER_HISTORY, AFTER_DELETED, AFTER_RUNNING, new,
        ]  # fmt: skip
        tasks = moved.tasks()
        assert [task_id for task_id in WAITING if "to end" in tasks[task_id]["reason"]] == [SECOND]
        assert {task_id for task_id, task in tasks.items() if task["state"] == "waiting"} == {*WAITING, new}
        moved.kill_master()
        moved.start()


def test_logs_of_old_tasks_are_read(moved: MovedLab) -> None:
    moved.take_over()
    moved.start()
    for task_id in (26111812000001, 26112018300099, RUNNING[0]):
        log = (moved.old.parent / f"data/task_logs/{task_id}.log").read_bytes().decode()
        assert moved.muster("logs", str(task_id)).stdout == log.replace("\r", "\n")  # as text=True reads it
    assert moved.muster("logs", str(RUNNING[1])).stdout == ""


def test_what_waited_runs_in_its_folder_and_environment_and_history_can_run_again(moved: MovedLab) -> None:
    moved.take_over()
    moved.set_nodes(schedulable=True)
    moved.start()
    until("all that waited has ended", lambda: not [t for t in moved.tasks().values() if t["state"] not in ENDED])
    tasks = moved.tasks()
    assert {task_id: tasks[task_id]["state"] for task_id in WAITING} == dict.fromkeys(WAITING, "succeeded")
    assert tasks[SECOND]["started_at"] >= tasks[TRAIN]["ended_at"]
    assert moved.muster("logs", str(TRAIN)).stdout.splitlines()[:4] == [
        "folder 检测", "environment base", "words --name it's 第一 2", "nccl 1",
    ]  # fmt: skip
    again, edited = 26112019000000, 26112018300099
    assert moved.muster("edit", str(again), "command=echo again").returncode == 0
    assert moved.muster("edit", str(edited), "command=bash run.sh --edited", "gpus=2").returncode == 0
    retried = 26111812000001
    assert moved.muster("retry", str(retried)).returncode == 0
    done = moved.muster("wait", str(again), str(edited), str(retried))
    assert done.returncode == 0, done.stderr
    tasks = moved.tasks()
    assert (tasks[retried]["attempt"], tasks[retried]["allocation"][0]["node"]) == (2, "Slaver1")
    assert "words --edited" in moved.muster("logs", str(edited)).stdout
    assert moved.submit("true") == 1


def test_the_old_system_can_be_put_back(moved: MovedLab) -> None:
    before = tree(moved.old)
    moved.take_over()
    moved.start()
    moved.stop_master()
    for copy in moved.old.rglob("*.old"):
        copy.replace(copy.with_suffix(""))
    after = tree(moved.old)
    assert {name: content for name, (_, content) in after.items() if name in before} == {
        name: content for name, (_, content) in before.items()
    }


def test_an_entry_that_cannot_be_keeps_the_master_from_starting(moved: MovedLab) -> None:
    moved.take_over()
    path = moved.task_info / "wait_task.json"
    twin = json.loads(path.read_text(encoding="utf-8"))
    twin[1]["task_id"] = twin[0]["task_id"]
    path.write_text(json.dumps(twin), encoding="utf-8")
    before = tree(moved.task_info)
    moved.master = moved.launch_master()
    assert moved.master.wait(20) == 1
    said = (moved.folder / "master.out").read_text(encoding="utf-8")
    assert "entry 2 is not a task" in said
    assert f"such as {TRAIN + 1}" in said
    assert {name: file for name, file in tree(moved.task_info).items() if name in before} == before


def test_the_command_says_what_does_not_go_together(moved: MovedLab) -> None:
    for words in (["--from", "x", "y"], ["--bind", "192.0.2.1"], ["--dry-run"]):
        assert moved.muster("init", *words).returncode == 2
