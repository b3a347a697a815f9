"""A launch id names a folder on the node's disk: one that could lead elsewhere is refused, whoever sends it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.agent.small_master import Node
from tests.cases import each_case

HOSTILE = ["../x", "..", ".", "/etc/x", "a/../../x", "", "x\n", "a" * 65, "é"]


def _all_files(node: Node) -> set[Path]:
    return {path for path in node.state.parent.rglob("*") if path.is_file()}


def test_no_message_about_it_makes_or_removes_a_file(node: Node) -> None:
    link = node.up()
    decoy = node.state / "x"
    decoy.mkdir()
    (decoy / "record").write_text('{"is": "claim"}\n', encoding="utf-8")
    before = _all_files(node)
    with each_case() as cases:
        for launch_id in HOSTILE:
            with cases.case(repr(launch_id)):
                node.launch(link, launch_id, "true")
                link.kill(launch_id, grace_s=0.0)
                link.adopt({"launch_id": launch_id, "pid": os.getpid(), "pid_start": 1, "started_at": 1.0})
                link.ack(launch_id)
                link.ping()
                assert _all_files(node) == before
                link = node.link()
                assert link.inventory == {}


@pytest.mark.parametrize("launch_id", ["../x", "..", ".", "a/../../x"])
def test_a_task_cannot_make_the_agent_look_elsewhere(node: Node, launch_id: str) -> None:
    link = node.up()
    decoy = node.state / "x"
    decoy.mkdir()
    claim = '{"is": "claim", "launch_id": "x", "boot_id": "", "at": 1.0, "log_path": "", "shim": 0, "shim_start": 0}\n'
    (decoy / "record").write_text(claim, encoding="utf-8")
    pipe = next(path for path in node.state.iterdir() if path.is_fifo())
    with pipe.open("w", encoding="utf-8") as out:
        out.write(f'{launch_id} {{"is": "start", "pid": 1, "pid_start": 1, "at": 1.0}}\n')
    link.ping()
    assert node.link().inventory == {}
    assert {path.name for path in decoy.iterdir()} == {"record"}
