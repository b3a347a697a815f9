"""`muster top` and the terminal it runs on: one that cannot show it, and how it is given back."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.fake_master import FakeMaster, task
from tests.client.top_cluster import node
from tests.client.top_terminal import Terminal
from tests.waiting import until
from wire.message import Message


@pytest.fixture
def conf(tmp_path: Path) -> Iterator[str]:
    """Of a master with a node and a task."""
    nodes, tasks = {"nodes": [node("alpha")]}, {"tasks": [task(1)]}
    verbs = {"subscribe": lambda _: nodes, "task.list": lambda _: tasks, "server.info": lambda _: {"user": "ada"}}
    with FakeMaster(verbs) as master:
        yield master.conf(tmp_path)


@pytest.mark.parametrize(
    ("key", "number", "code"), [(b"\x03", None, 0), (b"", signal.SIGTERM, 143), (b"", signal.SIGINT, 130)]
)
def test_ctrl_c_and_signals_end_it_and_give_the_terminal_back(
    conf: str, key: bytes, number: signal.Signals | None, code: int
) -> None:
    with Terminal(conf) as terminal:
        terminal.shows(b"live")
        assert termios.tcgetattr(terminal.screen) != terminal.before
        os.write(terminal.screen, key)
        if number is not None:
            terminal.program.send_signal(number)
        ended, shown = terminal.ends()
        assert ended == code
        assert b"\x1b[?1049l" in shown, "the screen that was there before"
        assert termios.tcgetattr(terminal.screen) == terminal.before


@pytest.mark.parametrize("by", [b"\x1a", signal.SIGSTOP], ids=["Ctrl-Z", "SIGSTOP"])
def test_after_a_stop_all_of_it_is_drawn_again_and_the_terminal_is_given_back(
    conf: str, by: bytes | signal.Signals
) -> None:
    with Terminal(conf) as terminal:
        terminal.shows(b"live")
        stat = Path(f"/proc/{terminal.program.pid}/stat")
        for _ in range(2):
            if isinstance(by, bytes):
                os.write(terminal.screen, by)
            else:
                terminal.program.send_signal(by)
            until(
                "it is stopped",
                lambda: stat.read_text("utf-8").rpartition(") ")[2][0] == "T",
                turn=lambda: terminal.reads(0.05),
            )
            terminal.program.send_signal(signal.SIGCONT)
            terminal.shows(b"alpha")
        os.write(terminal.screen, b"q")
        assert terminal.ends()[0] == 0
        assert termios.tcgetattr(terminal.screen) == terminal.before


def test_the_mouse_stays_the_terminals(conf: str) -> None:
    with Terminal(conf) as terminal:
        assert b"\x1b[?1000h" not in terminal.shows(b"live")
        os.write(terminal.screen, b"q")
        assert terminal.ends()[0] == 0


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"TERM": "dumb"}, str(Message("top_cannot_draw", kind="dumb"))),
        ({"PYTHONIOENCODING": "latin-1"}, str(Message("top_needs_utf8", encoding="iso8859-1"))),
    ],
)
def test_on_a_terminal_that_cannot_show_it_there_is_one_line(conf: str, environment: dict[str, str], told: str) -> None:
    with Terminal(conf, **environment) as terminal:
        code, shown = terminal.ends()
        assert code == 1
        assert shown.decode().startswith(f"error: bad_request: {told}")
        assert "\x1b" not in shown.decode()
