"""A lab that ran the old system goes on with Muster: its queue, its history, its logs, with a real master."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from master.setup.init.going_back import go_back
from tests.faults import in_words
from tests.old_lab import lay_out, tree
from tests.ports import free_ports
from tests.system.lab import Lab, rewrite
from tests.waiting import until

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

    def environment(self) -> dict[str, str]:
        """Likewise; and `init` is to note the lab for nobody but this test."""
        return {**super().environment(), "XDG_CONFIG_HOME": str(self.folder / "config")}

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
        rewrite(path, json.dumps([{**entry, **extra} for entry in entries]))
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
        assert tasks[task_id]["reason_key"] in {"old_running", "old_starting"}
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
    assert moved.master.wait(60) == 1
    said = (moved.folder / "master.out").read_text(encoding="utf-8")
    assert in_words(said, "queue_entry_wrong", number=2)
    assert f"such as {TRAIN + 1}" in said
    after = tree(moved.task_info)
    assert {name: after[name][1] for name in before} == {name: content for name, (_, content) in before.items()}


def test_the_command_says_what_does_not_go_together(moved: MovedLab) -> None:
    for words in (["--from", "x", "y"], ["--bind", "192.0.2.1"], ["--dry-run"]):
        assert moved.muster("init", *words).returncode == 2


def write_log(moved: MovedLab, task_id: int, text: str, age_s: float = 0.0) -> None:
    """A log as the old system leaves it, so many seconds older than the queue file."""
    path = moved.old.parent / f"data/task_logs/{task_id}.log"
    path.write_text(text, encoding="utf-8")
    at = (moved.task_info / "wait_task.json").stat().st_mtime - age_s
    os.utime(path, (at, at))


def test_what_ran_after_the_old_master_last_wrote_its_queue_is_held_and_not_run_again(moved: MovedLab) -> None:
    """The old master writes once a minute; whoever stops it in between finds in the queue what has long begun."""
    write_log(moved, TRAIN, "epoch 1\n\nProgram Exit With Code 0\n")
    write_log(moved, AFTER_HISTORY, "epoch 1\n")
    write_log(moved, AFTER_DELETED, "of a first run\n\nProgram Exit With Code 1\n", age_s=3600)  # queued again since
    said = f"2026-11-21 任务 {URGENT:014d} 已添加\n2026-11-21 任务 {URGENT:014d} 开始执行\n任务 {SECOND:014d} 已添加\n"
    (moved.old / "server_log.log").write_text(said, encoding="utf-8")
    before = tree(moved.old)
    refused = moved.muster("init", "--from", str(moved.old))
    assert refused.returncode == 1
    for task_id, what in ((TRAIN, "ended"), (AFTER_HISTORY, "started"), (URGENT, "started")):
        assert f"task {task_id} seems to have {what}" in refused.stderr
    assert str(SECOND) not in refused.stderr
    assert str(AFTER_DELETED) not in refused.stderr
    assert tree(moved.old) == before

    assert moved.muster("init", "--from", str(moved.old), "--yes").returncode == 0
    moved.set_nodes(schedulable=True)
    moved.start()
    until("what does wait has run", lambda: moved.tasks()[AFTER_DELETED]["state"] == "succeeded")
    tasks = moved.tasks()
    held = {task_id for task_id, task in tasks.items() if task["state"] == "held"}
    assert held == {TRAIN, AFTER_HISTORY, URGENT}
    assert in_words(tasks[TRAIN]["reason"], "seems_ended")
    assert tasks[SECOND]["state"] == "waiting", "it waits for one that is held"
    assert moved.muster("release", str(TRAIN)).returncode == 0
    until("it runs when a person says so", lambda: moved.tasks()[SECOND]["state"] == "succeeded")
    assert moved.tasks()[TRAIN]["reason"] is None


def test_the_way_back_marks_as_run_what_has_run_meanwhile(moved: MovedLab) -> None:
    moved.take_over()
    conf = moved.old / "conf.json"
    old_conf = (moved.old / "conf.json.old").read_bytes()
    moved.start()
    assert moved.muster("hold", str(URGENT), str(AFTER_RUNNING)).returncode == 0
    moved.set_nodes(schedulable=True)
    moved.submit("true")
    ends = (TRAIN, SECOND, AFTER_HISTORY, AFTER_DELETED)
    until("the others have ended", lambda: {moved.tasks()[one]["state"] for one in ends} == {"succeeded"})
    refused = moved.muster("init", "--back", str(moved.old))
    assert refused.returncode == 1
    assert in_words(refused.stderr, "master_runs")
    moved.stop_master()
    back = moved.muster("init", "--back", str(moved.old))
    assert back.returncode == 0, back.stderr
    assert "1 task was submitted to Muster" in back.stdout
    assert f"unless you delete them there: {AFTER_RUNNING}, {URGENT}" in back.stdout
    queues = {
        name: json.loads((moved.task_info / f"{name}_task.json").read_bytes()) for name in ("wait", "exec", "hist")
    }
    assert [int(entry["task_id"]) for entry in queues["wait"]] == [AFTER_RUNNING, URGENT]
    assert queues["exec"] == []
    states = {int(entry["task_id"]): entry["state"] for entry in queues["hist"]}
    assert {task_id: states[task_id] for task_id in ends} == dict.fromkeys(ends, "accp")
    assert {states[task_id] for task_id in RUNNING} == {"offline_error"}
    assert set(HISTORY) <= set(states)
    assert conf.read_bytes() == old_conf
    again = moved.muster("init", "--back", str(moved.old))
    assert (again.returncode, in_words(again.stderr, "queues_not_taken_over")) == (1, True)
    assert moved.muster("init", "--from", str(moved.old), "--dry-run").returncode == 0


def test_a_way_back_that_was_killed_anywhere_is_finished_by_the_next(
    moved: MovedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved.take_over()
    conf = moved.old / "conf.json"
    old_conf = (moved.old / "conf.json.old").read_bytes()
    moved.start()
    moved.stop_master()
    before = tree(moved.old)

    class Killed(BaseException):
        pass

    def killed_after(steps: int) -> bool:
        """Go back, and be killed after so many changes of names; whether it got that far."""
        left = steps
        rename, replace = Path.rename, Path.replace

        def counted(how: Callable[[Path, Any], Path]) -> Callable[[Path, Any], Path]:
            def change(path: Path, target: Any) -> Path:
                nonlocal left
                if not left:
                    raise Killed
                left -= 1
                return how(path, target)

            return change

        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", counted(rename))
            patched.setattr(Path, "replace", counted(replace))
            try:
                go_back(moved.old)
            except Killed:
                return True
        return False

    steps = 0
    while killed_after(steps):
        done = moved.muster("init", "--back", str(moved.old))
        assert (done.returncode, "6 wait" in done.stdout) == (0, True), (steps, done)
        assert conf.read_bytes() == old_conf
        waiting = json.loads((moved.task_info / "wait_task.json").read_bytes())
        assert [int(entry["task_id"]) for entry in waiting] == list(WAITING), steps
        names = {path.name for path in moved.old.iterdir()}
        assert {"task_info", "task_info.muster"} == {name for name in names if name.startswith("task_info")}, steps
        assert not (moved.old / "task_info.muster" / "going-back").exists()
        again = moved.muster("init", "--back", str(moved.old))
        assert in_words(again.stderr, "queues_not_taken_over")
        shutil.rmtree(moved.old)
        for name, (mode, data) in before.items():
            path = moved.old / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(mode)
        steps += 1
    assert steps == 9
