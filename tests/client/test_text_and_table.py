"""What people see: harmless, aligned, cut to fit, and drawn quickly."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from client.text.columns import cut, width
from client.text.command import command_in_brief, command_line
from client.text.quantities import duration, moment
from client.text.table import render
from client.text.task_page import task_page
from client.text.tasks import table, took
from tests.calls import bytes_read_by, instructions_of
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


def test_the_table_tells_all_nodes_of_a_task_and_what_each_is_asked_for() -> None:
    on_two: Any = {"gpus": 2, "nodes": 2}
    alike = [{"node": "a", "gpus": [0, 1]}, {"node": "b", "gpus": [0, 1]}]
    other = [{"node": "a", "gpus": [0, 1]}, {"node": "b", "gpus": [2, 3]}]
    rows: Any = [
        task(1, "running", started_at=0.0, allocation=alike, **on_two),
        task(2, "running", started_at=0.0, allocation=other, **on_two),
        task(3, "running", started_at=0.0, allocation=alike[:1], gpus=2),
        task(4, **on_two),
        task(5, gpus=1, gpus_max=4),
        task(6, node_list=["gpu1", "gpu2", "gpu3"], **on_two),
        task(7, gpus_on={"a": [0, 1], "b": [2, 3]}, **on_two),
    ]
    shown = table(rows, 1.0, None, colour=False).splitlines()[1:]
    told = [
        "4 (0,1 on each)  a, b",
        "4 (0,1; 2,3)     a, b",
        "2 (0,1)          a ",
        " 2x2 ",
        " 1-4 ",
        "2x2              gpu[1-3] ",
        "2x2              a, b ",
    ]
    assert all(part in line for part, line in zip(told, shown, strict=True)), shown


def test_a_task_page_tells_what_was_asked_for_and_how_much_of_it_is_used_up() -> None:
    asked = {
        "time_limit_s": 60.0,
        "on_timeout": "requeue",
        "max_retries": 3,
        "retries": 1,
        "retry_on": ["fail", "lost"],
    }
    page = dict(task_page(task(1, begin_at=1e9, eligible_at=2e9, **asked), 3e9))  # type: ignore[arg-type]
    assert (page["retries"], page["time limit"]) == ("1 of 3, on fail, lost", "1m00s, then behind all others and on")
    assert (page["begins"], page["waits since"]) == (moment(1e9), moment(2e9))
    plain = dict(task_page(task(1), 3e9))  # type: ignore[arg-type]
    assert not {"retries", "time limit", "begins", "waits since"} & plain.keys(), "nor of a master from before"


def test_a_task_page_says_whose_clocks_were_wrong() -> None:
    parts = [{"node": "a", "gpus": [], "clock_offset_s": 86400.0}, {"node": "b", "gpus": [], "clock_offset_s": -61.0}]
    page = dict(task_page(task(1, allocation=[*parts, {"node": "c", "gpus": []}]), 3e9))  # type: ignore[arg-type]
    assert page["clock"] == (
        "a's was 1d00h ahead of the master's, b's was 1m01s behind the master's: its times here are corrected by that"
    )
    assert "clock" not in dict(task_page(task(1, allocation=[{"node": "c", "gpus": []}]), 3e9))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"node": "a"}, "1 GPU, node a"),
        ({"node_list": ["a", "b"]}, "1 GPU, on one of a, b"),
        ({"node_list": ["g1", "g2", "g3"], "nodes": 2, "exclude": ["x"]}, "on each of 2 nodes of g[1-3], not on x"),
        ({"gpus_on": {"a": [0], "b": [3]}, "nodes": 2}, "1 GPU, on each of 2 nodes: GPU 0 of a and GPU 3 of b"),
    ],
)
def test_a_task_page_tells_where_it_is_to_run(asked: dict[str, object], told: str) -> None:
    assert dict(task_page(task(1, gpus=1, **asked), 1.0))["needs"].endswith(told)  # type: ignore[arg-type]


def test_a_task_has_waited_since_only_room_kept_it() -> None:
    assert took(task(1, submitted_at=0.0, eligible_at=100.0), 130.0) == 30.0  # type: ignore[arg-type]
    assert took(task(1, submitted_at=0.0, eligible_at=200.0), 130.0) == 0.0  # type: ignore[arg-type]
    assert took(task(1, submitted_at=10.0), 130.0) == 120.0  # type: ignore[arg-type]


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


def test_a_row_costs_as_little_in_a_long_table_as_in_a_short_one() -> None:
    def drawn(rows: int) -> tuple[int, int]:
        tasks = [task(n, name=f"run {n}", reason="waits for 2 GPUs on any node", gpus=2) for n in range(rows)]
        assert table(tasks, 2000.0, 100, colour=True).count("\n") == rows + 1  # type: ignore[arg-type]
        draw = partial(table, tasks, 2000.0, 100, colour=True)  # type: ignore[arg-type]
        return instructions_of(draw), bytes_read_by(draw)

    (few, read_few), (many, read_many) = drawn(500), drawn(2000)
    assert many < 2000 * 900, "twice what it is"
    assert many < 4.5 * few
    assert read_many < 4.5 * read_few
