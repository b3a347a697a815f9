"""The state folder is emptied, removed or moved while tasks run: the agent ends, the next one is told by the master
what it knows of them, and nothing that lives is called dead, or cannot be killed any more."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.agent import tree
from tests.agent.small_master import Link, Message, Node, alive
from tests.waiting import until


def _empties(node: Node) -> None:
    node.empty()


def _removes(node: Node) -> None:
    shutil.rmtree(node.state)


def _moves(node: Node) -> None:
    node.state.rename(node.state.with_name("aside"))


LOSES = pytest.mark.parametrize("loses", [_empties, _removes, _moves])


def begun(node: Node, link: Link, command: str | list[str]) -> Message:
    """What the master heard of the start."""
    node.launch(link, "t1", command, cwd="/")
    started = link.wait_for("started", "t1")
    return {"launch_id": "t1", "pid": started["pid"], "pid_start": started["pid_start"], "started_at": started["at"]}


@LOSES
def test_the_next_agent_looks_after_what_runs_and_gets_its_exit_code(node: Node, loses: Callable[[Node], None]) -> None:
    link = node.up()
    gate = node.logs.parent / "gate"
    os.mkfifo(gate)
    told = begun(node, link, f"read word < {gate}; exit 9")
    loses(node)
    node.wait_agent_gone(link)
    again = node.up()
    assert again.inventory["t1"]["state"] == "running"  # its shim shows that
    again.adopt(told)
    assert (again.inventory["t1"]["state"], again.inventory["t1"]["pid"]) == ("running", told["pid"])
    gate.write_text("go\n", encoding="utf-8")
    assert (end := again.wait_for("exit", "t1"))["code"] == 9, end
    assert end["cause"] == "exited"


@LOSES
def test_what_was_adopted_can_be_killed_with_its_grace(node: Node, loses: Callable[[Node], None]) -> None:
    link = node.up()
    told = begun(node, link, "trap '' TERM; sleep 1000 & while :; do sleep 0.1; done")
    shim = node.shim_of("t1")
    loses(node)
    node.wait_agent_gone(link)
    again = node.up()
    again.adopt(told)
    again.kill("t1", grace_s=0.2)
    assert again.wait_for("exit", "t1")["cause"] == "killed"
    assert node.carriers("t1") == []
    until("the shim's end", lambda: not alive(shim))


def test_without_its_shim_and_with_a_clean_environment_it_is_still_alive(node: Node) -> None:
    link = node.up()
    told = begun(node, link, "exec env -i /bin/sleep 1000")
    until("the clean environment", lambda: not node.carriers("t1"))
    shim = node.shim_of("t1")
    node.kill_agent(link)
    node.empty()
    os.kill(shim, signal.SIGKILL)
    again = node.up()
    again.adopt(told)
    assert again.inventory["t1"]["state"] == "running"
    node.kill_agent(again)
    third = node.up()  # and it does not forget
    assert third.inventory["t1"]["state"] == "running"
    os.kill(told["pid"], signal.SIGKILL)
    assert third.wait_for("exit", "t1")["cause"] == "unknown"


def test_what_ended_meanwhile_is_told_as_unknown_once(node: Node) -> None:
    link = node.up()
    told = begun(node, link, "exec sleep 1000")
    node.kill_agent(link)
    shim = node.shim_of("t1")
    node.empty()
    os.kill(told["pid"], signal.SIGKILL)
    until("the shim's end", lambda: not alive(shim))
    again = node.up()
    again.adopt(told)
    end = again.wait_for("exit", "t1")
    assert (end["cause"], end["code"]) == ("unknown", None)
    again.adopt(told)
    again.ack("t1")
    again.ping()
    assert node.link().inventory == {}


def test_what_was_sent_and_not_heard_of_is_found_by_its_mark(node: Node) -> None:
    link = node.up()
    told = begun(node, link, "sleep 1000")
    node.kill_agent(link)
    node.empty()
    again = node.up()
    again.adopt({**told, "pid": 0, "pid_start": None, "started_at": None})
    again.ping()
    assert alive(told["pid"])
    assert "t1" in node.link().inventory
    last = node.link()
    last.kill("t1", grace_s=0.1)
    assert last.wait_for("exit", "t1")["cause"] == "killed"
    assert not alive(told["pid"])


def test_another_accounts_process_is_not_adopted(node: Node) -> None:
    link = node.up()
    stranger = subprocess.Popen(["setpriv", "--reuid=54321", "--clear-groups", "sleep", "1000"])
    try:
        until("the other account's process", lambda: Path(f"/proc/{stranger.pid}").stat().st_uid == 54321)
        found = tree.look(stranger.pid)
        assert found is not None
        link.adopt({"launch_id": "t1", "pid": stranger.pid, "pid_start": found.start, "started_at": 1.0})
        assert link.inventory == {}
        link.kill("t1", grace_s=0.0)
        link.ping()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_agent_whose_folder_is_gone_ends_though_a_task_outlives_it(node: Node) -> None:
    """Nobody can reach it any more; the task is its shim's."""
    link = node.up()
    told = begun(node, link, "sleep 1000")
    link.close()
    _removes(node)
    node.wait_agent_gone(link)
    assert alive(told["pid"])


def test_an_agent_that_could_not_write_an_end_does_not_stay_for_it(node: Node) -> None:
    """The claim and the end of the attempt went with the folder, and no master is there to hear of it."""
    link = node.up()
    told = begun(node, link, "sleep 1000")
    shim = node.shim_of("t1")
    shutil.rmtree(node.state / "attempts")
    link.close()
    os.kill(shim, signal.SIGKILL)
    os.kill(told["pid"], signal.SIGKILL)
    _removes(node)
    node.wait_agent_gone(link)


def test_an_exit_is_told_before_the_agent_of_a_lost_folder_ends(node: Node) -> None:
    link = node.up()
    told = begun(node, link, "read word; exit 4")  # its input is empty
    node.empty()
    assert link.wait_for("exit", told["launch_id"])["code"] in (1, 4)
    link.ack("t1")
    node.wait_agent_gone(link)
