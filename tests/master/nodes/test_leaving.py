"""Nodes that left the registry while tasks ran there."""

from __future__ import annotations

from pathlib import Path

from master.core.tasks.task import TaskState
from master.nodes.leaving import LeavingNodes
from tests.master.in_process import run
from tests.master.nodes.played_fleet import Field, ssh
from tests.waiting import settled


def test_the_next_master_still_finds_its_way_to_a_node_that_left_while_busy(tmp_path: Path) -> None:
    path = tmp_path / "leaving_nodes.json"

    async def story() -> None:
        async with Field(tmp_path, leaving=LeavingNodes(path)) as here:
            here.fleet.apply((ssh("n", proxy="socks5://me:secret@10.0.0.9:1080"),))
            launch_id = await here.busy()
            here.fleet.apply(())
            assert path.stat().st_mode & 0o077 == 0
            await here.fleet.close()
            here.next_fleet(LeavingNodes(path)).apply(())
            await settled(lambda: here.fleet._members.of("n").link.is_up)
            here.one.end(launch_id)
            await settled(lambda: here.node("n") is None)
            assert here.master.core.tasks[1].state is TaskState.SUCCEEDED
            await settled(lambda: not LeavingNodes(path).entries)

    run(story())


def test_what_cannot_be_read_of_the_nodes_that_left_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "leaving_nodes.json"
    path.write_text('{"n": {"name": "n"}}')
    assert LeavingNodes(path).entries == {}
