"""A command that was never reached is a failed start, whatever the shell said that ran its environment and setup."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from master.core.attempts.activation import CANNOT_START, SETUP_FAILED
from master.core.attempts.launching import LaunchSettings, argv, launch_message
from master.core.tasks.attempt import Part
from master.core.tasks.task import Task
from tests.agent.attempt.test_run_as import make_node
from tests.agent.people import BOB, CAROL, PeopleNode
from tests.agent.small_master import Link, Node
from tests.agent.test_pythons import PYPY
from tests.cases import each_case
from tests.waiting import until
from wire.agent import MARKS_STAGES, STAGE_FD

__all__ = ["make_node"]
"""A fixture of another file that this one uses, too."""

SETTINGS = LaunchSettings(conda="/nowhere", task_env={}, grace_s=1.0)
SKIPS = (
    "trap 'echo tidy' EXIT; exit 0",
    "trap '' EXIT; exit 0",
    "trap 'exit 0' EXIT; false",
    "exec true",
    "exec false",
    "exec bash -c 'exit 3'",
    "set -n",
    "trap - EXIT; exit 0",
    "trap 'exit 0' ERR; false",
)
"""What ends the shell without a word to it."""


def order(command: str | list[str], *, marks: bool = True, **keys: str) -> dict[str, object]:
    """Of a launch what tells how its command is begun."""
    task = Task(id=1, command=command, allocation=[Part("a", [], "1.1.a")], **keys)  # type: ignore[arg-type]
    told = launch_message(task, task.allocation[0], SETTINGS, protocol=MARKS_STAGES if marks else MARKS_STAGES - 1)
    return {key: value for key, value in told.items() if key in ("argv", "stages")}


def run(
    node: Node, link: Link, launch_id: str, command: str | list[str], *, env: str = "", setup: str = ""
) -> tuple[int, str]:
    """The exit code, and what stands in the log before the last word."""
    end = node.run(link, launch_id, "", **order(command, env=env, setup=setup), cwd="/")
    assert end["cause"] == "exited", end
    return end["code"], node.text(launch_id).partition("\nProgram Exit")[0]


def activate(folder: Path, text: str) -> str:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/activate").write_text(f"{text}\n", encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("python", [None, PYPY])
def test_a_setup_that_keeps_the_shell_from_the_command_is_a_failed_setup(
    make_node: Callable[..., PeopleNode], python: str | None
) -> None:
    node = make_node(CAROL, *([] if python is None else [python]))
    os.chown(node.logs, CAROL.uid, CAROL.uid)
    link = node.up()
    with each_case() as cases:
        for number, setup in enumerate(SKIPS):
            for kind, command in (("text", "echo ran"), ("words", ["echo", "ran"])):
                with cases.case(f"{setup}: {kind}"):
                    code, text = run(node, link, f"s{number}{kind}", command, setup=setup)
                    assert (code, "ran" in text) == (SETUP_FAILED, False)


def test_an_activate_script_that_keeps_the_shell_from_the_command_is_a_failed_start(node: Node) -> None:
    link = node.up()
    with each_case() as cases:
        for number, text in enumerate(SKIPS):
            with cases.case(text):
                env = activate(node.logs / f"e{number}", text)
                assert run(node, link, f"e{number}", ["echo", "ran"], env=env, setup="true")[0] == CANNOT_START
        env = activate(node.logs / "well", "true")
        assert run(node, link, "both", ["echo", "ran"], env=env, setup="exec true")[0] == SETUP_FAILED


@pytest.mark.parametrize("kind", ["text", "words"])
def test_a_command_that_was_reached_has_its_own_end(node: Node, kind: str) -> None:
    def command(text: str) -> str | list[str]:
        return text if kind == "text" else ["bash", "-c", text]

    link = node.up()
    with each_case() as cases:
        for number, (setup, text, end) in enumerate(
            [
                ("true", "exit 0", 0),
                ("true", "exit 7", 7),
                ("true", "kill -9 $$", 137),
                ("true", "exec false", 1),
                ("kill -9 $$", "true", 137),
                ("trap 'exit 9' TERM; kill $$", "true", SETUP_FAILED),
                ("exec 2>&1; exec > >(cat)", "exit 5", 5),
                ('read line; [ -z "$line" ]', "! read line", 0),
                ("sleep 1000 & disown", "exit 6", 6),
                (f"exec {{mine}}>&1; [ $mine != {STAGE_FD} ]", f"[ ! -e /proc/self/fd/{STAGE_FD} ] && exit 4", 4),
                ("", "exit 8", 8),
            ]
        ):
            with cases.case(f"{setup}: {text}"):
                told = order(command(text), setup=setup)
                assert ("stages" in told) == bool(setup)
                assert node.run(link, f"t{number}", "", **told)["code"] == end


@pytest.mark.parametrize("setup", ["exec true", "trap : EXIT; exit 0"])
def test_it_is_told_of_a_command_that_would_have_run_as_its_owner(
    make_node: Callable[..., PeopleNode], setup: str
) -> None:
    node = make_node(None)
    link = node.up()
    assert node.run_as(link, BOB, "t1", "", **order("echo ran", setup=setup))["code"] == SETUP_FAILED
    assert node.run_as(link, BOB, "t2", "", **order("id -un; exit 3", setup="true"))["code"] == 3
    assert node.said(BOB, "t2") == ["bob"]


def test_a_setup_that_is_ended_has_been_ended(node: Node) -> None:
    link = node.up()
    told = order("true", setup="trap - EXIT; trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
    node.launch(link, "t1", "", **told)
    until("it runs", lambda: "up" in node.text("t1"))
    link.send({"op": "kill", "launch_id": "t1", "grace_s": 30.0})
    end = link.wait_for("exit", "t1")
    assert (end["cause"], end["code"]) == ("killed", 0)


def test_the_command_runs_though_its_shim_died_while_the_setup_ran(node: Node) -> None:
    link = node.up()
    gate, done = node.logs / "gate", node.logs / "done"
    wait = f"echo up; until [ -e {shlex.quote(str(gate))} ]; do sleep 0.05; done"
    node.launch(link, "t1", "", **order(["touch", str(done)], setup=wait))
    started = link.wait_for("started", "t1")
    until("the setup runs", lambda: "up" in node.text("t1"))
    shim = int(Path(f"/proc/{started['pid']}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
    os.kill(shim, 9)
    gate.touch()
    until("the command has run", done.exists)


def test_an_older_agent_is_told_of_no_stages_and_its_shells_mark_none() -> None:
    for keys in ({"setup": "true"}, {"env": "e"}, {"env": "e", "setup": "true"}):
        told = order("true", marks=False, **keys)
        assert "stages" not in told
        assert str(STAGE_FD) not in str(told["argv"])
    assert order("true") == {"argv": argv(Task(id=1, command="true"), "/nowhere")}
    assert order("true", env="e", setup="true")["stages"] == [CANNOT_START, SETUP_FAILED]


def test_stages_that_are_no_exit_codes_are_refused(node: Node) -> None:
    link = node.up()
    wrong: tuple[object, ...] = ("x", [True], [0], [256], [1.5], {"a": 1})
    with each_case() as cases:
        for at, stages in enumerate(wrong):
            with cases.case(f"{stages}"):
                end = node.run(link, f"t{at}", "true", stages=stages)
                assert (end["cause"], end["error"]) == ("not_started", "stages is not a list of exit codes")
