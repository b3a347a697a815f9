"""A desktop client's task for more GPUs than any node has waits, as with the original, and holds up nobody."""

from __future__ import annotations

from pathlib import Path

from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import TaskState
from tests.desktop.client import DesktopClient, form
from tests.desktop.place import DesktopPlace, with_client
from tests.master.core.small_core import BOOT, core_with, submit

ID = "00000000000001"


def test_a_task_for_more_gpus_than_any_node_has_waits_also_after_a_change_and_queued_again(tmp_path: Path) -> None:
    def story(client: DesktopClient, _place: DesktopPlace) -> None:
        assert client.ask("add_task", form("x", need_gpus="64")) == ""
        assert client.ask("change_task", {**form("x", need_gpus="99"), "task_id": ID}) == ""
        assert client.ask("add_task", form("x", need_gpus="64", slaver="a")) == ""
        assert client.ask("resub_task", ID)["info"] == ""
        assert client.ask("stop_task", ID)["info"] == "success"
        assert client.ask("change_task", {**form("x", need_gpus="99"), "task_id": ID}) == ""
        assert client.ask("add_task", form("x", slaver="nowhere")) == "节点 nowhere 不存在（现有节点：a）"

    with_client(tmp_path, story)


def test_it_keeps_room_from_nobody_and_starts_once_a_node_has_so_many() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",) * 2))
    large = submit(core, gpus=1, urgent=True)
    core.plan(0.0)
    core.cancel(large.id, 1.0)
    task = core.submit([type(large)(id=0, command="true", gpus=64, urgent=True)], 1.0, waits=True)[0]
    core.started("a", large.allocation[0].launch_id, 2.0, 2.0)
    core.plan(2.0)
    small = submit(core, gpus=1)
    core.plan(3.0)
    assert (task.state, small.state, core.reservations) == (TaskState.WAITING, TaskState.STARTING, ())
    assert "64 GPUs" in str(core.why_it_waits(task))
    core.set_nodes((NodeSpec(name="a", gpu_models=("GPU",) * 2), NodeSpec(name="b", gpu_models=("GPU",) * 64)))
    core.node_state("b", NodeState.ONLINE, None, BOOT)
    core.plan(4.0)
    assert task.state is TaskState.STARTING
