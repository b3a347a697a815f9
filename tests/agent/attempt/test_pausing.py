"""A whole tree stands still when that is asked for, and goes on; who looks later knows which of both is so."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from monitor.agent.attempt.attempt import RUNNING, Attempt
from monitor.agent.attempt.pausing import Pausing
from monitor.agent.tree import MARK
from tests.agent.attempt.test_kill import DAEMON, start
from tests.agent.small_master import Link, Message, Node, alive
from tests.waiting import until

COUNTS = "i=0; while :; do i=$((i+1)); echo $i >> {file}; sleep 0.01; done"


def state_of(pid: int) -> str:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text[text.rindex(")") + 2]


def told(link: Link, launch_id: str = "t1") -> bool:
    """Whether it stands, as the agent says next."""
    message = link.wait_for("started", launch_id)
    return bool(message.get("paused", False))


def counting(node: Node, link: Link, **keys: object) -> Path:
    """A command that counts in a file; the file, once it does."""
    counted = node.logs.parent / "counted"
    node.launch(link, "t1", COUNTS.format(file=counted), **keys)
    assert not told(link)
    until("it counts", counted.exists)
    return counted


def paused(node: Node, link: Link, **keys: object) -> Path:
    counted = counting(node, link, **keys)
    link.pause("t1")
    assert told(link)
    return counted


def test_nothing_happens_while_it_stands_and_all_of_it_goes_on(node: Node) -> None:
    link = node.up()
    counted = paused(node, link)
    stood_at = counted.stat().st_size
    assert {state_of(pid) for pid in node.carriers("t1")} == {"T"}
    link.ping()
    assert counted.stat().st_size == stood_at
    link.resume("t1")
    assert not told(link)
    until("it counts on", lambda: counted.stat().st_size > stood_at)


def test_what_left_the_session_and_cleared_its_environment_stands_too(node: Node) -> None:
    link = node.up()
    start(node, link, "t1", [node.python, "-I", "-S", "-c", DAEMON + "time.sleep(1000)"], "daemon")
    daemon = int(node.text("t1").split()[1])
    assert not told(link)
    link.pause("t1")
    assert told(link)
    assert state_of(daemon) == "T"
    link.resume("t1")
    assert not told(link)
    assert state_of(daemon) != "T"
    link.kill("t1")
    link.wait_for("exit", "t1")
    assert not alive(daemon)


def test_a_command_that_goes_on_forking_stands_whole(node: Node) -> None:
    link = node.up()
    start(node, link, "t1", "echo up; while :; do (sleep 0.001; :) & sleep 0.001; wait; done", "up")
    assert not told(link)
    for _ in range(5):
        link.pause("t1")
        assert told(link)
        assert {state_of(pid) for pid in node.carriers("t1")} == {"T"}
        link.resume("t1")
        assert not told(link)


def test_a_second_press_changes_nothing(node: Node) -> None:
    link = node.up()
    paused(node, link)
    link.pause("t1")
    link.ping()
    link.resume("t1")
    assert not told(link)
    link.resume("t1")
    assert not told(link), "who asks is answered each time"
    link.pause("t1")
    assert told(link)


def test_a_kill_reaches_what_stands_which_may_still_tidy_up(node: Node) -> None:
    link = node.up()
    start(node, link, "t1", "trap 'echo tidy; exit 5' TERM; echo up; while :; do sleep 0.01; done", "up")
    assert not told(link)
    link.pause("t1")
    assert told(link)
    link.kill("t1", grace_s=1000)
    assert not told(link)
    end = link.wait_for("exit", "t1")
    assert (end["code"], end["cause"]) == (5, "killed")
    assert "tidy" in node.text("t1")


def test_what_is_to_end_is_not_paused_any_more(node: Node) -> None:
    link = node.up()
    start(node, link, "t1", "trap 'echo heard; sleep 0.5; exit 5' TERM; echo up; while :; do sleep 0.01; done", "up")
    link.kill("t1", grace_s=1000)
    link.pause("t1")
    assert link.wait_for("exit", "t1")["code"] == 5


def test_the_time_limit_ends_what_stands(node: Node) -> None:
    link = node.up()
    paused(node, link, time_limit_s=10.0)
    assert link.wait_for("exit", "t1")["cause"] == "timed_out"


def test_the_next_agent_knows_that_it_stands_and_lets_it_go_on(node: Node) -> None:
    link = node.up()
    counted = paused(node, link)
    stood_at = counted.stat().st_size
    node.kill_agent(link)
    again = node.up()
    assert again.inventory["t1"]["paused"] is True
    again.resume("t1")
    assert not told(again)
    until("it counts on", lambda: counted.stat().st_size > stood_at)
    again.close()
    assert "paused" not in node.link().inventory["t1"]


def test_the_next_agent_lets_go_on_what_the_last_had_let_go_on_only_in_part(node: Node) -> None:
    link = node.up()
    node.launch(link, "t1", "sleep 1000 & wait")
    assert not told(link)
    until("there are two", lambda: len(node.carriers("t1")) == 2)
    link.pause("t1")
    assert told(link)
    node.kill_agent(link)
    bash, sleep = sorted(node.carriers("t1"))
    os.kill(bash, signal.SIGCONT)
    again = node.up()
    assert "paused" not in again.inventory["t1"]
    again.resume("t1")
    assert not told(again)
    assert state_of(sleep) != "T"


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_tree_without_its_shim_stands_goes_on_and_can_be_killed(node: Node, when: str) -> None:
    link = node.up()
    counted = paused(node, link) if when == "meanwhile" else counting(node, link)
    os.kill(node.shim_of("t1"), signal.SIGKILL)
    until("the shim's end", lambda: not alive(node.shim_of("t1")))
    if when == "before":
        link.pause("t1")
        assert told(link)
    stood_at = counted.stat().st_size
    link.resume("t1")
    assert not told(link)
    until("it counts on", lambda: counted.stat().st_size > stood_at)
    link.pause("t1")
    assert told(link)
    link.kill("t1")
    assert link.wait_for("exit", "t1")["cause"] == "killed"
    assert node.carriers("t1") == []


def test_it_goes_on_while_the_death_of_its_shim_is_still_to_be_heard_of() -> None:
    """What it stood over has fallen to others, and the shim is a zombie as long as we have not asked after it."""
    environment = {**os.environ, MARK: "t1"}
    command = ["/bin/sh", "-c", "sleep 1000 >/dev/null & echo $!"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as shim:
        assert shim.stdout is not None
        pid = int(shim.stdout.readline())
        try:
            until("the shim's end", lambda: state_of(shim.pid) == "Z")
            os.kill(pid, signal.SIGSTOP)
            until("it stands", lambda: state_of(pid) == "T")
            attempt = Attempt("t1")
            attempt.state, attempt.shim, attempt.ours, attempt.paused = RUNNING, shim.pid, True, True
            Pausing(lambda _attempt: None).resume(attempt)
            assert state_of(pid) != "T"
        finally:
            os.kill(pid, signal.SIGKILL)


def test_who_continues_it_by_hand_is_seen(node: Node) -> None:
    link = node.up()
    counted = paused(node, link)
    stood_at = counted.stat().st_size
    for pid in node.carriers("t1"):
        os.kill(pid, signal.SIGCONT)
    assert not told(link)
    until("it counts on", lambda: counted.stat().st_size > stood_at)
    link.pause("t1")
    assert told(link)


def test_the_agent_of_another_state_folder_sees_that_it_stands(node: Node) -> None:
    link = node.up()
    node.launch(link, "t1", "exec sleep 1000", cwd="/")
    started = link.wait_for("started", "t1")
    link.pause("t1")
    assert told(link)
    node.empty()
    node.wait_agent_gone(link)
    again = node.up()
    entry: Message = {key: started[key] for key in ("launch_id", "pid", "pid_start")}
    again.adopt({**entry, "started_at": started["at"]})
    assert again.inventory["t1"]["paused"] is True
    again.resume("t1")
    assert not told(again)


def test_what_is_not_there_or_has_ended_is_left_alone(node: Node) -> None:
    link = node.up()
    link.pause("nobody")
    link.resume("nobody")
    assert node.run(link, "t1", "exit 3")["code"] == 3
    link.pause("t1")
    link.resume("t1")
    link.ping()
    assert node.link().inventory["t1"]["state"] == "ended"
