"""Masters that come and go in good order: down and up, two on one folder, and a folder that was copied."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.system.conftest import LabMaker
from tests.system.lab import Lab
from tests.waiting import until

if TYPE_CHECKING:
    from client.shapes import Node


def node_of(lab: Lab) -> Node:
    with lab.client() as client:
        return client.nodes()[0]


def state_of(lab: Lab, task_id: int) -> tuple[str, int | None]:
    with lab.client() as client:
        task = client.show(task_id)
    return task["state"], task["exit_code"]


def await_running(lab: Lab, task_ids: list[int]) -> None:
    with lab.client() as client:
        until("the tasks run", lambda: all(client.show(number)["state"] == "running" for number in task_ids))


def test_tasks_survive_down_and_up_with_their_exit_codes(lab: Lab) -> None:
    meanwhile, flag = lab.folder / "meanwhile", lab.folder / "go on"
    lab.folder.mkdir(exist_ok=True)
    awaits = "until [ -e '{}' ]; do sleep 0.1; done; exit {}"
    up = lab.muster("up", "--detach")
    assert up.returncode == 0, up.stderr
    with lab.client() as client:
        early = client.submit(awaits.format(meanwhile, 5), gpus=2)
        late = client.submit(awaits.format(flag, 6), gpus=6)
        queued = client.submit("exit 7", gpus=8)
    await_running(lab, [early, late])
    before = {process.launch_id for process in lab.attempts_alive()}

    down = lab.muster("down")
    assert down.returncode == 0, down.stderr
    assert "2 tasks run on" in down.stdout
    meanwhile.touch()
    until("the short task ends without a master", lambda: len({p.launch_id for p in lab.attempts_alive()}) == 1)
    up = lab.muster("up", "--detach")
    assert up.returncode == 0, up.stderr

    until("the exit of meanwhile is told", lambda: state_of(lab, early) == ("failed", 5))
    assert state_of(lab, late) == ("running", None)
    assert {process.launch_id for process in lab.attempts_alive()} < before
    flag.touch()
    until("the tasks end", lambda: state_of(lab, queued) == ("failed", 7))
    assert state_of(lab, late) == ("failed", 6)
    assert lab.muster("down").returncode == 0


def test_a_second_master_on_the_folder_ends_with_one_line_and_the_first_goes_on(lab: Lab) -> None:
    lab.start()
    out = lab.folder / "master.out"
    before = out.stat().st_size
    second = lab.launch_master()
    assert second.wait(60) == 1
    said = out.read_bytes()[before:].decode().splitlines()
    assert len(said) == 1
    assert said[0].startswith("error: locked: ")
    assert lab.master is not None
    assert str(lab.master.pid) in said[0]
    with lab.client() as client:
        task = client.submit("exit 0")
        assert client.wait([task], timeout=60)[task]["state"] == "succeeded"


def test_the_agents_refuse_a_copied_folder_and_go_on_with_the_original(make_system_lab: LabMaker) -> None:
    original = make_system_lab("original", nodes=1)
    original.start()
    until("the node is online", lambda: node_of(original)["state"] == "online")
    original.stop_master()
    copy = make_system_lab("copy", nodes=1, state=original.state)
    shutil.copytree(original.task_info, copy.task_info)
    original.start()
    until("the node is online again", lambda: node_of(original)["state"] == "online")

    for _ in range(2):  # the copy's next epochs are no better than its first
        copy.start()
        until("the copy is refused", lambda: "fenced" in (node_of(copy)["reason"] or ""))
        refused = node_of(copy)
        assert refused["state"] == "unreachable"
        assert "copied folder" in (refused["reason"] or "")
        with copy.client() as client:
            stuck = client.submit("exit 0")
            assert client.show(stuck)["state"] == "waiting"
        copy.stop_master()
    with original.client() as client:
        task = client.submit("exit 3", gpus=8)
        assert client.wait([task], timeout=60)[task]["exit_code"] == 3
