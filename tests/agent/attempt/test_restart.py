"""Agents, shims and machines die; what ran goes on, what ended is kept, and nothing is believed dead that lives."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.agent.small_master import Link, Node, alive
from tests.waiting import until


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
    until("the end", lambda: "Program Exit" in node.text("t1"))
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
    until("the shim's end", lambda: not alive(node.shim_of("t1")))
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
    until("it is up", lambda: "up" in node.text("t1"))
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    until("the shim's end", lambda: not alive(node.shim_of("t1")))
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


CLEAN = "exec env -i /bin/bash -c 'echo up $$; exec sleep 1000'"
HIDDEN = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("up", os.getpid(), flush=True)
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    os._exit(0)
os.wait()
os.execve("/bin/sleep", ["sleep", "1000"], {})
"""


def said_pid(node: Node, launch_id: str) -> int:
    """The pid that the command has written after `up`."""
    until("the command's word", lambda: "up" in node.text(launch_id))
    return int(node.text(launch_id).split()[1])


def orphaned(node: Node, link: Link, launch_id: str, *, agent_too: bool) -> Link:
    """Its shim is killed, and the agent before it or not; a link to the agent that looks after it."""
    shim = node.shim_of(launch_id)
    if agent_too:
        node.kill_agent(link)
    os.kill(shim, signal.SIGKILL)
    until("the shim's end", lambda: not alive(shim))
    return node.up() if agent_too else link


@pytest.mark.parametrize("agent_too", [False, True])
def test_a_tree_that_cleaned_its_environment_is_waited_for_without_its_shim(node: Node, *, agent_too: bool) -> None:
    link = node.up()
    node.launch(link, "t1", CLEAN)
    link.wait_for("started", "t1")  # else the shim may be killed before it has written that down
    pid = said_pid(node, "t1")
    assert node.carriers("t1") == []
    link = orphaned(node, link, "t1", agent_too=agent_too)
    assert node.link().inventory["t1"]["state"] == "running"
    again = node.link()
    again.kill("t1", grace_s=0.2)
    assert again.wait_for("exit", "t1")["cause"] == "killed"
    assert not alive(pid)


@pytest.mark.parametrize("dies", ["the shim", "the shim of an agent that was replaced"])
def test_a_daemon_that_hid_from_everything_is_waited_for_without_its_shim(node: Node, dies: str) -> None:
    """It has another session, a clean environment, and no parent of its own any more."""
    link = node.up()
    node.launch(link, "t1", [node.python, "-I", "-S", "-c", HIDDEN])
    daemon = said_pid(node, "t1")
    pid = int(link.wait_for("started", "t1")["pid"])
    if dies != "the shim":
        node.kill_agent(link)
        link = node.up()  # the first look at what it found is its first survey
        link.ping()
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    assert link.wait_for("exit", "t1")["cause"] == "unknown"
    assert not alive(daemon)  # the command was over, so what it left was ended


def test_what_hides_from_a_dead_shim_between_two_looks_is_found(node: Node) -> None:
    link = node.up()
    script = "import os, time\nprint('up', os.getpid(), flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    node.launch(link, "t1", [node.python, "-I", "-S", "-c", script + HIDDEN.replace("up", "hid")])
    said_pid(node, "t1")
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    until("the shim's end", lambda: not alive(node.shim_of("t1")))
    (node.state / "go").touch()
    until("the daemon", lambda: "hid" in node.text("t1"))
    daemon = int(node.text("t1").split()[-1])
    link.kill("t1", grace_s=0.1)
    assert link.wait_for("exit", "t1")["cause"] == "killed"
    assert not alive(daemon)


def test_trees_without_shims_are_kept_apart(node: Node) -> None:
    link = node.up()
    for name in ("t1", "t2"):
        node.launch(link, name, CLEAN)
        link.wait_for("started", name)  # else the shim may be killed before it has written that down
    first, second = said_pid(node, "t1"), said_pid(node, "t2")
    for name in ("t1", "t2"):
        os.kill(node.shim_of(name), signal.SIGKILL)
    until("the shims' end", lambda: not any(alive(node.shim_of(name)) for name in ("t1", "t2")))
    link.kill("t1", grace_s=0.1)
    assert link.wait_for("exit", "t1")["cause"] == "killed"
    assert not alive(first)
    assert alive(second)
    last = node.link()
    assert last.inventory["t2"]["state"] == "running"
    last.kill("t2", grace_s=0.1)
    last.wait_for("exit", "t2")
    assert not alive(second)


GIVEN = {"CUDA_VISIBLE_DEVICES": "2,5", "MUSTER_TASK_NAME": "training"}


def told(link: Link, launch_id: str = "t1") -> dict[str, object]:
    """What an inventory says of the launch of an attempt."""
    return {key: value for key, value in link.inventory[launch_id].items() if key in ("gpus", "name", "log")}


def test_an_inventory_tells_what_the_launch_gave_by_the_agent_that_got_it_and_by_the_next_one(node: Node) -> None:
    link = node.up()
    node.launch(link, "t1", "sleep 1000", env=GIVEN)
    link.wait_for("started", "t1")
    first = told(node.link())
    assert (first["gpus"], first["name"]) == ("2,5", "training")
    assert str(first["log"]).startswith("/")
    node.kill_agent(link)
    again = node.up()
    assert told(again) == first
    again.kill("t1")
    again.wait_for("exit", "t1")
    assert told(node.link()) == {}


def test_that_there_are_no_gpus_is_told_and_that_a_record_does_not_say_it(node: Node) -> None:
    link = node.up()
    node.launch(link, "t1", "sleep 1000", env={**GIVEN, "CUDA_VISIBLE_DEVICES": ""})
    link.wait_for("started", "t1")
    node.launch(link, "t2", "sleep 1000", env={**GIVEN, "MUSTER_TASK_NAME": "n" * 9000})
    link.wait_for("started", "t2")
    node.kill_agent(link)
    record = node.claim("t2") / "record"
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    before = [{key: value for key, value in line.items() if key not in ("gpus", "name")} for line in lines]
    with record.open("r+b") as file:  # as an agent of the earlier version wrote it; its lock stays
        file.truncate()
        file.write(b"".join(json.dumps(line).encode() + b"\n" for line in before))
    again = node.up()
    assert told(again)["gpus"] == ""
    assert set(told(again, "t2")) == {"log"}
    assert len(lines[0]["name"]) <= 256
    for launch_id in ("t1", "t2"):
        again.kill(launch_id)
        again.wait_for("exit", launch_id)
