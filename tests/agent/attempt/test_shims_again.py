"""A shim stands over the next attempt where the one before has left it nothing, and over no other."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.agent.small_master import Link, Node, alive, descriptors, known
from tests.waiting import until


def run(node: Node, link: Link, launch_id: str, command: str | list[str] = "true", **keys: object) -> int:
    """Run it to its end; the shim that stood over it."""
    node.run(link, launch_id, command, **keys)
    return node.shim_of(launch_id)


def begin(node: Node, link: Link, launch_id: str, command: str = "sleep 1000") -> int:
    """Have it run; its pid."""
    node.launch(link, launch_id, command)
    return int(link.wait_for("started", launch_id)["pid"])


def test_the_next_one_has_its_own_folder_log_variables_and_record(node: Node, tmp_path: Path) -> None:
    link = node.up()
    shim = run(node, link, "t1", "cd /; echo first; export COLOUR=red", cwd=str(tmp_path), env={"SHAPE": "round"})
    said = "pwd; echo $SHAPE $COLOUR $MUSTER_LAUNCH_ID"
    assert run(node, link, "t2", said, cwd=str(node.logs), env={"COLOUR": "blue"}) == shim
    assert node.text("t1") == "first\n\nProgram Exit With Code 0\n"
    assert node.text("t2") == f"{node.logs}\nblue {known('t2')}\n\nProgram Exit With Code 0\n"
    for name in ("t1", "t2"):
        lines = (node.claim(name) / "record").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["is"] for line in lines] == ["claim", "start", "exit"]


def test_it_keeps_nothing_open_and_stands_in_nobodys_way(node: Node, tmp_path: Path) -> None:
    link = node.up()
    shim = run(node, link, "t0", cwd=str(tmp_path))
    before = sorted(descriptors(shim))
    for number in range(1, 6):
        assert run(node, link, f"t{number}", cwd=str(tmp_path)) == shim
    assert sorted(descriptors(shim)) == before
    assert Path(f"/proc/{shim}/cwd").readlink() == Path("/")
    assert not {str(node.claim("t5") / "record"), str(node.log("t5"))} & set(descriptors(shim).values())


def test_a_burst_takes_as_many_as_run_at_a_time(node: Node) -> None:
    link = node.up()
    names = [f"t{number}" for number in range(30)]
    shims, waiting = set(), list(names[2:])
    for name in names[:2]:
        node.launch(link, name, "true")
    for _ in names:
        while (message := link.read())["op"] != "exit":
            pass
        assert message["code"] == 0
        shims.add(node.shim_of(message["launch_id"]))
        if waiting:
            node.launch(link, waiting.pop(0), "true")
    assert len(shims) <= 3  # those two, and one that was forked ahead


@pytest.mark.parametrize(
    "command",
    ["exit 3", "kill -9 $$", "(trap '' TERM; touch stands; exec sleep 0.3) & until [ -e stands ]; do sleep 0.01; done"],
)
def test_any_but_a_good_end_that_leaves_nothing_is_its_last(node: Node, command: str) -> None:
    link = node.up()
    shim = run(node, link, "t1", command)
    until("the shim's end", lambda: not alive(shim))
    assert run(node, link, "t2") != shim


def test_what_cannot_start_is_its_last(node: Node) -> None:
    link = node.up()
    shim = run(node, link, "t1", ["/no/such/program"])
    until("the shim's end", lambda: not alive(shim))


@pytest.mark.parametrize("stays", [0.0, 0.2])
def test_a_kill_that_comes_too_late_meets_no_other_attempt(node: Node, stays: float) -> None:
    link = node.up()
    run(node, link, "t0")
    for number in range(10):
        node.launch(link, f"a{number}", f"sleep {stays}")
        link.kill(f"a{number}")
        node.launch(link, f"b{number}", "true")
        assert link.wait_for("exit", f"b{number}")["code"] == 0


def test_killed_over_its_second_attempt_it_takes_nothing_of_the_first(node: Node) -> None:
    link = node.up()
    shim = run(node, link, "t1")
    begin(node, link, "t2")
    assert node.shim_of("t2") == shim
    os.kill(shim, signal.SIGKILL)
    until("the shim's end", lambda: not alive(shim))
    again = node.link()
    assert (again.inventory["t1"]["cause"], again.inventory["t1"]["code"]) == ("exited", 0)
    again.kill("t2", grace_s=0.2)
    assert again.wait_for("exit", "t2")["cause"] == "killed"
    assert node.run(again, "t3", "exit 4")["code"] == 4


def test_the_next_agent_takes_over_what_it_stands_over_and_then_it_ends(node: Node, tmp_path: Path) -> None:
    link = node.up()
    shim = run(node, link, "t1")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pid = begin(node, link, "t2", f"read word < {gate}")
    node.kill_agent(link)
    again = node.up()
    assert (again.inventory["t1"]["state"], again.inventory["t2"]["pid"]) == ("ended", pid)
    gate.write_text("go\n", encoding="utf-8")
    assert again.wait_for("exit", "t2")["code"] == 0
    until("the shim's end", lambda: not alive(shim))


def test_those_that_stand_by_end_with_their_agent(node: Node) -> None:
    link = node.up()
    shim = run(node, link, "t1")
    node.kill_agent(link)
    until("the shim's end", lambda: not alive(shim))


def test_a_state_folder_that_is_another_one_is_its_last(node: Node) -> None:
    """The next agent takes the shim for this attempt's as long as it lives."""
    link = node.up()
    pid = begin(node, link, "t1", "read word <> <(:); exit 0")
    shim = node.shim_of("t1")
    (node.claim("t1") / "record").unlink()
    os.kill(pid, signal.SIGKILL)
    until("the shim's end", lambda: not alive(shim))


def test_what_somebody_makes_up_of_a_shim_is_not_believed(node: Node) -> None:
    link = node.up()
    pid = begin(node, link, "t1")
    with (node.state / "reports").open("wb", buffering=0) as pipe:
        for line in ({"is": "look", "free": pid}, {"is": "look", "free": "x"}, {"is": "look", "free": []}):
            pipe.write(f"{known('t2')} {json.dumps(line)}\n".encode())
            pipe.write(f"{known('t1')} {json.dumps(line)}\n".encode())
    link.ping()
    assert node.run(link, "t3", "exit 4")["code"] == 4
    link.kill("t1")
    assert link.wait_for("exit", "t1")["cause"] == "killed"
