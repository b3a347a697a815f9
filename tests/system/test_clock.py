"""Clocks that jump a day under a real master, its agent and its shims: what they wait for does not, and nobody pays."""

from __future__ import annotations

import itertools
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.api import Client
from tests.soak import one_in
from tests.system.lab import Lab, rewrite
from tests.testbed import processes
from tests.waiting import until

DAY = 86400.0
ROUNDED_S = 1.0


class JumpingLab(Lab):
    """A lab whose processes all read one wall clock, which the test sets. The monotonic one is the kernel's. `which`:
    only those with such a word in their command line do."""

    def __init__(self, folder: Path, which: str = "*") -> None:
        super().__init__(folder, nodes=1)
        self._which = which
        self.python = str(self._wrapped_python())

    def _wrapped_python(self) -> Path:
        """A Python that starts with the clock's variables, and finds all that ours does. An agent is started with the
        master's own Python and with few of his variables."""
        library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        own = {"LD_PRELOAD": library, "DONT_FAKE_MONOTONIC": 1, "FAKETIME_NO_CACHE": 1}
        own["FAKETIME_TIMESTAMP_FILE"] = self.clock
        venv = self.folder / "venv"
        packages = venv / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        packages.mkdir(parents=True)
        (packages / "ours.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
        (venv / "pyvenv.cfg").write_text(f"home = {sys.base_prefix}/bin\n", encoding="utf-8")
        python = venv / "bin/python"
        python.parent.mkdir()
        words = " ".join(f"{name}={value}" for name, value in own.items())
        real = Path(sys.executable).resolve()
        case = f'case " $* " in {self._which}) export {words} ;; esac'
        python.write_text(f'#!/bin/bash\n{case}\nexec -a "$0" {real} "$@"\n', encoding="utf-8")
        python.chmod(0o755)
        return python

    @property
    def clock(self) -> Path:
        return self.folder / "clock"

    def jump(self, seconds: float) -> None:
        """From now on, wall clocks are so far from the true time."""
        rewrite(self.clock, f"{seconds:+.0f}\n")


@pytest.fixture
def lab_with_its_node_off(tmp_path: Path) -> Iterator[JumpingLab]:
    """Its agent, and what that starts, read the clock that the test sets."""
    lab = JumpingLab(tmp_path / "lab", '*" --state "*')
    try:
        yield lab
    finally:
        left = lab.close()
    assert left == []


@pytest.fixture
def jumping_lab(tmp_path: Path) -> Iterator[JumpingLab]:
    lab = JumpingLab(tmp_path / "lab")
    lab.jump(0)
    try:
        yield lab
    finally:
        left = lab.close()
    assert left == []


def until_state(client: Client, number: int, state: str) -> None:
    until(f"task {number} is {state}", lambda: client.show(number)["state"] == state)


@pytest.mark.parametrize("first", [DAY, -DAY], ids=["forward", "back"])
def test_a_clock_that_jumps_a_day_and_back_ends_nothing_and_loses_nothing(
    jumping_lab: JumpingLab, first: float
) -> None:
    lab = jumping_lab
    lab.start()
    door = lab.folder / "door"
    wait_for_door = f"until [ -e {door} ]; do sleep 0.05; done; exit 3"
    with lab.client() as client:
        limited = client.submit(wait_for_door, time_limit_s=3600.0)
        free = client.submit(wait_for_door, gpus=1)
        for number in (limited, free):
            until_state(client, number, "running")
        agent = lab.agent_pid("node0")
        assert f"FAKETIME_TIMESTAMP_FILE={lab.clock}".encode() in processes.environment(agent or 0), (
            "its clock is set, too"
        )
        for offset in (first, -first, 0.0, 2 * first):
            lab.jump(offset)
            asked_at = time.time() + offset
            number = client.submit("exit 4", gpus=2, request_id=f"clock {offset}")
            assert client.submit("exit 4", gpus=2, request_id=f"clock {offset}") == number
            until_state(client, number, "failed")
            deaf = client.submit("trap '' TERM; while :; do sleep 0.05; done")
            until_state(client, deaf, "running")
            client.cancel([deaf])
            until_state(client, deaf, "cancelled")
            quick = client.submit("while :; do sleep 0.05; done", time_limit_s=0.5)
            until_state(client, quick, "timed_out")
            submitted_at = client.show(number)["submitted_at"]
            assert asked_at - ROUNDED_S <= submitted_at <= time.time() + offset + ROUNDED_S, "the clock did not jump"
            assert client.show(limited)["state"] == client.show(free)["state"] == "running"
            assert client.node("node0")["state"] == "online"
            assert lab.agent_pid("node0") == agent
        door.touch()
        for number in (limited, free):
            until_state(client, number, "failed")
            assert client.show(number)["exit_code"] == 3
    assert "said nothing" not in lab.server_log()
    assert "Traceback" not in lab.server_log()


def test_a_task_begins_when_the_masters_clock_shows_its_time_and_nobody_waits_a_day_to_be_tried_again(
    jumping_lab: JumpingLab,
) -> None:
    lab = jumping_lab
    lab.start()
    with lab.client() as client:
        tomorrow = client.submit("true", begin_at=time.time() + DAY - 3600.0)
        failing = client.submit("exit 1", max_retries=1)
        until("it is to be tried again", lambda: client.show(failing)["retries"] == 1)
        lab.jump(-DAY)
        until_state(client, failing, "failed")
        assert [attempt["exit_code"] for attempt in client.show(failing)["attempts"]] == [1, 1]
        assert client.show(tomorrow)["state"] == "waiting"
        assert client.why(tomorrow)["reason_key"] == "begins_at"
        lab.jump(DAY)
        until_state(client, tomorrow, "succeeded")
    assert "Traceback" not in lab.server_log()


@pytest.mark.parametrize("offset", [DAY, -DAY], ids=["forward", "back"])
def test_a_master_that_starts_a_day_off_finds_what_runs_and_keeps_its_order(
    jumping_lab: JumpingLab, offset: float
) -> None:
    lab = jumping_lab
    lab.start()
    door = lab.folder / "door"
    with lab.client() as client:
        running = client.submit(f"until [ -e {door} ]; do sleep 0.05; done; exit 3", gpus=8)
        until_state(client, running, "running")
        waiting = [client.submit(f"exit {code}", gpus=8) for code in (4, 5)]
    lab.kill_master()
    lab.jump(offset)
    lab.start()
    with lab.client() as client:
        assert client.show(running)["state"] == "running"
        last = client.submit("exit 6", gpus=8)
        assert [task["id"] for task in client.tasks(states=["waiting"])] == [*waiting, last]
        door.touch()
        for number, code in zip([running, *waiting, last], (3, 4, 5, 6), strict=True):
            until_state(client, number, "failed")
            assert client.show(number)["exit_code"] == code


@pytest.mark.parametrize("offset", one_in(2, [DAY, -DAY, -3600.0, 400 * DAY]))
def test_a_task_on_a_node_whose_clock_is_off_is_told_by_the_masters_and_runs_alone(
    lab_with_its_node_off: JumpingLab, tmp_path: Path, offset: float
) -> None:
    """The test's own clock, the kernel's times of files, its locks and its processes say what happened."""
    lab, holds, go = lab_with_its_node_off, tmp_path / "holds", tmp_path / "go"
    lab.jump(offset)
    lab.start()
    asked_at = time.time()
    with lab.client() as client:
        first = client.submit(
            f"exec 9>{holds}; flock -n 9 && echo $$ >&9; until [ -e {go} ]; do sleep 0.05; done; exit 7", gpus=8
        )
        second = client.submit(f"exec 9>>{holds}; flock -n 9", gpus=1)
        until("the command's pid", lambda: holds.exists() and holds.read_text(encoding="ascii"))
        pid = int(holds.read_text(encoding="ascii"))
        until_state(client, first, "running")
        began_at = holds.stat().st_mtime
        assert abs((client.node("node0")["clock_offset_s"] or 0.0) - offset) < abs(offset) / 2
        lab.kill_master()
        lab.kill_agent("node0")
        lab.start()
    with lab.client() as client:
        until("the node is back", lambda: client.node("node0")["state"] == "online")
        assert processes.state(pid) not in ("", "Z", "X")
        assert client.show(second)["state"] == "waiting"
        go.touch()
        ended = client.wait([first, second], 60)
        assert (ended[first]["exit_code"], ended[second]["exit_code"]) == (7, 0)
        told = {key: client.show(first)[key] or 0.0 for key in ("submitted_at", "started_at", "ended_at")}
        may_end_at, later = go.stat().st_mtime, client.show(second)["started_at"] or 0.0
        for moments in (
            [asked_at, told["submitted_at"], began_at, may_end_at, told["ended_at"], time.time()],
            [told["submitted_at"], told["started_at"], may_end_at, later],
        ):
            assert all(one <= other + ROUNDED_S for one, other in itertools.pairwise(moments)), moments
