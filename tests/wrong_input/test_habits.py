"""Habits that need a real master: what is so is told, with what to do, and nothing is done that was not asked for."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from master.verbs.spec import Editable
from tests.faults import in_words
from tests.ports import free_ports
from tests.system.lab import rewrite
from tests.waiting import until
from tests.wrong_input.mistakes import Lab8
from wire.message import Message

EDITS = [
    "name=n", "project=p", "command=echo new", "cwd=/", "env=/venv", "setup=true", "var.A=1", "gpu-ids=1,2", "cpus=2",
    "node=node0", "priority=4", "urgent=yes", "time-limit=90", "log=data/x.log",
]  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab8]:
    made = Lab8(tmp_path_factory.mktemp("lab"))
    made.change(visible_folders=["data"])
    made.start_whole()
    yield made
    left = made.close()
    made.no_traceback()
    assert not left


def shown(lab: Lab8, *words: str) -> Any:
    done = lab.muster(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_can_be_edited_is_shown(lab: Lab8) -> None:
    before = lab.submit("--hold", "--", "true")
    task_id = lab.submit("--hold", "--", "true")
    assert lab.muster("edit", str(task_id), *EDITS, f"after={before}:any").returncode == 0
    task = shown(lab, "show", str(task_id))
    fields = {"log": "log_path"}
    assert {fields.get(field, field) for field in Editable.__struct_fields__} - {"hold"} <= set(task)
    assert {name: task[name] for name in ("setup", "variables", "gpu_ids", "cpus", "gpus", "project")} == {
        "setup": "true", "variables": {"A": "1"}, "gpu_ids": [1, 2], "cpus": 2, "gpus": 2, "project": "p"
    }  # fmt: skip
    told = lab.muster("show", str(task_id)).stdout
    for text in ("setup:      true", "A=1", "exactly 1, 2", "2 CPUs", "echo new", "/venv", f"{before}:any", "urgent"):
        assert text in told, told


def test_the_log_that_somebody_deleted_is_told_as_gone(lab: Lab8) -> None:
    task_id = lab.submit("--", "echo", "hi")
    task = lab.ended(task_id)
    assert "hi" in lab.muster("logs", str(task_id)).stdout
    Path(task["log_path"]).unlink()
    for words in (["logs", str(task_id)], ["logs", "-f", str(task_id)], ["logs", "-n", "5", str(task_id)]):
        refusal = lab.refused(*words)
        assert refusal.code == "not_found"
        assert f"`muster retry {task_id}`" in refusal.message
    held = lab.submit("--hold", "--", "true")
    assert lab.muster("logs", str(held)).returncode == 0, "what has not run has nothing to have lost"
    quiet = lab.submit("--", "true")
    lab.ended(quiet)
    assert lab.muster("logs", str(quiet)).returncode == 0


def test_one_request_id_for_two_wishes_is_refused_also_after_a_restart(lab: Lab8) -> None:
    words = ["submit", "--hold", "--request-id", "nightly", "--gpus", "1", "--", "echo", "one"]
    first = lab.muster(*words).stdout
    assert first == lab.muster(*words).stdout, "the same submit is one submit"
    count = len(lab.tasks())
    other = [*words[:-1], "two"]
    more = [*words[:4], "--gpus", "2", "--", "echo", "one"]
    batch = lab.folder / "batch.txt"
    batch.write_text("echo one\n")
    batched = ["submit", "--request-id", "nightly", "--batch", str(batch)]
    for wrong in (other, more, batched):
        refusal = lab.refused(*wrong)
        assert refusal.code == "conflict"
        assert f"task {first.strip()}" in refusal.message
    lab.stop_master()
    lab.start_whole()
    assert lab.muster(*words).stdout == first
    assert lab.refused(*other).code == "conflict"
    assert len(lab.tasks()) == count


def test_what_could_never_run_is_refused_by_a_dry_run_too(lab: Lab8) -> None:
    refusal = lab.refused("submit", "--dry-run", "--gpus", "99", "--", "true")
    assert refusal.code == "impossible"
    assert "99 GPUs" in refusal.message
    done = lab.muster("submit", "--dry-run", "--gpus", "99", "--json", "--", "true")
    assert done.returncode == 1
    assert json.loads(done.stdout)["possible"] is False
    possible = lab.muster("submit", "--dry-run", "--gpus", "8", "--", "true")
    assert possible.returncode == 0
    assert possible.stdout.startswith("would")


def test_what_would_be_held_would_not_start_now(lab: Lab8) -> None:
    done = lab.muster("submit", "--dry-run", "--hold", "--", "true")
    assert (done.returncode, done.stdout) == (0, "would not start now: held until `muster release`\n")
    assert lab.refused("submit", "--dry-run", "--hold", "--gpus", "99", "--", "true").code == "impossible"


def test_show_tells_what_a_task_comes_after_however_that_was_said(lab: Lab8) -> None:
    first = lab.submit("--hold", "--", "true")
    for said, told in (("", "ok"), (":ok", "ok"), (":any", "any"), (":fail", "fail")):
        later = lab.submit("--after", f"{first}{said}", "--", "true")
        shown_by = lab.muster("show", str(later))
        assert shown_by.returncode == 0, shown_by.stderr
        assert f"after:      {first}:{told}" in shown_by.stdout.splitlines()
        assert shown(lab, "show", str(later))["after"] == [{"id": first, "on": told}]
        edited = lab.muster("edit", str(later), f"after={first}")
        assert edited.returncode == 0, edited.stderr
        assert f"after:      {first}:ok" in lab.muster("show", str(later)).stdout.splitlines()
    lab.muster("cancel", "--all", "--yes")


def test_a_token_that_opens_nothing_is_refused_although_the_kernel_knows_who_it_is(lab: Lab8) -> None:
    refusal = lab.refused("queue", "--token", "secret")
    assert refusal.code == "unauthenticated"
    assert refusal.message == str(Message("no_such_token"))


def test_a_file_is_put_onto_a_file_only_when_told(lab: Lab8) -> None:
    folder = lab.folder / "here"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(name)
    there = lab.folder / "data" / "b.txt"
    there.parent.mkdir(exist_ok=True)
    assert lab.muster("files", "put", str(folder / "b.txt"), "data/b.txt").returncode == 0
    refusal = lab.refused("files", "put", str(folder / "a.txt"), "data/b.txt")
    assert refusal.message == str(Message("is_there", path="data/b.txt"))
    for words in (["-r", str(folder), "data/b.txt"], ["-rf", str(folder), "data/b.txt"]):
        assert lab.refused("files", "put", *words).message == str(Message("folder_over_file", path="data/b.txt"))
    for words in ([str(folder / "a.txt"), str(folder / "b.txt"), "data/b.txt"], [str(folder / "a.txt"), "data/b.txt/"]):
        assert lab.refused("files", "put", *words).message == str(Message("target_is_file", path="data/b.txt"))
    assert there.read_text() == "b.txt"
    assert lab.muster("files", "put", "-f", str(folder / "a.txt"), "data/b.txt").returncode == 0
    assert there.read_text() == "a.txt"


def test_who_gets_a_file_onto_a_dash_is_told_how_one_is_printed(lab: Lab8) -> None:
    assert lab.refused("files", "get", "data/b.txt", "-").message == str(Message("get_to_stdout"))


def test_why_says_nothing_twice_and_of_two_hundred_nodes_one_line(lab: Lab8) -> None:
    before = lab.registry.read_text()
    entry = {"driver": "report", "gpu_count": 9}
    lab.write_registry([*json.loads(before), *({"name": f"far{n:03}", **entry} for n in range(1, 202))])
    until("the nodes are known", lambda: len(shown(lab, "nodes")) == 202)
    waiting = lab.submit("--gpus", "9", "--", "true")
    told = lab.muster("why", str(waiting)).stdout.splitlines()
    assert told[3:] == ["  would start if one of nodes far[001-201] comes back"], told
    assert told[0] == f"task {waiting} (waiting): needs 9 GPUs"
    assert told[1].startswith("  far[001-201]: ")
    row = next(line for line in lab.muster("queue").stdout.splitlines() if line.split()[0] == str(waiting))
    assert "far[001" in row
    refusal = lab.refused("submit", "--node", "far5", "--", "true")
    assert refusal.code == "impossible"
    assert "far[001-201]" in refusal.message
    assert len(refusal.message) < 150
    later = lab.submit("--after", str(waiting), "--", "true")
    told = lab.muster("why", str(later)).stdout.splitlines()
    assert told == [
        f"task {later} (waiting): waits for task {waiting} to succeed", f"  task {waiting} is waiting"
    ]  # fmt: skip
    lab.muster("cancel", str(waiting))
    rewrite(lab.registry, before)


def test_two_hundred_machines_that_are_off_are_one_line_however_they_are_addressed(lab: Lab8) -> None:
    before = lab.registry.read_text()
    entry = {"driver": "ssh", "port": 1, "user_name": "nobody", "gpu_count": 9}
    away = [{"name": f"off{n:03}", "ip": f"127.8.0.{n}", **entry} for n in range(1, 201)]
    lab.write_registry([*json.loads(before), *away])
    said = str(Message("connection_refused", peer="it"))
    told = f"off[001-200]: {said}"
    until("all of them were tried", lambda: told in lab.muster("nodes").stdout.splitlines(), 60)
    waiting = lab.submit("--gpus", "9", "--", "true")
    lines = lab.muster("why", str(waiting)).stdout.splitlines()
    assert lines[1] == f"  off[001-200]: unreachable ({said})"
    assert lines[3:] == ["  would start if one of nodes off[001-200] comes back"], lines
    assert told in lab.muster("status").stdout.splitlines()
    lab.muster("cancel", str(waiting))
    rewrite(lab.registry, before)


def test_a_priority_is_edited_whatever_else_is_wrong_with_the_task(lab: Lab8) -> None:
    before = lab.registry.read_text()
    entry = {"driver": "report", "gpu_count": 9}
    lab.write_registry([*json.loads(before), {"name": "far", **entry}])
    until("the node is known", lambda: len(shown(lab, "nodes")) == 2)
    task_id = lab.submit("--gpus", "9", "--node", "far", "--", "true")
    rewrite(lab.registry, before)
    until("the node is gone", lambda: len(shown(lab, "nodes")) == 1)
    assert "can never start" in lab.muster("why", str(task_id)).stdout
    done = lab.muster("edit", str(task_id), "priority=7", "name=later")
    assert done.returncode == 0, done.stderr
    task = shown(lab, "show", str(task_id))
    assert (task["priority"], task["name"], task["gpus"], task["node"]) == (7, "later", 9, "far")
    assert lab.refused("edit", str(task_id), "gpus=10").code == "impossible"
    assert lab.muster("edit", str(task_id), "gpus=1", "node=").returncode == 0
    assert lab.ended(task_id)["state"] == "succeeded"


def test_down_twice_says_that_it_is_down_already(lab: Lab8) -> None:
    assert lab.muster("down").returncode == 0
    assert lab.master is not None
    lab.master.wait(60)
    refusal = lab.refused("down", status=3)
    at = f"127.0.0.1:{json.loads(lab.conf.read_text(encoding='utf-8'))['socket_info']['data_port']}"
    assert refusal.message == str(Message("master_down_already", at=at))
    lab.start_whole()


def test_down_ends_the_master_that_listens_where_conf_json_said_before(lab: Lab8) -> None:
    before = json.loads(lab.conf.read_text(encoding="utf-8"))["socket_info"]
    task_id = lab.submit("--", "sleep", "1000")
    until("it runs", lambda: lab.tasks()[task_id]["state"] == "running")
    ports = dict(zip(("monitor_port", "data_port", "train_state_port"), free_ports(3), strict=True))
    lab.change(socket_info={**before, **ports})
    done = lab.muster("down")
    assert (done.returncode, done.stdout) == (0, "stopped\n")
    assert in_words(done.stderr, "master_listened_elsewhere")
    assert lab.master is not None
    lab.master.wait(60)
    lab.change(socket_info=before)
    lab.start_whole()
    assert lab.tasks()[task_id]["state"] == "running"
    assert lab.muster("cancel", str(task_id)).returncode == 0


def test_down_ends_nothing_where_another_machine_holds_the_lock(lab: Lab8) -> None:
    """Its pid is some other process here; the lock's file lies on a disk that both have."""
    assert lab.muster("down").returncode == 0
    assert lab.master is not None
    lab.master.wait(60)
    with (lab.task_info / "lock").open("r+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with subprocess.Popen(["sleep", "1000"]) as stranger:
            file.write(f"{stranger.pid}\n")
            file.flush()
            refusal = lab.refused("down")
            assert stranger.poll() is None
            stranger.kill()
    assert refusal.code == "conflict"
    assert in_words(refusal.message, "program_not_ended")
    lab.start_whole()
