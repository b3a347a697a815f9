"""Killing reaches the whole tree, also what ignores, hides or daemonises, and an exit means that all of it is dead."""

from __future__ import annotations

import time

from tests.agent.small_master import Link, Node, alive
from tests.waiting import until

DAEMON = """
import os, sys, time
standing, stands = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ.clear()
        print("daemon", os.getpid(), flush=True)
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"], {})
    os._exit(0)
os.close(stands)
os.wait()
os.read(standing, 1)
"""
"""Goes on when what it leaves behind has said its pid and stands: that closes the pipe."""


def start(node: Node, link: Link, launch_id: str, command: str | list[str], said: str, **keys: object) -> None:
    """Launch, and wait until the command has said something."""
    node.launch(link, launch_id, command, **keys)
    until(said, lambda: said in node.text(launch_id))


def test_term_is_enough_for_who_listens(node: Node) -> None:
    link = node.up()
    start(node, link, "t1", "trap 'echo tidy; exit 5' TERM; echo up; sleep 1000 & wait", "up")
    link.kill("t1")
    end = link.wait_for("exit", "t1")
    assert (end["code"], end["cause"]) == (5, "killed")
    assert node.text("t1") == "up\ntidy\n\nProgram Exit With Code 5\n"
    assert node.carriers("t1") == []


def test_who_ignores_term_is_killed_after_the_grace_of_the_kill(node: Node) -> None:
    link = node.up()
    start(node, link, "t1", "trap '' TERM; echo up; while :; do sleep 0.1; done", "up", grace_s=1000.0)
    before = time.monotonic()
    link.kill("t1", grace_s=0.5)
    end = link.wait_for("exit", "t1")  # which has less patience than the grace of the launch
    assert time.monotonic() - before >= 0.5
    assert (end["code"], end["cause"]) == (137, "killed")
    assert node.carriers("t1") == []


def test_a_second_kill_may_shorten_the_grace(node: Node) -> None:
    link = node.up()
    start(node, link, "t1", "trap '' TERM; echo up; while :; do sleep 0.1; done", "up")
    link.kill("t1", grace_s=1000)
    link.kill("t1", grace_s=0)
    assert link.wait_for("exit", "t1")["code"] == 137


def test_a_stopped_command_is_killed(node: Node) -> None:
    link = node.up()
    start(node, link, "t1", "echo up; kill -STOP $$; sleep 1000", "up")
    link.kill("t1", grace_s=1000)
    assert link.wait_for("exit", "t1")["code"] == 143


def test_a_daemon_that_hid_from_session_and_environment_is_found(node: Node) -> None:
    link = node.up()
    start(node, link, "t1", [node.python, "-I", "-S", "-c", DAEMON + "time.sleep(1000)"], "daemon")
    daemon = int(node.text("t1").split()[1])
    link.kill("t1")
    assert link.wait_for("exit", "t1")["cause"] == "killed"
    assert not alive(daemon)


def test_what_stays_behind_after_the_command_is_ended_too(node: Node) -> None:
    end = node.run(node.up(), "t1", [node.python, "-I", "-S", "-c", DAEMON])
    assert (end["code"], end["cause"]) == (0, "exited")
    assert not alive(int(node.text("t1").split()[1]))


def test_a_left_over_that_ignores_term_delays_the_exit_by_its_grace_only(node: Node) -> None:
    link = node.up()
    before = time.monotonic()
    left_over = "(trap '' TERM; touch stands; while :; do sleep 0.1; done) &"
    end = node.run(link, "t1", f"{left_over} until [ -e stands ]; do sleep 0.01; done; exit 6")
    assert time.monotonic() - before >= 2.0
    assert (end["code"], end["cause"]) == (6, "exited")
    assert node.carriers("t1") == []


def test_a_kill_before_the_launch_keeps_the_launch_from_starting(node: Node) -> None:
    link = node.up()
    link.kill("t1")
    end = link.wait_for("exit", "t1")
    assert (end["code"], end["cause"]) == (None, "killed")
    node.launch(link, "t1", "true")
    assert link.wait_for("exit", "t1") == end
    node.kill_agent(link)
    again = node.up()
    assert again.inventory["t1"]["cause"] == "killed"
    assert node.run(again, "t1", "true")["cause"] == "killed"
    assert not node.log("t1").exists()


def test_a_kill_right_after_the_launch(node: Node) -> None:
    link = node.up()
    for number in range(20):
        node.launch(link, f"t{number}", "sleep 1000")
        link.kill(f"t{number}")
    until("all ended", lambda: all(entry["state"] == "ended" for entry in node.link().inventory.values()))
    assert {entry["cause"] for entry in node.link().inventory.values()} == {"killed"}


def test_a_kill_of_what_has_ended_is_answered_with_its_exit(node: Node) -> None:
    link = node.up()
    end = node.run(link, "t1", "exit 2")
    link.kill("t1")
    assert link.wait_for("exit", "t1") == end
