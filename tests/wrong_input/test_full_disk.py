"""A disk that is really full, or read-only: growth is refused, the truth is recorded, all goes on."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

from client.shapes import Task
from tests.waiting import until
from tests.wrong_input.mistakes import ENDED, Lab8, Refusal


def fill(folder: Path) -> Path:
    """Take what is left of the disk; the file that holds it."""
    ballast = folder / "ballast"
    fd = os.open(ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    size = 1 << 16
    try:
        while size:
            try:
                os.write(fd, b"\0" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2
    finally:
        os.close(fd)
    return ballast


def remount(folder: Path, mode: str) -> None:
    """Make the disk `ro` or `rw`. The kernel does so only while nothing there is open for writing."""
    subprocess.run(["mount", "-o", f"remount,bind,{mode}", str(folder)], check=True)


def refused_for_the_disk(lab: Lab8) -> Refusal | None:
    """Submit; what was said if it was refused."""
    done = lab.muster("submit", "--hold", "--", "true")
    if done.returncode == 0:
        return None
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: store_unavailable: "), done.stderr
    return Refusal("store_unavailable", lines[0])


def running(lab: Lab8, task_id: int) -> bool:
    """Whether the task runs."""
    return lab.tasks()[task_id]["state"] == "running"


def waiting_for(lab: Lab8, flag: Path, code: int) -> int:
    """A task that ends with `code` once the file `flag` is there."""
    script = 'until [ -e "$0" ]; do sleep 0.05; done; exit $1'
    task_id = lab.submit("--log", "/dev/null", "--", "bash", "-c", script, str(flag), str(code))
    until("the task runs", lambda: running(lab, task_id))
    return task_id


def is_ended(lab: Lab8, task_id: int) -> Task | None:
    """The task if it has ended."""
    task = lab.tasks()[task_id]
    return task if task["state"] in ENDED else None


def test_on_a_full_disk_submits_are_refused_exits_recorded_and_all_goes_on_when_there_is_room(
    small_lab: Lab8, tmp_path: Path
) -> None:
    lab, flag = small_lab, tmp_path / "flag"
    lab.start()
    kept = lab.submit("--hold", "--", "true")
    task_id = waiting_for(lab, flag, 7)
    ballast = fill(lab.folder)
    refusal = until("a submit is refused", lambda: refused_for_the_disk(lab))
    assert str(lab.task_info) in refusal.message
    assert lab.muster("queue").returncode == 0
    flag.touch()
    assert until("the exit is recorded", lambda: is_ended(lab, task_id))["exit_code"] == 7
    # Recorded, not only told: it is there after a kill, with the disk as full as before.
    known = lab.tasks()
    lab.kill_master()
    lab.start()
    assert lab.tasks() == known
    assert refused_for_the_disk(lab) is not None
    ballast.unlink()
    until("submits are taken again", lambda: refused_for_the_disk(lab) is None)
    after = lab.ended(lab.submit("--", "true"))
    assert after["state"] == "succeeded"
    assert lab.tasks()[kept]["state"] == "held"
    lab.kill_master()
    lab.start()
    assert lab.tasks()[after["id"]]["state"] == "succeeded"


def test_a_task_that_fills_the_disk_can_be_cancelled(small_lab: Lab8) -> None:
    lab = small_lab
    lab.start()
    script = "until ! cat /dev/zero; do :; done 2>/dev/null; sleep 1000"
    task_id = lab.submit("--", "bash", "-c", script)
    until("the disk is full", lambda: refused_for_the_disk(lab))
    done = lab.muster("cancel", str(task_id))
    assert done.returncode == 0, done.stderr
    assert lab.ended(task_id)["state"] == "cancelled"
    Path(lab.tasks()[task_id]["log_path"]).unlink()
    until("submits are taken again", lambda: refused_for_the_disk(lab) is None)


def test_a_master_cannot_start_on_a_full_disk_and_says_so(small_lab: Lab8) -> None:
    lab = small_lab
    lab.task_info.mkdir()
    ballast = fill(lab.folder)
    refusal = lab.refused_start()
    assert refusal.code == "store_unavailable"
    assert "No space left on device" in refusal.message
    ballast.unlink()
    lab.start()
    assert lab.submit("--hold", "--", "true") == 1


def test_on_a_read_only_disk_no_master_starts_and_what_ended_meanwhile_is_learnt_afterwards(
    small_lab: Lab8, small_disk: Path, tmp_path: Path
) -> None:
    lab, flag = small_lab, tmp_path / "flag"
    lab.start()
    task_id = waiting_for(lab, flag, 5)
    known = lab.tasks()
    lab.stop_master()
    remount(small_disk, "ro")
    try:
        refusal = lab.refused_start()
        assert refusal.code in {"config", "store_unavailable"}
        assert "Read-only file system" in refusal.message
        flag.touch()
    finally:
        remount(small_disk, "rw")
    lab.start()
    assert lab.tasks().keys() == known.keys()
    assert until("the exit is learnt", lambda: is_ended(lab, task_id))["exit_code"] == 5
