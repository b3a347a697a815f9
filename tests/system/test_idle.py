"""A task that sits on its GPUs, on a machine whose GPUs are played: people see it, and see when it works again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.agent.fake_gpus import Machine, gpu, process
from tests.system.conftest import LabMaker
from tests.system.lab import Lab
from tests.waiting import until

IDLE_S = 2.0
LONG_IDLE_S = 8.0
"""Where a task is to write more often than that, on a machine that may stop it for a while."""
SAMPLES_S = 0.5
WORKS = "echo $$ > pid; while sleep 0.2; do [ -e talk ] && date >> out.log; done"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with two GPUs that do nothing; what is started from here on runs on it."""
    machine = Machine(tmp_path / "machine", *idle()).with_nvml()
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)
    return machine


def idle(*lines: str, utilization: int = 0) -> list[str]:
    return [gpu(0, util=utilization), gpu(1, util=0), *lines]


@pytest.fixture
def lab(machine: Machine, make_system_lab: LabMaker) -> Lab:
    """One node whose agent looks at its GPUs."""
    lab = make_system_lab(nodes=1, gpus=len(machine.path.read_text(encoding="utf-8").splitlines()))
    lab.write_scheduler(idle_after_s=IDLE_S, sample_s=SAMPLES_S)
    probing = {"ip": "127.0.0.1", "driver": "local", "gpu_probe": "auto", "gpu_count": lab.gpus}
    lab.write_registry([{"name": "node0", **probing}])
    return lab


def holds(lab: Lab, machine: Machine) -> int:
    """A task that has GPU memory; its id."""
    with lab.client() as client:
        task_id = client.submit(WORKS, gpus=1, name="bert", cwd=str(lab.folder), log=str(lab.folder / "out.log"))
    pid = until("the task runs", lambda: text_of(lab.folder / "pid"))
    machine.has(*idle(process(0, int(pid))))
    return task_id


def cancel(lab: Lab, task_id: int) -> None:
    with lab.client() as client:
        client.cancel([task_id])
        client.wait([task_id], 60)


def text_of(path: Path) -> str:
    return path.read_text(encoding="ascii").strip() if path.exists() else ""


def warning(lab: Lab, task_id: int) -> Any:
    with lab.client() as client:
        return client.show(task_id)["warning"]


def said(lab: Lab, *words: str) -> str:
    done = lab.muster(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_task_that_sits_on_its_gpu_is_shown_everywhere_until_it_works_again(lab: Lab, machine: Machine) -> None:
    lab.start()
    task_id = holds(lab, machine)
    told = until("the mark", lambda: warning(lab, task_id))
    assert "(0 on node node0)" in told
    for words in (["queue"], ["show", str(task_id)], ["why", str(task_id)]):
        assert told in said(lab, *words)
    assert f"1 running task does nothing with the GPUs held: {task_id}" in said(lab, "status")
    with lab.client() as client:
        assert [task["warning"] for task in client.tasks()] == [told]
        assert client.read_log(task_id, 0)[1]["warning"] == told, "who follows the log is told with it"
    assert lab.server_log().count(f"(bert): {told}") == 1
    pid = int(text_of(lab.folder / "pid"))
    machine.has(*idle(process(0, pid), utilization=80))
    until("the mark is gone", lambda: warning(lab, task_id) is None)
    assert "idle" not in said(lab, "queue") + said(lab, "status")
    machine.has(*idle(process(0, pid)))
    until("the mark is back", lambda: warning(lab, task_id))
    (lab.folder / "talk").touch()
    until("the log grows", lambda: warning(lab, task_id) is None)
    cancel(lab, task_id)


def test_a_task_whose_log_grows_is_never_marked_and_a_restart_begins_anew(lab: Lab, machine: Machine) -> None:
    lab.write_scheduler(idle_after_s=LONG_IDLE_S)
    lab.start()
    (lab.folder / "talk").touch()
    task_id = holds(lab, machine)
    quiet_until = time.monotonic() + LONG_IDLE_S + 3 * SAMPLES_S
    while time.monotonic() < quiet_until:
        assert warning(lab, task_id) is None
        time.sleep(0.1)
    (lab.folder / "talk").unlink()
    until("the mark", lambda: warning(lab, task_id))
    lab.stop_master()
    lab.start()
    assert warning(lab, task_id) is None
    until("the mark again", lambda: warning(lab, task_id))
    cancel(lab, task_id)


def test_a_task_that_never_used_its_gpu_is_marked_until_its_log_grows(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        task_id = client.submit(WORKS, gpus=1, cwd=str(lab.folder), log=str(lab.folder / "out.log"))
    told = until("the mark", lambda: warning(lab, task_id))
    assert "(0 on node node0)" in told
    (lab.folder / "talk").touch()
    until("the log grows", lambda: warning(lab, task_id) is None)
    cancel(lab, task_id)


def test_a_lab_that_wants_no_marks_gets_none(lab: Lab, machine: Machine) -> None:
    lab.write_scheduler(idle_after_s=0)
    lab.start()
    task_id = holds(lab, machine)
    with lab.client() as client:
        until("the GPU is looked at", lambda: client.nodes()[0]["gpus"][0]["utilization"] == 0)
    time.sleep(2 * SAMPLES_S)
    assert warning(lab, task_id) is None
    cancel(lab, task_id)


def set_action(lab: Lab, action: str) -> None:
    said(lab, "set", "scheduler.idle_action", action)


def test_with_hold_next_the_owners_next_task_with_gpus_waits_until_the_idle_one_is_paused(
    lab: Lab, machine: Machine
) -> None:
    lab.start()
    set_action(lab, "hold_next")
    idle_one = holds(lab, machine)
    until("the mark", lambda: warning(lab, idle_one))
    with lab.client() as client:
        waits, other = client.submit("sleep 1000", gpus=1), client.submit("true", gpus=0)
        assert client.wait([other], 60)[other]["state"] == "succeeded", "it asks for no GPU"
        until("it waits for that", lambda: f"idle task {idle_one} of" in str(client.show(waits)["reason"]))
        assert "scheduler.idle_action" in said(lab, "why", str(waits))
        client.pause(idle_one)
        client.wait([waits], 60, until="started")
        client.resume(idle_one)
        until("the mark is back", lambda: warning(lab, idle_one))
        assert client.show(waits)["state"] == "running", "who has started runs on"
    for task in (waits, idle_one):
        cancel(lab, task)


def test_with_end_an_idle_task_is_ended_and_its_owner_reads_why(lab: Lab, machine: Machine) -> None:
    lab.start()
    set_action(lab, "end")
    idle_one = holds(lab, machine)
    with lab.client() as client:
        ended = client.wait([idle_one], 60)[idle_one]
        assert (ended["state"], ended["reason_key"]) == ("failed", "ended_as_idle")
    for words in (["queue", "--all"], ["show", str(idle_one)], ["why", str(idle_one)]):
        assert "scheduler.idle_action" in said(lab, *words)
