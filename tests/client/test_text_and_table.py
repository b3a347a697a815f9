"""What people see: harmless, aligned, cut to fit, and drawn quickly."""

from __future__ import annotations

import time

import pytest

from client.text.columns import cut, width
from client.text.command import command_in_brief, command_line
from client.text.quantities import duration
from client.text.table import render
from client.text.tasks import table
from tests.client.fake_master import task
from wire.harmless import harmless


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("a\u202eb", "a\\u202eb"),
        ("全角\u3000空格 ok", "全角\u3000空格 ok"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_shown_not_obeyed(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_wide_characters_count_two_and_are_never_cut_in_half() -> None:
    assert width("训练 a") == 6
    assert cut("训练任务", 8) == "训练任务"
    assert cut("训练任务", 6) == "训练…"
    assert width(cut("训练任务", 4)) <= 4


def test_a_command_reads_as_typed() -> None:
    assert command_line(["python", "a b.py", "it's", "", "--x=1"]) == "python 'a b.py' 'it'\"'\"'s' '' --x=1"
    assert command_in_brief("#!/bin/bash\n#MUSTER --gpus 1\ncd x\nmake\n") == "cd x …"


def test_durations_are_short() -> None:
    assert [duration(value) for value in (None, 5, 65, 7500, 90000)] == ["-", "5s", "1m05s", "2h05m", "1d01h"]


def test_nobody_knows_how_long_a_task_of_an_old_system_ran() -> None:
    shown = table([task(1, state="succeeded", ended_at=None), task(2, state="waiting")], 1e9, None, colour=False)  # type: ignore[list-item]
    [_, old, waiting] = [line.split() for line in shown.splitlines()]
    assert "-" in old
    assert "-" not in waiting


@pytest.mark.parametrize("room", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(room: int) -> None:
    rows = [[str(n), "waiting", "很长的中文任务名字" * n, "x" * 30 * n] for n in range(1, 6)]
    text = render(["ID", "STATE", "NAME", "COMMAND"], rows, room, flexible={"NAME": 8, "COMMAND": 8})
    assert max(map(width, text.splitlines())) <= room


def test_columns_stay_aligned_with_chinese_text_and_colour() -> None:
    rows = [["1", "waiting", "训练", "a"], ["2", "failed", "x", "b"]]
    text = render(["ID", "STATE", "NAME", "C"], rows, 80, flexible={}, coloured="STATE")
    plain = text.replace("\x1b[33m", "").replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert {width(line[:-1]) for line in plain.splitlines()} == {19}
    assert text != plain


def test_ten_thousand_rows_are_drawn_in_no_time() -> None:
    tasks = [task(n, name=f"run {n}", reason="waits for 2 GPUs on any node", gpus=2) for n in range(10_000)]
    begin = time.process_time()
    text = table(tasks, 2000.0, 100, colour=True)  # type: ignore[arg-type]
    assert time.process_time() - begin < 0.5
    assert text.count("\n") == 10_001
