"""What ails the GPUs of a node, in the lines beneath `muster nodes`; and a clock that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from client.cli.main import main
from client.text.nodes import told_together
from tests.client.fake_master import FakeMaster
from tests.client.top_cluster import gpu, node

PAGE = {"user_name": "lab", "port": 22, "labels": {}, "drained_by": None, "drained_at": None}

BOB = "used by bob (pid 7)"


def ill(**fields: Any) -> Any:
    healths = ("ok", BOB, None, BOB, "it fell off the bus\x1b[2J")
    return node("a", [gpu(index, health=health) for index, health in enumerate(healths)], **fields)


def test_gpus_with_one_reason_share_a_line_and_everybody_sees_whose_they_are() -> None:
    assert told_together([ill(mismatch="the machine shows 6 GPUs and the registry counts 5")], None) == [
        "a: the machine shows 6 GPUs and the registry counts 5",
        f"a: GPU 1, 3: {BOB}",
        "a: GPU 4: it fell off the bus\\x1b[2J",
    ]
    assert all(len(line) <= 20 for line in told_together([ill()], 20))


def test_what_is_well_or_cannot_be_reached_has_no_such_lines() -> None:
    well: Any = node("a", [gpu(0), gpu(1)])
    assert told_together([well], None) == []
    assert told_together([ill(state="unreachable")], None) == []


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
