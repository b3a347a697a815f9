"""The demo ends with 0 when everything was seen, and only then."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from demo.__main__ import _check_ended, _watch
from demo.terminal import DemoError, Terminal
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parent.parent.parent
GOOD_LOG = ["epoch   1/60\n", "final accuracy 0.9778\n", "\n", "Program Exit With Code 0\n"]


class ScriptedTerminal(Terminal):
    """Answers from a script. `state` is what the task is said to be in while its log is followed."""

    def __init__(self, folder: Path, log: list[str], state: str, tasks: list[dict[str, Any]] | None = None) -> None:
        super().__init__(folder)
        self._log = log
        self._state = state
        self._tasks = tasks

    def stream(self, *words: str) -> Iterator[str]:
        assert words == ("logs", "1", "-f")
        yield from self._log

    def ask(self, *words: str) -> Any:
        return self._tasks if words[0] == "queue" else {"state": self._state, "allocation": [{"node": "local"}]}


def ended(ident: int, **keys: Any) -> dict[str, Any]:
    return {
        "id": ident,
        "state": "succeeded",
        "exit_code": 0,
        "started_at": ident * 10.0,
        "ended_at": ident * 10.0 + 5,
        **keys,
    }


def test_the_accuracy_is_read_from_the_live_log(tmp_path: Path) -> None:
    assert _watch(ScriptedTerminal(tmp_path, GOOD_LOG, "running"), 1) == 0.9778


@pytest.mark.parametrize(
    ("log", "state", "said"),
    [
        (GOOD_LOG, "succeeded", "while the task was running"),
        (GOOD_LOG[1:], "running", "while the task was running"),
        (["epoch 1\n", "final accuracy 0.1000\n", GOOD_LOG[-1]], "running", "accuracy was to be"),
        (GOOD_LOG[:-1], "running", "the log was to end"),
        ([], "running", "while the task was running"),
    ],
)
def test_what_was_not_seen_is_told(tmp_path: Path, log: list[str], state: str, said: str) -> None:
    with pytest.raises(DemoError, match=said):
        _watch(ScriptedTerminal(tmp_path, log, state), 1)


def test_a_machine_that_is_too_slow_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "muster"
    slow.write_text("#!/bin/sh\necho epoch 1; exec sleep 1000\n", encoding="ascii")
    slow.chmod(0o755)
    monkeypatch.setattr("demo.terminal.STREAM_S", 0.5)
    terminal = Terminal(tmp_path)
    terminal._muster = str(slow)
    with pytest.raises(DemoError, match="slow, or busy"):
        list(terminal.stream("logs", "1", "-f"))


@pytest.mark.parametrize(
    "tasks",
    [
        [],
        [ended(1)],
        [ended(1), ended(2, state="failed", exit_code=1)],
        [ended(1), ended(2, started_at=11.0)],
    ],
)
def test_a_history_that_is_not_as_it_must_be_is_told(tmp_path: Path, tasks: list[dict[str, Any]]) -> None:
    with pytest.raises(DemoError, match="was to"):
        _check_ended(ScriptedTerminal(tmp_path, [], "", tasks), 1, 2)
    _check_ended(ScriptedTerminal(tmp_path, [], "", [ended(1), ended(2)]), 1, 2)


def said(process: subprocess.Popen[str], pattern: str, heard: list[str]) -> str:
    """Read until a line holds this; what it holds of it. All lines go to `heard`."""
    for line in process.stdout or ():
        heard.append(line)
        if found := re.search(pattern, line):
            return found[0]
    raise AssertionError(f"it ended without {pattern}: {''.join(heard)}")


def test_the_whole_demo_runs_with_a_console_that_stays_until_ctrl_c_and_leaves_nothing_behind(tmp_path: Path) -> None:
    heard: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "demo", "--web"], cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as demo:  # fmt: skip
        try:
            link = said(demo, r"https://\S+#link=\w+", heard)
            assert said(demo, r"stays at https://\S+", heard).removeprefix("stays at ") == link.partition("#")[0]
            [root] = tmp_path.glob("*/task_info/web/authority.pem")
            words = {"link": link.partition("=")[2], "password": "seven slow lanterns hum"}
            with httpx.Client(verify=ssl.create_default_context(cafile=root)) as browser:
                origin = link.partition("/#")[0]
                signed = browser.post(f"{origin}/session", json=words, headers={"Origin": origin})
            assert signed.status_code == 200, signed.text
            assert signed.json()["user"]["role"] == "admin", signed.text
            demo.send_signal(signal.SIGINT)
            heard.append(demo.communicate(timeout=PATIENCE_S)[0])
        finally:
            demo.send_signal(signal.SIGINT)
    told = "".join(heard)
    assert demo.returncode == 0, told
    assert "final accuracy 0.9" in told
    assert "$ muster queue --all" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak  # the same as above, without a console that stays
def test_the_whole_demo_runs_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "demo"], cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "final accuracy 0.9" in done.stdout
    assert "$ muster queue --all" in done.stdout
    assert list(tmp_path.iterdir()) == []
