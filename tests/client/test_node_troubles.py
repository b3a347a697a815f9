"""What ails the GPUs of a node, in the lines beneath `muster nodes`; and a clock that is wrong."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from client.cli.main import main
from client.text.nodes import reservations_told, told_together
from tests.client.fake_master import FakeMaster
from tests.client.top_cluster import gpu, node
from wire.message import Message

PAGE = {"user_name": "lab", "port": 22, "labels": {}, "drained_by": None, "drained_at": None}

BOB = "used by bob (pid 7)"


def ill(**fields: Any) -> Any:
    healths = ("ok", BOB, None, BOB, "it fell off the bus\x1b[2J")
    return node("a", [gpu(index, health=health) for index, health in enumerate(healths)], **fields)


MISSING = Message("gpu_missing", shown=6, count=5)


def test_gpus_with_one_reason_share_a_line_and_everybody_sees_whose_they_are() -> None:
    assert told_together([ill(mismatch=str(MISSING))], None) == [
        f"a: {MISSING}",
        f"a: GPU 1, 3: {BOB}",
        "a: GPU 4: it fell off the bus\\x1b[2J",
    ]
    assert all(len(line) <= 20 for line in told_together([ill()], 20))


def test_what_is_well_or_cannot_be_reached_has_no_such_lines() -> None:
    well: Any = node("a", [gpu(0), gpu(1)])
    assert told_together([well], None) == []
    assert told_together([ill(state="unreachable")], None) == []
    assert told_together([well | {"own_account": "admins"}], None) == ["a: admins' tasks only"]


def test_the_command_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeMaster({"node.list": lambda _: [ill()], "server.info": lambda _: {}}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        assert main(["nodes"]) == 0
    assert f"\na: GPU 1, 3: {BOB}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("offset", "line"),
    [
        (61.3, "clock:      61.3 s ahead of the master's\n"),
        (-2.0, "clock:      2.0 s behind the master's\n"),
        (0.4, ""),
    ],
)
def test_a_clock_that_is_wrong_is_told_on_the_page_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], offset: float, line: str
) -> None:
    with FakeMaster({"node.show": lambda _: {**node("a", clock_offset_s=offset), **PAGE}}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        assert main(["node", "show", "a"]) == 0
    shown = capsys.readouterr().out
    assert line in shown
    assert ("clock:" in shown) == bool(line)


def test_two_hundred_nodes_with_one_trouble_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away = "cannot be reached: is the machine on?"
    nodes: list[Any] = [
        node(f"gpu{n}", [gpu(0)], state="unreachable", address=f"10.0.0.{n}", reason=f"10.0.0.{n}:22 {away}")
        for n in range(1, 201)
    ]
    nodes += [node("odd", [gpu(0)], state="unreachable", address="10.0.1.1", reason="10.0.1.1:22 says nothing")]
    with FakeMaster({"node.list": lambda _: nodes, "server.info": lambda _: {}}) as master:
        monkeypatch.setenv("MUSTER_CONF", master.conf(tmp_path))
        assert main(["nodes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == ["", f"gpu[1-200]: it {away}", "odd: 10.0.1.1:22 says nothing"]
    assert len(lines) == 1 + 201 + 3


def test_however_different_the_troubles_are_no_more_than_so_many_are_told() -> None:
    nodes: list[Any] = [
        node(f"gpu{n}", [gpu(0)], state="untrusted", reason=f"its key is SHA256:{n}") for n in range(99)
    ]
    nodes += [node(f"far{n}", [gpu(0)], state="unreachable", reason="its cable is out") for n in range(3)]
    lines = told_together(nodes, None)
    assert lines[0] == "far[0-2]: its cable is out"
    assert lines[-1] == "and 80 more nodes for other reasons: `muster node show NAME`"
    assert len(lines) == 21


def reserved(name: str, task: int, gpus: list[int], at: float | None) -> Any:
    return node(name, 8, reservation={"task": task, "gpus": gpus, "expected_at": at})


def test_which_gpus_are_kept_for_which_task_is_told_of_all_nodes_where_it_is_the_same_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    many = [reserved(f"gpu{number:03}", 24, [0, 1, 2, 3, 4, 5, 6, 7], 90_000.0) for number in range(200)]
    nodes = [node("a"), *many, reserved("b", 31, [2], None), reserved("c", 32, [], None)]
    assert reservations_told(nodes, None) == [
        "gpu[000-199]: GPUs 0-7 are reserved for task 24, which is expected to start by 1970-01-02 01:00",
        "b: GPU 2 is reserved for task 31; nobody knows when it starts",
        "c: what it has is reserved for task 32; nobody knows when it starts",
    ]
    assert all(len(line) <= 30 for line in reservations_told(nodes, 30))
    older: Any = [{key: value for key, value in node("a").items() if key != "reservation"}]
    assert reservations_told(older, None) == [], "a master before that tells nothing of it"


def test_nodes_and_node_show_tell_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = reserved("a", 31, [2, 3], None)
    verbs = {"node.list": lambda _: [kept], "node.show": lambda _: {**kept, **PAGE}, "server.info": lambda _: {}}
    with FakeMaster(verbs) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        assert main(["nodes"]) == main(["node", "show", "a"]) == 0
    said = capsys.readouterr().out
    assert "\na: GPUs 2-3 are reserved for task 31; nobody knows when it starts\n" in said
    assert "reserved:   GPUs 2-3 are reserved for task 31; nobody knows when it starts\n" in said
