"""What people see: harmless, aligned, cut to fit, and drawn quickly."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from client.text.allocations import allocations_table
from client.text.attempts import attempts_table
from client.text.cells import text_of
from client.text.columns import cut, width
from client.text.command import command_in_brief, command_line
from client.text.quantities import duration, moment
from client.text.table import render
from client.text.task_page import task_page
from client.text.tasks import reason, table, took
from client.top.task_lines import task_line
from tests.calls import bytes_read_by, instructions_of
from tests.client.fake_master import task
from wire.harmless import harmless
from wire.message import Message, Several, ids, names


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


def test_a_task_page_says_that_a_task_counts_as_an_admins() -> None:
    page = dict(task_page(task(1, by_admin=True), 3e9))  # type: ignore[arg-type]
    assert page["by admin"] == "it counts as an admin's"
    for other in (task(1, by_admin=False), task(1)):
        assert "by admin" not in dict(task_page(other, 3e9))  # type: ignore[arg-type]


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
        ({"gpus_on": {"a": [0]}}, "1 GPU, GPU 0 of a"),
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


def _because(key: str, **args: Any) -> dict[str, Any]:
    message = Message(key, **args)
    return {"reason": str(message), "reason_key": key, "reason_args": message.plain_args()}


def _needs(*what: Message, obstacles: tuple[Message, ...]) -> dict[str, Any]:
    return _because("needs", request=Message("asked", what=what), obstacles=obstacles)


def _amount(count: int, unit: str) -> Message:
    return Message("amount", count=count, unit=unit)


def _free(nodes: Several, free: int, unit: str = "GPU") -> Message:
    what = Message("free", free=free, has=4, unit=unit)
    return Message("obstacle_because", nodes=nodes, what=what, because=(Message("held_by", tasks=ids([7])),))


def _kept(key: str, **more: Any) -> Message:
    return Message(key, node="n1", gpus=ids(range(2)), tasks=ids([7]), **more)


SHORT_REASONS: list[tuple[dict[str, Any], str]] = [
    ({**_because("command_not_found", code=127), "exit_code": 127}, "exit 127: not found"),
    ({**_because("not_executable", code=126), "exit_code": 126}, "exit 126: not executable"),
    ({**_because("exit_code", code=137), "exit_code": 137}, "exit 137"),
    ({**_because("exit_code", code=139), "exit_code": 139}, "exit 139"),
    ({**_because("killed_from_outside", code=137), "exit_code": 137}, "exit 137"),
    ({**_because("exit_code", code=3), "exit_code": 3}, "exit 3"),
    ({**_because("exit_code", code=3), "exit_code": 3, "last_line": "ValueError: 错"}, "exit 3: ValueError: 错"),
    ({"exit_code": 137}, "exit 137"),
    (
        {**_because("of_part", rank=1, node="b", why=Message("exit_code", code=9)), "exit_code": 9},
        "part 1 (on b): exit 9",
    ),
    (_needs(_amount(2, "GPU"), obstacles=(_free(names(["n1"]), 1),)), "2 GPUs: n1 has 1 free"),
    (_needs(_amount(2, "GPU"), obstacles=(_free(names(["n1", "n2"]), 1),)), "2 GPUs: n1, n2 have 1 free"),
    (
        _needs(_amount(2, "GPU"), _amount(8, "CPU"), obstacles=(_free(names(["n1"]), 1),)),
        "2 GPUs and 8 CPUs: n1 has 1 GPU free",
    ),
    (_needs(_amount(2, "GPU"), obstacles=()), "2 GPUs"),
    (
        _needs(_amount(2, "GPU"), obstacles=(_kept("kept_for_it_until", until=61.0), _free(names(["n2"]), 1))),
        time.strftime("2 GPUs: n1 is reserved for it by %Y-%m-%d %H:%M; n2 has 1 free", time.localtime(120)),
    ),
    (_needs(_amount(2, "GPU"), obstacles=(_kept("kept_for_it"),)), "2 GPUs: n1 is reserved for it, after 7"),
    (_needs(_amount(2, "GPU"), obstacles=(_kept("kept_for_another", task=9),)), "2 GPUs: n1 is reserved for 9"),
    (
        _needs(
            _amount(1, "GPU"),
            obstacles=(Message("obstacle", nodes=names(["n1"]), what=Message("link", state="unreachable")),),
        ),
        "1 GPU: n1: unreachable",
    ),
    (_because("held", id=7), "held"),
    (_because("waits_for", tasks=(Message("to_succeed", id=3), Message("to_end", id=4))), "after 3 (ok), 4"),
    (_because("begins_at", at=0.0), time.strftime("begins %m-%d %H:%M", time.localtime(0))),
    (_because("oom_gpu", code=1), "out of GPU memory"),
    ({"reason": "as an older master says it"}, "as an older master says it"),
    ({**_because("held", id=7), "reason_key": "of_a_newer_master"}, "held: release it with `muster release 7`"),
    (_because("not_started", said="bad\x1b[2J"), "not started: bad\\x1b[2J"),
]


@pytest.mark.parametrize(("fields", "told"), SHORT_REASONS)
def test_a_reason_that_does_not_fit_is_told_in_a_few_words(fields: dict[str, Any], told: str) -> None:
    one: Any = task(
        1, "waiting", command=["python3", "x" * 200], name="很长的中文任务名字", owner="长名字的人", **fields
    )
    full, short = (table([one], 2000.0, room, colour=False).splitlines()[1] for room in (1000, 90))
    assert reason(one) in full
    assert reason(one, short=True) == told
    assert cut(told, 24)[:-1] in short
    assert width(short) <= 90


def test_in_eighty_columns_the_reason_stays_and_command_and_owner_go_first() -> None:
    rows: Any = [
        task(n, state, name="大模型预训练实验", owner="wangxiaoming", command=["python3", "train.py", "--lr", "0.1"],
             gpus=2, node="gpu-a", **fields)
        for n, (state, fields) in enumerate([("timed_out", one) for one, _ in SHORT_REASONS[:4]] + [
            ("waiting", SHORT_REASONS[9][0])], 1)
    ]  # fmt: skip
    shown = table(rows, 2000.0, 80, colour=False)
    assert max(map(width, shown.splitlines())) <= 80
    for told in ("exit 127: not found", "exit 137", "exit 139", "2 GPUs: n1 has 1 free"):
        assert told in shown, shown
    wide = table(rows, 2000.0, 110, colour=False)
    assert "大模型预训练实验" in wide, "the name is whole as long as the command can shrink"
    assert "python3 train.py --lr 0.1" not in wide


def test_a_reason_on_a_narrow_screen_of_top_is_told_in_a_few_words() -> None:
    for fields, short in SHORT_REASONS:
        told = short
        one: Any = task(1, "waiting", name="大模型", **fields)
        line = text_of(task_line(one, 80, 2000.0)).rstrip()
        if fields.get("reason_key") == "needs" and ": " in told:
            _, _, told = told.partition(": ")  # what it needs stands in the column WHERE
        assert cut(told, 20) in line or line.endswith(reason(one, without_needs=True)), line


def test_how_an_attempt_and_an_allocation_fare_is_told_in_a_few_words_where_there_is_no_room() -> None:
    known = _because("command_not_found", code=127)
    attempt: Any = {
        "no": 1, "parts": [{"node": "gpu-a", "gpus": [0, 1]}], "asked_end": None, "started_at": 1.0, "ended_at": 2.0,
        "exit_code": 127, **known,
    }  # fmt: skip
    shown = attempts_table([attempt], 80)
    assert "exit 127: not found" in shown
    allocation: Any = {
        "id": 1, "name": "exp", "is_ending": False, "state": "waiting", "owner": "wangxiaoming", "held": [], "free": [],
        "gpus": 2, "nodes": 1, "tasks": [], "waiting": [], "ends_at": None, **SHORT_REASONS[9][0],
    }  # fmt: skip
    shown = allocations_table([allocation], 60, 0.0)
    assert "2 GPUs: n1 has 1 free" in shown
    assert max(map(width, shown.splitlines())) <= 60


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
