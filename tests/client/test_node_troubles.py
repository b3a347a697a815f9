"""What ails the GPUs of a node, in the lines beneath `muster nodes`; and a clock that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from client.cli.main import main
from client.cli.node_words import gpu_troubles
from tests.client.fake_master import FakeMaster
from tests.client.top_cluster import gpu, node

PAGE = {"user_name": "lab", "port": 22, "labels": {}, "drained_by": None, "drained_at": None}

BOB = "used by bob (pid 7)"


def ill(**fields: Any) -> Any:
    healths = ("ok", BOB, None, BOB, "it fell off the bus\x1b[2J")
    return node("a", [gpu(index, health=health) for index, health in enumerate(healths)], **fields)


def test_gpus_with_one_reason_share_a_line_and_everybody_sees_whose_they_are() -> None:
    assert gpu_troubles(ill(mismatch="the machine shows 6 GPUs and the registry counts 5"), None) == [
        "a: the machine shows 6 GPUs and the registry counts 5",
        f"a: GPU 1, 3: {BOB}",
        "a: GPU 4: it fell off the bus\\x1b[2J",
    ]
    assert all(len(line) <= 20 for line in gpu_troubles(ill(), 20))


def test_what_is_well_or_cannot_be_reached_has_no_such_lines() -> None:
    well: Any = node("a", [gpu(0), gpu(1)])
    assert gpu_troubles(well, None) == []
    assert gpu_troubles(ill(state="unreachable"), None) == []


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
