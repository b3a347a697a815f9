"""What people type who come from elsewhere: it works, or is answered with the right word. Real sockets."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.cli.arguments.parser import build_parser
from client.cli.commands import COMMANDS
from client.cli.context import Context
from client.cli.main import RIGHT_WORDS, main
from client.cli.several import each
from tests.client.fake_master import FakeMaster, Refusal, task
from tests.faults import error_line
from wire.errors import UnreachableError
from wire.message import Message

ROOT = Path(__file__).parents[2]


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    with FakeMaster({}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        yield fake


def at_a_terminal(typed: str, *words: str) -> tuple[int, str]:
    """Run a command whose stdin and stderr are a terminal, and type into it; the exit code and what it printed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "muster", *words], cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    said = b""
    try:
        while piece := os.read(ours, 4096):
            said += piece
    except OSError:
        pass  # so a terminal ends whose other side is closed
    finally:
        os.close(ours)
    return process.wait(60), said.decode()


def test_the_queue_is_filtered_and_sorted_by_the_master(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["task.list"] = lambda _: {"tasks": [], "total": 0}
    master.verbs["task.archived"] = lambda _: {"tasks": [], "total": 0, "unreadable": {"2026-01.jsonl": 2}}
    before = time.time()
    assert main(["queue", "-a", "-u", "wang", "--since", "2h", "--sort", "gpus", "-r"]) == 0
    (asked,) = master.asked("task.list")
    assert before - 7200 <= asked.pop("since") <= time.time() - 7200
    assert asked == {
        "ended": True, "user": "wang", "sort": "gpus", "reverse": True, "limit": 50, "sparse": True
    }  # fmt: skip
    (asked,) = master.asked("task.archived")
    assert asked["user"] == "wang"
    assert asked["limit"] == 50
    assert "history/2026-01.jsonl: 2 lines cannot be read" in capsys.readouterr().err
    assert main(["queue", "--mine"]) == 0
    assert master.asked("task.list")[1] == {"mine": True, "limit": 50, "sparse": True}
    capsys.readouterr()
    for words in (["--since", "soon"], ["--sort", "colour"], ["--mine", "-u", "wang"], ["--since", "2026-13-01"]):
        assert main(["queue", *words]) == 2
        assert capsys.readouterr().err.startswith("error: usage: ")


def test_a_range_is_answered_as_a_range(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["task.hold"] = lambda params: task(params["id"], "held")
    assert main(["hold", "100-5000"]) == 0
    assert capsys.readouterr().out == "tasks 100-5000: held\n"


def test_refusals_that_are_alike_are_told_together(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    def hold(params: dict[str, Any]) -> dict[str, Any]:
        number = params["id"]
        if number > 10:
            raise Refusal("not_found", Message("no_task", id=number))
        if number > 8:
            raise Refusal("conflict", f"task {number} is running")
        return task(number, "held")

    master.verbs["task.hold"] = hold
    assert main(["hold", "7-500"]) == 1
    said = capsys.readouterr()
    assert said.out == "tasks 7-8: held\n"
    assert said.err.splitlines() == [
        "error: conflict: task 9 is running (the same for 10)",
        error_line("not_found", "no_task", id=11) + " (the same for 12-500)",
    ]


def test_what_was_done_before_the_master_went_is_told(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    def start(params: dict[str, Any]) -> dict[str, Any]:
        if params["id"] == 3:
            raise UnreachableError("it went")
        return task(params["id"])

    del master
    context = Context(build_parser("start").parse_args(["1-5"]))
    with pytest.raises(UnreachableError):
        each.task(context, lambda task_id: start({"id": task_id}), "started")
    assert capsys.readouterr().out == "tasks 1-2: started\n"


def test_all_of_mine_are_waited_for(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    mine = [task(4, "succeeded"), task(6, "succeeded")]
    master.verbs["subscribe"] = lambda _: {}
    master.verbs["task.list"] = lambda _: {"tasks": mine, "total": len(mine)}
    assert main(["wait", "--mine"]) == 0
    assert master.asked("task.list")[0] == {"active": True, "mine": True, "sparse": True}
    assert master.asked("subscribe")[0]["ids"] == [4, 6]
    mine.clear()
    assert main(["wait", "--mine"]) == 0
    assert "none of yours waits or runs" in capsys.readouterr().err
    assert main(["wait"]) == 2
    assert main(["wait", "3", "--mine"]) == 2


def test_all_that_failed_are_tried_again(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["task.list"] = lambda _: {"tasks": [task(n, "failed") for n in (9, 3, 4)], "total": 3}
    master.verbs["task.retry"] = lambda params: task(params["id"])
    assert main(["retry", "--state", "failed", "--state", "lost"]) == 0
    assert capsys.readouterr().out == "tasks 3-4, 9: queued again\n"
    assert master.asked("task.list") == [{"states": ["failed", "lost"], "mine": True, "sparse": True}]
    assert not master.asked("task.archived"), "what was put away months ago is tried again by its id only"
    assert main(["retry", "--all", "--state", "failed"]) == 0
    assert "mine" not in master.asked("task.list")[1]
    for words in ([], ["--all"], ["3", "--state", "failed"], ["--state", "running"]):
        assert main(["retry", *words]) == 2


def test_the_master_looks_which_are_in_the_state_that_is_cancelled(master: FakeMaster) -> None:
    done = {"cancelled": [3], "signalled": [], "refused": {}, "codes": {}}
    master.verbs["task.cancel"] = lambda _: done
    assert main(["cancel", "--state", "waiting,held"]) == 0
    assert main(["cancel", "--state", "waiting", "--state", "held"]) == 0
    assert main(["cancel", "--all", "--state", "running", "--yes"]) == 0
    assert master.asked("task.cancel") == [
        {"mine": True, "states": ["waiting", "held"]}, {"mine": True, "states": ["waiting", "held"]},
        {"all": True, "states": ["running"]},
    ]  # fmt: skip
    for words in (["--state", "failed"], ["3", "--state", "waiting"], ["--mine", "--all"]):
        assert main(["cancel", *words]) == 2


@pytest.mark.real
@pytest.mark.parametrize(("typed", "asked"), [("y\n", 1), ("n\n", 0), ("\n", 0)])
def test_ending_everybodys_tasks_asks_at_a_terminal(master: FakeMaster, typed: str, asked: int) -> None:
    master.verbs["server.info"] = lambda _: {"tasks": {"waiting": 1200, "running": 34, "failed": 7}}
    master.verbs["task.cancel"] = lambda _: {"cancelled": [1], "signalled": [], "refused": {}, "codes": {}}
    code, said = at_a_terminal(typed, "cancel", "--all")
    assert "1,234 tasks" in said
    assert (len(master.asked("task.cancel")), code) == (asked, 0 if asked else 1)


@pytest.mark.real
def test_a_script_that_ends_everything_is_not_asked(master: FakeMaster) -> None:
    master.verbs["task.cancel"] = lambda _: {"cancelled": [1], "signalled": [], "refused": {}, "codes": {}}
    done = subprocess.run(
        [sys.executable, "-m", "muster", "cancel", "--all"],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "cancelled: 1\n")
    assert len(master.asked("task.cancel")) == 1


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("kill", "muster cancel ID"),
        ("ps", "muster queue"),
        ("stop", "muster down"),
        ("delete", "muster rm ID"),
        ("squeue", "muster queue"),
        ("scancel", "muster cancel"),
        ("queu", "did you mean `muster queue`?"),
        ("frobnicate", "muster --help"),
    ],
)
def test_a_word_from_elsewhere_is_answered_with_ours(word: str, right: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word, "7"]) == 2
    said = capsys.readouterr().err
    assert right in said
    assert said.count("\n") == 1


def test_every_right_word_is_a_command_that_there_is() -> None:
    for text in RIGHT_WORDS.values():
        for told in re.findall(r"`muster (\w+)", text):
            assert told in COMMANDS
    assert not set(RIGHT_WORDS) & set(COMMANDS)


def test_node_list_is_nodes(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["node.list"] = lambda _: []
    master.verbs["server.info"] = lambda _: {}
    assert main(["nodes"]) == main(["node", "list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert main(["node", "list", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_several_tasks_are_shown(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    def show(params: dict[str, Any]) -> dict[str, Any]:
        if params["id"] > 4:
            raise Refusal("not_found", Message("no_task", id=params["id"]))
        return task(params["id"])

    master.verbs["task.show"] = show
    assert main(["show", "3-6"]) == 1
    said = capsys.readouterr()
    assert [line for line in said.out.splitlines() if line.startswith("id:")] == ["id:         3", "id:         4"]
    assert said.err == error_line("not_found", "no_task", id=5) + " (the same for 6)\n"
    assert main(["show", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == 3
    assert main(["show", "3", "4", "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == [3, 4]


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["submit", "--gpus", "1", "python", "x.py"], "muster submit --gpus 1 -- python x.py"),
        (["submit", "--gpus", "1", "python", "x.py", "--lr", "1"], "muster submit --gpus 1 -- python x.py --lr 1"),
        (["submit", "--name", "python", "python", "x.py"], "muster submit --name python -- python x.py"),
        (["submit", "--urgent", "echo", "a b"], "muster submit --urgent -- echo 'a b'"),
        (["run", "nvidia-smi"], "muster run -- nvidia-smi"),
        (["run", "python", "x.py", "--name", "y"], "muster run -- python x.py --name y"),
    ],
)
def test_a_command_without_dashes_is_told_how_it_is_typed(
    words: list[str], right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert f"the command stands after `--`: {right};" in capsys.readouterr().err


def test_an_edit_that_takes_the_command_away_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("command=", "command=  "):
        assert main(["edit", "7", text]) == 2
        said = capsys.readouterr().err
        assert "command: it is empty" in said
        assert "there is no key" not in said


def test_a_held_task_cannot_be_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--hold", "--", "true"]) == 2
    assert "`muster submit --hold`" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.parametrize(("stdin", "told"), [(b"data", True), (b"", False), (None, False)])
def test_what_is_piped_into_run_is_told_to_go_nowhere(master: FakeMaster, stdin: bytes | None, told: bool) -> None:  # noqa: FBT001
    ended = task(1, "succeeded")
    master.verbs |= {
        "task.submit": lambda _: {"id": 1}, "subscribe": lambda _: {},
        "task.list": lambda _: {"tasks": [ended], "total": 1},
        "log.read": lambda _: {"data": "", "offset": 0, "size": 0, "ended": True, "path": "x"},
    }  # fmt: skip
    ours, theirs = os.pipe()
    os.write(theirs, stdin or b"")
    if stdin is None:
        os.close(ours)
        ours = os.open(os.devnull, os.O_RDONLY)
    done = subprocess.run(
        [sys.executable, "-m", "muster", "run", "--", "cat"],
        cwd=ROOT, stdin=ours, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(theirs)
    left = os.read(ours, 100)
    os.close(ours)
    assert (done.returncode, done.stdout) == (0, "")
    assert ("does not reach the task" in done.stderr) is told
    assert left == (stdin or b""), "a loop around us may want what is there"
