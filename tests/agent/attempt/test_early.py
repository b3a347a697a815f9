"""The signal before a time limit reaches those who heed it, and nobody dies of it."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

import pytest

from tests.agent.attempt.test_kill import start
from tests.agent.attempt.test_pausing import told
from tests.agent.small_master import Node
from tests.waiting import until

HEEDS_S = 8.0
"""After its start a program knows of the signal, on any machine; before, it would die of it. So long it is not sent."""
SAVES = """
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: (print("saved", flush=True), sys.exit(7)))
print("up", flush=True)
while True: time.sleep(0.05)
"""


def early(name: str = "USR1", before_s: float = 50.0, *, main_only: bool = False) -> dict[str, object]:
    return {"name": name, "before_s": before_s, "main_only": main_only}


def waits_to_be_heard(pid: int, number: int) -> bool:
    """Whether a signal was sent to a process and did not reach it yet."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    pending = next(line for line in lines if line.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) >> (number - 1) & 1)


def python(node: Node, code: str) -> list[str]:
    return [node.python, "-I", "-S", "-c", code]


def test_a_command_saves_and_ends_before_its_limit(node: Node) -> None:
    end = node.run(node.up(), "t1", python(node, SAVES), time_limit_s=50.0 + HEEDS_S, signal=early())
    assert (end["code"], end["cause"], end["reached"]) == (7, "exited", 1)
    assert "saved" in node.text("t1")


def test_the_shell_around_a_program_lives_on(node: Node) -> None:
    script = f"{shlex.quote(node.python)} -I -S -c '{SAVES}'; echo the shell got $?; exit 3"
    end = node.run(node.up(), "t1", script, time_limit_s=50.0 + HEEDS_S, signal=early())
    assert (end["code"], end["reached"]) == (3, 1)
    assert "the shell got 7" in node.text("t1")


def test_a_shell_that_traps_it_may_be_meant_alone(node: Node) -> None:
    counts = "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: print('no', flush=True)); time.sleep(1000)"
    script = f"trap 'echo trapped; exit 4' USR1; {shlex.quote(node.python)} -I -S -c \"{counts}\" & wait"
    link = node.up()
    end = node.run(link, "t1", script, time_limit_s=50.0 + HEEDS_S, signal=early(main_only=True))
    assert (end["code"], end["reached"]) == (4, 1)
    assert "no" not in node.text("t1").split()


def test_who_does_not_heed_it_goes_on_to_the_limit_and_that_is_told(node: Node) -> None:
    end = node.run(node.up(), "t1", "sleep 1000", time_limit_s=1.0, signal=early(before_s=0.5))
    assert (end["cause"], end["reached"]) == ("timed_out", 0)


def test_it_comes_though_nobody_is_there_any_more(node: Node) -> None:
    link = node.up()
    start(node, link, "t1", python(node, SAVES), "up", time_limit_s=50.0 + HEEDS_S, signal=early())
    node.kill_agent(link)
    again = node.up()
    end = again.inventory["t1"] if again.inventory["t1"]["state"] == "ended" else again.wait_for("exit", "t1")
    assert (end["code"], end["reached"]) == (7, 1)


def test_what_stands_still_hears_it_when_it_goes_on(node: Node) -> None:
    link = node.up()
    start(node, link, "t1", python(node, SAVES), "up", time_limit_s=50.0 + HEEDS_S, signal=early())
    assert not told(link)
    link.pause("t1")
    assert told(link)
    (pid,) = node.carriers("t1")
    until("it is sent", lambda: waits_to_be_heard(pid, signal.SIGUSR1))
    link.resume("t1")
    assert link.wait_for("exit", "t1")["code"] == 7


def test_what_ends_before_hears_nothing_of_it(node: Node) -> None:
    link = node.up()
    end = node.run(link, "t1", "exit 2", time_limit_s=100.0, signal=early())
    assert "reached" not in end
    start(node, link, "t2", python(node, SAVES), "up", time_limit_s=100.0, signal=early())
    link.kill("t2")
    assert link.wait_for("exit", "t2")["code"] == 128 + signal.SIGTERM


@pytest.mark.parametrize("bad", ["USR1", {}, {"name": 3, "before_s": 1}, {"name": "USR1", "before_s": "soon"}])
def test_what_makes_no_sense_is_refused(node: Node, bad: object) -> None:
    end = node.run(node.up(), "t1", "true", time_limit_s=100.0, signal=bad)
    assert (end["cause"], end["fault"]) == ("not_started", "task")
    assert "signal" in end["error"]


def test_a_signal_that_the_machine_does_not_have_is_not_sent(node: Node) -> None:
    assert node.run(node.up(), "t1", "exit 2", time_limit_s=100.0, signal=early("STRANGE"))["code"] == 2
