"""Agents, shims and machines die; what ran goes on, what ended is kept, and nothing is believed dead that lives."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from .small_master import Link, Node, alive, eventually


def begin(node: Node, link: Link, launch_id: str, command: str) -> int:
    """Launch, wait until it runs; its pid."""
    node.launch(link, launch_id, command)
    return int(link.wait_for("started", launch_id)["pid"])


def test_a_running_task_is_adopted_and_its_exit_told(node: Node, tmp_path: Path) -> None:
    link = node.up()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pid = begin(node, link, "t1", f"read word < {gate}; exit 9")
    node.kill_agent(link)
    again = node.up()
    assert (again.inventory["t1"]["state"], again.inventory["t1"]["pid"]) == ("running", pid)
    gate.write_text("go\n", encoding="utf-8")
    assert again.wait_for("exit", "t1")["code"] == 9


def test_what_ended_meanwhile_is_told_with_its_code(node: Node, tmp_path: Path) -> None:
    link = node.up()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    begin(node, link, "t1", f"read word < {gate}; exit 9")
    node.kill_agent(link)
    gate.write_text("go\n", encoding="utf-8")
    eventually(lambda: "Program Exit" in node.text("t1"), "the end")
    again = node.up()
    assert (again.inventory["t1"]["state"], again.inventory["t1"]["code"]) == ("ended", 9)


def test_an_adopted_task_can_be_killed(node: Node) -> None:
    link = node.up()
    begin(node, link, "t1", "sleep 1000 & sleep 1000")
    node.kill_agent(link)
    again = node.up()
    again.kill("t1")
    end = again.wait_for("exit", "t1")
    assert (end["code"], end["cause"]) == (143, "killed")
    assert node.carriers("t1") == []


def test_a_killed_shim_leaves_unknown_but_only_when_the_tree_is_gone(node: Node) -> None:
    link = node.up()
    pid = begin(node, link, "t1", "sleep 1000 & exec sleep 1000")
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    eventually(lambda: not alive(node.shim_of("t1")), "the shim's end")
    link.ping()
    assert node.link().inventory["t1"]["state"] == "running"
    again = node.link()
    os.kill(pid, signal.SIGKILL)
    end = again.wait_for("exit", "t1")
    assert node.carriers("t1") == []  # what the command left behind was ended, as its shim would have done
    assert (end["code"], end["cause"]) == (None, "unknown")
    assert json.loads((node.claim("t1") / "record").read_text(encoding="utf-8").splitlines()[-1])["cause"] == "unknown"


def test_a_tree_without_a_shim_can_be_killed(node: Node) -> None:
    link = node.up()
    node.launch(link, "t1", "trap '' TERM; echo up; while :; do sleep 0.1; done")
    eventually(lambda: "up" in node.text("t1"))
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    eventually(lambda: not alive(node.shim_of("t1")))
    link.kill("t1", grace_s=0.3)
    end = link.wait_for("exit", "t1")
    assert (end["code"], end["cause"]) == (None, "killed")
    assert node.carriers("t1") == []


def test_agent_and_shim_killed_together(node: Node) -> None:
    link = node.up()
    pid = begin(node, link, "t1", "sleep 1000")
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    node.kill_agent(link)
    again = node.up()
    assert again.inventory["t1"]["state"] == "running"
    os.kill(pid, signal.SIGKILL)
    assert again.wait_for("exit", "t1")["cause"] == "unknown"


def test_a_shim_that_dies_after_its_agent_was_replaced_is_noticed(node: Node) -> None:
    link = node.up()
    pid = begin(node, link, "t1", "sleep 1000")
    node.kill_agent(link)
    again = node.up()
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    assert again.wait_for("exit", "t1")["cause"] == "unknown"


def test_another_boot_id_ends_what_ran(node: Node) -> None:
    link = node.up(MUSTER_BOOT_ID="boot-1")
    assert link.welcome["boot_id"] == "boot-1"
    begin(node, link, "t1", "sleep 1000")
    node.run(link, "t2", "exit 3")
    for pid in (link.welcome["pid"], node.shim_of("t1"), *node.carriers("t1")):
        os.kill(pid, signal.SIGKILL)
    node.wait_agent_gone(link)
    again = node.up(MUSTER_BOOT_ID="boot-2")
    assert (again.inventory["t1"]["cause"], again.inventory["t1"]["code"]) == ("rebooted", None)
    assert (again.inventory["t2"]["cause"], again.inventory["t2"]["code"]) == ("exited", 3)
    assert node.run(again, "t1", "true")["cause"] == "rebooted"


def test_a_folder_claimed_by_nobody_alive_is_unknown_not_startable(node: Node) -> None:
    """As when a shim was killed between its mkdir and its first line."""
    node.claim("t1").mkdir(parents=True)
    link = node.up()
    assert node.run(link, "t1", "true")["cause"] == "unknown"
    assert not node.log("t1").exists()


def test_a_torn_last_line_is_as_if_not_written(node: Node) -> None:
    link = node.up()
    node.run(link, "t1", "exit 5")
    node.kill_agent(link)
    record = node.claim("t1") / "record"
    record.write_bytes(record.read_bytes()[:-20])
    link = node.up()
    assert link.wait_for("exit", "t1")["cause"] == "unknown"
    node.kill_agent(link)
    assert node.up().inventory["t1"]["cause"] == "unknown"


def test_a_half_forgotten_claim_is_swept(node: Node) -> None:
    left = node.state / "attempts" / ".t1"
    left.mkdir(parents=True)
    (left / "record").write_text("", encoding="utf-8")
    assert node.up().inventory == {}
    assert not left.exists()


def test_term_ends_the_agent_and_leaves_the_tasks(node: Node) -> None:
    link = node.up()
    pid = begin(node, link, "t1", "sleep 1000")
    os.kill(link.welcome["pid"], signal.SIGTERM)
    node.wait_agent_gone(link)
    assert alive(pid)
    assert node.up().inventory["t1"]["state"] == "running"


@pytest.mark.parametrize("with_file", [False, True])
@pytest.mark.parametrize(
    ("point", "causes"),
    [
        ("agent.before_fork", {"exited"}),
        ("agent.after_fork", {"exited"}),
        ("agent.before_exit_sent", {"exited"}),
        ("agent.after_exit_sent", {"exited"}),
        ("shim.after_claim", {"unknown"}),
        ("shim.after_start", {"unknown"}),
        ("shim.before_exit_record", {"unknown"}),
        ("shim.after_exit_record", {"exited"}),
    ],
)
def test_killed_at_each_step_the_command_starts_at_most_once(
    node: Node, tmp_path: Path, point: str, causes: set[str], *, with_file: bool
) -> None:
    asked = {} if with_file else {"MUSTER_AGENT_FAILPOINT": point}
    link = node.up(**asked)
    if with_file:
        (node.state / "failpoint").write_text(point + "\n", encoding="utf-8")
    command = f"echo start >> {tmp_path}/starts; exit 4"
    node.launch(link, "t1", command)
    if point.startswith("agent."):
        node.wait_agent_gone(link)
        link = node.up(**asked)
        if "t1" not in link.inventory:
            node.launch(link, "t1", command)
    end = link.wait_for("exit", "t1")
    assert end["cause"] in causes
    assert end["code"] == (4 if end["cause"] == "exited" else None)
    starts = (tmp_path / "starts").read_text(encoding="utf-8") if (tmp_path / "starts").exists() else ""
    assert starts == ("" if point == "shim.after_claim" else "start\n")
    assert not (node.state / "failpoint").exists()
