"""Commands that really run out of something, and what the agent tells of their ends."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests import rights
from tests.agent.small_master import Node
from tests.waiting import until

OWN = 3
"""The agent, its sampler, its spare shim."""
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))\n"
GROWS = "held = []\nfor _ in range(200): held.append(b'x' * (4 << 20))\nraise SystemExit('there was room for all')\n"


def python(node: Node, code: str) -> list[str]:
    return [node.python, "-I", "-S", "-c", code]


def test_who_allocates_until_there_is_no_more_is_told_as_that(node: Node) -> None:
    end = node.run(node.up(), "t1", python(node, LIMITED + "print('epoch 1')\n" + GROWS))
    assert (end["code"], end["ran_out"], end["last_line"]) == (1, "oom_host", "MemoryError")


def test_a_failure_of_another_kind_has_its_exception_and_no_such_word(node: Node) -> None:
    end = node.run(node.up(), "t1", python(node, "print('begun')\n{}['loss']\n"))
    assert (end["code"], end["last_line"]) == (1, "KeyError: 'loss'")
    assert "ran_out" not in end


@pytest.mark.parametrize("command", ["echo said; exit 0", "echo said; sleep 1000"])
def test_of_a_good_end_and_of_one_that_was_wanted_nothing_is_quoted(node: Node, command: str) -> None:
    link = node.up()
    node.launch(link, "t1", command)
    link.wait_for("started", "t1")
    if "sleep" in command:
        link.kill("t1")
    end = link.wait_for("exit", "t1")
    assert not {"ran_out", "last_line"} & end.keys()


def test_a_kill_from_outside_is_no_want_of_memory(node: Node) -> None:
    link = node.up()
    end = node.run(link, "t1", "echo up; kill -9 $$")
    assert (end["code"], end["last_line"]) == (137, "up")
    assert "ran_out" not in end


def test_it_is_still_known_to_the_next_agent(node: Node) -> None:
    link = node.up()
    end = node.run(link, "t1", "echo 'MemoryError'; exit 4")
    node.kill_agent(link)
    assert {**node.up().inventory["t1"], "op": "exit"}.items() >= end.items()


def test_what_an_earlier_attempt_wrote_is_not_this_ones(node: Node) -> None:
    link = node.up()
    node.run(link, "t1", "echo MemoryError; exit 1")
    end = node.run(link, "t2", "exit 2", log_path=str(node.log("t1")))
    assert end["code"] == 2
    assert not {"ran_out", "last_line"} & end.keys()


def test_the_longest_line_in_any_tongue_arrives(node: Node) -> None:
    end = node.run(node.up(), "t1", python(node, "print('\\U00020000' * 4000)\nraise SystemExit(3)"))
    assert len(end["last_line"]) == 300


def _small_group() -> Path:
    """A control group with little memory, of whichever kind this machine has."""
    for top, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(top) / f"muster-test-{os.getpid()}"
        try:
            group.mkdir()
            (group / limit).write_text(str(96 << 20), encoding="ascii")
        except OSError:
            with suppress(FileNotFoundError):
                group.rmdir()
        else:
            return group
    raise rights.CannotHere("needs a control group of memory that root may make", "in a container: --privileged")


def _is_gone(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:  # somebody is dying in it
        return False
    return True


def _all_in(group: Path, node: Node) -> bool:
    """Put the agent and what it has forked into the group; one that ended meanwhile was no spare."""
    procs, forks = group / "cgroup.procs", node.forks()
    for pid in forks:
        with suppress(ProcessLookupError):
            procs.write_text(str(pid), encoding="ascii")
    return {*map(str, forks)} <= {*procs.read_text(encoding="ascii").split()} and node.forks() == forks


def test_the_kernels_own_word_is_heard(node: Node) -> None:
    rights.need_real_root()
    group = _small_group()
    try:
        link = node.up()
        until(
            "the spare stands by, and all are in the group", lambda: len(node.forks()) == OWN and _all_in(group, node)
        )
        end = node.run(link, "t1", python(node, GROWS))
        assert end["code"] == 128 + signal.SIGKILL
        assert end["ran_out"] == "oom_host"
    finally:
        node.clean()
        until("the group is empty", lambda: _is_gone(group))
