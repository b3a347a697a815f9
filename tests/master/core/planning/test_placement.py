"""Which of the nodes where a task fits it gets: whole GPUs, whole nodes and CPUs are kept for those who need them."""

from __future__ import annotations

import pytest

from master.core.core import Core
from master.core.nodes.facts import Facts, NodeState
from master.core.nodes.node import NodeSpec
from master.core.tasks.task import Task
from tests.master.core.small_core import core_with, submit
from wire.agent import PROTOCOL

NODES = {"lean": (4, 16), "rich": (4, 64), "bare": (0, 16)}
"""GPUs and CPUs of each."""


def lab(*names: str) -> Core:
    """These nodes, idle."""
    specs = [
        NodeSpec(name=name, gpu_models=("GPU",) * NODES[name][0], gpu_memory_mib=(10_000,) * NODES[name][0])
        for name in names
    ]
    core = core_with(*specs, online=False)
    for name in names:
        facts = Facts(
            boot_id="b", state_id="s", cpus=NODES[name][1], memory_mib=100_000, protocol=PROTOCOL, runs_as="another"
        )
        core.node_state(name, NodeState.ONLINE, None, facts)
    return core


def where(core: Core, task: Task) -> str:
    core.plan(0.0)
    return task.allocation[0].node if task.allocation else ""


def test_a_task_that_asks_for_cpus_alone_leaves_those_that_gpus_need() -> None:
    core = lab("rich", "lean", "bare")
    assert where(core, submit(core, gpus=0, cpus=12)) == "bare"
    assert where(core, submit(core, gpus=0, cpus=12)) == "rich", "no other node keeps CPUs for more of its GPUs"
    held = [submit(core, gpus=4, node="lean"), submit(core, gpus=0, cpus=4)]
    assert [where(core, task) for task in held] == ["lean", "lean"], "its GPUs are all held, and need none any more"


def test_a_task_that_needs_many_cpus_for_a_gpu_goes_where_there_are_so_many_for_each() -> None:
    core = lab("lean", "rich")
    assert where(core, submit(core, gpus=1, cpus=12)) == "rich"
    assert where(core, submit(core, gpus=1, cpus=4)) == "rich", "of equals where the fewest GPUs are left"


def test_a_share_that_needs_many_cpus_does_so_too_though_less_would_be_left_over_elsewhere() -> None:
    core = lab("lean", "rich")
    wants = {"gpus": 1, "share": True, "gpu_memory_mib": 4000}
    assert where(core, submit(core, **wants, node="lean")) == "lean"
    assert where(core, submit(core, **wants)) == "lean", "the least is left over"
    assert where(core, submit(core, gpus=1, share=True, gpu_memory_mib=2000, cpus=12)) == "rich"


def test_gpus_that_have_no_cpus_left_are_the_first_for_those_who_ask_for_none() -> None:
    core = lab("rich", "lean")
    assert where(core, submit(core, gpus=0, cpus=16, node="lean")) == "lean"
    assert where(core, submit(core, gpus=2, node="rich")) == "rich"
    assert where(core, submit(core, gpus=1)) == "lean"
    assert where(core, submit(core, gpus=1, cpus=1)) == "rich"


@pytest.mark.parametrize("order", [("lean", "rich"), ("rich", "lean")])
def test_where_nobody_asks_for_cpus_they_have_no_say(order: tuple[str, ...]) -> None:
    core = lab(*order)
    assert where(core, submit(core, gpus=3, node="lean")) == "lean"
    assert where(core, submit(core, gpus=1)) == "lean", "the fewest are left"
    assert where(core, submit(core, gpus=0)) == "rich", "most slots are free"
