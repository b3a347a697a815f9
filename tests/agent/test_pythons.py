"""One path through everything on two Pythons that a node may have: the one here, and another implementation of 3.9."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import until

from .small_master import Node

PYPY = "/usr/bin/pypy3"
"""Debian's and Ubuntu's package pypy3 (3.9 there): set up for the tests, so not finding it is an error."""


@pytest.fixture(params=[sys.executable, PYPY], ids=["cpython", "pypy"])
def anywhere(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    assert Path(request.param).exists(), f"{request.param} is missing: .ci/setup installs it"
    made = Node(tmp_path, python=request.param)
    yield made
    made.clean()


def test_launch_exit_and_ack(anywhere: Node) -> None:
    link = anywhere.up()
    for number in range(3):  # with and without a spare
        assert anywhere.run(link, f"t{number}", f"echo 你好; exit {number}")["code"] == number
        assert anywhere.text(f"t{number}") == f"你好\n\nProgram Exit With Code {number}\n"
    link.ack("t0", "t1", "t2")
    link.ping()
    assert anywhere.link().inventory == {}


def test_what_cannot_start_says_why(anywhere: Node) -> None:
    link = anywhere.up()
    assert "the folder /no/such does not exist on " in anywhere.run(link, "t1", "true", cwd="/no/such")["error"]
    assert "the program /no/such does not exist on " in anywhere.run(link, "t2", ["/no/such"])["error"]


def test_a_kill_reaches_the_whole_tree(anywhere: Node) -> None:
    link = anywhere.up()
    anywhere.launch(link, "t1", "trap '' TERM; echo up; sleep 1000 & while :; do sleep 0.1; done")
    until("the command", lambda: "up" in anywhere.text("t1"))
    link.kill("t1", grace_s=0.3)
    end = link.wait_for("exit", "t1")
    assert (end["code"], end["cause"]) == (137, "killed")
    assert anywhere.carriers("t1") == []


@pytest.mark.parametrize("killed", [True, False])
def test_the_next_agent_takes_over(anywhere: Node, *, killed: bool) -> None:
    link = anywhere.up()
    anywhere.launch(link, "t1", "trap 'exit 6' TERM; sleep 1000 & wait")
    pid = link.wait_for("started", "t1")["pid"]
    if killed:
        anywhere.kill_agent(link)
    else:
        link.retire()
    anywhere.change_version()
    again = anywhere.up()
    assert (again.inventory["t1"]["state"], again.inventory["t1"]["pid"]) == ("running", pid)
    again.kill("t1")
    assert again.wait_for("exit", "t1")["code"] in {6, 143}  # 143: before bash set its trap


def test_an_agent_of_another_python_takes_over(anywhere: Node) -> None:
    link = anywhere.up()
    anywhere.launch(link, "t1", "sleep 1000")
    link.wait_for("started", "t1")
    link.retire()
    anywhere.python = PYPY if anywhere.python == sys.executable else sys.executable
    again = anywhere.up()
    again.kill("t1")
    assert again.wait_for("exit", "t1")["code"] == 143


def test_probes(anywhere: Node) -> None:
    link = anywhere.up()
    answer = link.probe(["/bin/bash", "-c", "cat; exit 2"], stdin="问\n")
    assert (answer["code"], answer["output"], answer["error"]) == (2, "问\n", "")
    answer = link.probe(["/bin/sleep", "1000"], timeout_s=0.3)
    assert (answer["code"], answer["error"]) == (None, "timed out after 0.3 s")
    assert link.probe(["/no/such"])["error"] == "/no/such: No such file or directory"
