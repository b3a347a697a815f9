"""`muster node doctor`, and single GPUs in `node drain` and `node resume`: what is asked, and what people read."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from client.cli.main import main
from tests.client.fake_master import FakeMaster, Refusal, unknown_node
from tests.client.test_node_commands import node
from wire.message import Message

ROOT = Path(__file__).parents[2]


def one(check: str, verdict: str, told: str = "…", cure: str = "") -> dict[str, str]:
    return {"check": check, "verdict": verdict, "told": told, "cure": cure}


WELL = {"name": "a", "state": "online", "verdict": "ok", "findings": [
    one("reachable", "ok"), one("disk", "ok"), one("disk", "ok"), one("gpus", "skipped", "declared"),
]}  # fmt: skip
WARNED = {"name": "b", "state": "online", "verdict": "warning", "findings": [
    one("reachable", "ok"), one("clock", "warning", "60 s ahead", "set it"),
]}  # fmt: skip
ILL = {"name": "c\x1b", "state": "unreachable", "verdict": "fault", "findings": [
    one("python", "fault", "no python\x1b[2J", "install one"), one("clock", "warning", "late", "set it"),
    one("gpus", "skipped", str(Message("doctor_not_asked"))),
]}  # fmt: skip


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    with FakeMaster({"server.info": lambda _: {}}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        yield fake


FILLED = {"waiting": 180_000, "most_waiting": 200_000, "bytes": 0, "most_bytes": 1 << 30}
WANG = {"user": "wang\x1b", "waiting": 100_000, "most_waiting": 120_000, "bytes": 0, "most_bytes": 1 << 29}
MANY = "180,000 of 200,000 tasks wait (limits.waiting_tasks)"
LARGE = "large tasks hold 1.0G of 1.0G (limits.task_bytes)"
ASK_WANG = "ask wang\\x1b to cancel some (`muster queue --user wang\\x1b`), lower limits.user_share, or raise it"


@pytest.mark.parametrize(
    ("info", "told"),
    [
        ({"filled": {**FILLED, "waiting": 159_999}, "near_shares": [WANG]}, []),
        (
            {"filled": FILLED, "near_shares": []},
            [
                "the queue: warning: it is nearly full: 180,000 of 200,000 tasks wait (limits.waiting_tasks)",
                "  cure: raise it (`muster set limits.waiting_tasks N`)",
            ],
        ),
        (
            {"filled": FILLED, "near_shares": [WANG]},
            [
                f"the queue: warning: it is nearly full: {MANY}, 100,000 of wang\\x1b",
                f"  cure: {ASK_WANG} (`muster set limits.waiting_tasks N`)",
            ],
        ),
        (
            {"filled": {**FILLED, "waiting": 0, "bytes": 1 << 30}, "near_shares": [{**WANG, "bytes": 1 << 29}]},
            [
                f"the queue: warning: it is nearly full: {LARGE}, 512M of wang\\x1b",
                f"  cure: {ASK_WANG} (`muster set limits.task_bytes N`)",
            ],
        ),
    ],
)
def test_that_the_queue_is_nearly_full_is_told_beside_all_nodes_with_who_has_most_of_it(
    master: FakeMaster, capsys: pytest.CaptureFixture[str], info: dict[str, Any], told: list[str]
) -> None:
    master.verbs.update({"node.doctor": lambda _: [WELL], "server.info": lambda _: info})
    assert main(["node", "doctor"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == told
    assert main(["node", "doctor", "a"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_settings_that_hold_in_place_of_other_values_in_conf_json_are_told_beside_all_nodes(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"name": "scheduler.grace_s", "value": 30.0, "default": 10.0, "unit": "seconds", "range": {"none": False}}
    info = {"conf_outranked": [{**said, "by": "ann"}]}
    master.verbs.update({"node.doctor": lambda _: [WELL], "server.info": lambda _: info})
    line = (
        "settings: scheduler.grace_s is 30s, set by ann; conf.json says 10s (`muster set --default scheduler.grace_s`)"
    )
    assert main(["node", "doctor"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == line
    assert main(["node", "doctor", "a"]) == 0
    assert line not in capsys.readouterr().out


def test_a_node_that_is_well_takes_one_line_and_the_others_have_their_cures(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    master.verbs["node.doctor"] = lambda _: [WELL, WARNED, ILL]
    assert main(["node", "doctor"]) == 1
    output = capsys.readouterr()
    assert output.out.splitlines() == [
        "a: all is well (2 checks)",
        "b: 1 warning",
        "  warning  clock  60 s ahead",
        "                  cure: set it",
        "c\\x1b: 1 fault, 1 warning",
        "  FAULT    python  no python\\x1b[2J",
        "                   cure: install one",
        "  warning  clock   late",
        "                   cure: set it",
        "3 nodes: 1 well, 1 with warnings only, 1 with faults",
    ]
    assert output.err == ""
    assert master.asked("node.doctor") == [{"names": []}]


def test_warnings_are_no_failure_and_all_shows_everything(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    master.verbs["node.doctor"] = lambda _: [WARNED]
    assert main(["node", "doctor", "b", "--all"]) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "  ok       reachable  …",
        "  warning  clock      60 s ahead",
    ]
    assert master.asked("node.doctor") == [{"names": ["b"]}]


def test_json_is_what_the_master_says_and_the_exit_code_tells_of_faults(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes: list[dict[str, Any]] = []
    master.verbs["node.doctor"] = lambda _: nodes
    for nodes, code in (([WELL, ILL], 1), ([WELL], 0), ([], 0)):
        assert main(["node", "doctor", "--json"]) == code
        assert json.loads(capsys.readouterr().out) == nodes


def test_an_unknown_node_is_refused_in_one_line(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(_: dict[str, Any]) -> None:
        raise Refusal("not_found", unknown_node("x"))

    master.verbs["node.doctor"] = refuse
    assert main(["node", "doctor", "x"]) == 1
    assert capsys.readouterr().err == f"error: not_found: {unknown_node('x')}\n"


@pytest.mark.real
def test_on_a_terminal_it_says_that_it_goes_on_and_colours_what_is_ill(master: FakeMaster) -> None:
    told = threading.Event()

    def slowly(_: dict[str, Any]) -> list[dict[str, Any]]:
        assert told.wait(60)
        return [WELL, ILL]

    master.verbs["node.doctor"] = slowly
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with os.fdopen(ours, "rb", buffering=0) as screen, subprocess.Popen(
        [sys.executable, "-m", "muster", "node", "doctor", "a", "c"], stdout=theirs, stderr=theirs,
        cwd=ROOT, env={**environment, "TERM": "xterm"},
    ) as done:  # fmt: skip
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # a terminal at whose other end nobody is any more
            while piece := screen.read(65536):
                shown += piece
                if b"looking at" in shown:
                    told.set()
    assert done.returncode == 1
    progress, _, answer = shown.rpartition(b"\r\x1b[K")
    assert b"\rlooking at 2 nodes \xe2\x80\xa6 " in progress
    assert b"\x1b[32mall is well (2 checks)\x1b[0m" in answer
    assert b"\x1b[31mFAULT  \x1b[0m" in answer


# -- single GPUs ------------------------------------------------------------------------------------------------


def test_gpus_are_set_aside_and_returned_by_their_numbers(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    busy = node("a")
    busy["gpus"][1]["held_by"] = [7]
    master.verbs["node.drain"] = lambda _: busy
    master.verbs["node.resume"] = lambda _: node("a", reason="no route", state="unreachable")
    assert main(["node", "drain", "a", "--gpu", "0,1", "--reason", "hot"]) == 0
    assert main(["node", "drain", "a", "--gpu", "0"]) == 0
    assert main(["node", "resume", "a", "--gpu", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "node a: GPUs 0, 1 set aside; 1 task runs there (7)",
        "node a: GPU 0 set aside",
        "node a: GPU 1 returned, but takes no tasks yet: no route",
    ]
    assert master.asked("node.drain")[0] == {"name": "a", "reason": "hot", "gpus": [0, 1]}
    assert master.asked("node.resume") == [{"name": "a", "gpus": [1]}]


@pytest.mark.parametrize(
    "words", [("a", "b", "--gpu", "0"), ("a", "--gpu", "x"), ("a", "--gpu", "-1"), ("a", "--gpu", "0", "--wait")]
)
def test_wrong_usage_of_gpu_is_one_line(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "drain", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: usage: ")
    assert said.count("\n") == 1
