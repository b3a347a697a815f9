"""Temporary disk: what a node has of it, who waits for it and why, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from master.core.attempts.agent_messages import as_welcome
from master.core.nodes.inventory import Node, NodeSpec, NodeState
from master.core.tasks.task import TaskState
from tests.faults import said, says
from tests.master.core.small_core import BOOT, core_with, run, submit
from tests.master.nodes.played_agent import WELCOME
from wire.errors import ImpossibleError
from wire.framing import encode
from wire.message import Message, ids, names

SILENT = msgspec.structs.replace(BOOT, tmp_disk_mib=None)
"""An agent of a version that does not say it."""


def test_the_word_of_the_registry_outranks_that_of_the_agent() -> None:
    node = Node(NodeSpec(name="a"))
    assert node.tmp_disk_mib is None
    node.facts = BOOT
    assert node.tmp_disk_mib == 5000
    node.respec(NodeSpec(name="a", tmp_disk_mib=70))
    assert node.tmp_disk_mib == 70


def test_a_welcome_says_it_or_does_not() -> None:
    assert as_welcome(encode({**WELCOME, "tmp_disk_mib": 9000})).facts().tmp_disk_mib == 9000
    assert as_welcome(encode(WELCOME)).facts().tmp_disk_mib is None
    assert as_welcome(encode({**WELCOME, "tmp_disk_mib": None})).facts().tmp_disk_mib is None


def test_tasks_get_no_more_than_there_is_and_the_next_one_waits_for_it() -> None:
    core = core_with()
    first, second, third = (submit(core, tmp_disk_mib=mib, gpus=1) for mib in (3000, 3000, 2000))
    core.plan(1.0)
    assert (first.state, second.state, third.state) == (TaskState.STARTING, TaskState.WAITING, TaskState.STARTING)
    wait = core.wait(second)
    assert (wait.brief.key, len(wait.obstacles)) == ("needs", 1)
    assert says(wait.message(), "tmp_disk", mib=3000)
    assert says(wait.message(), "tmp_disk_free", free=0, has=5000)
    assert says(wait.message(), "have_some", tasks=ids([1, 3]))
    run(core, first)
    core.plan(4.0)
    assert second.state is TaskState.STARTING


def test_a_task_waits_where_nobody_knows_the_size_and_is_told_what_to_do() -> None:
    core = core_with(NodeSpec(name="old"), online=False)
    core.node_state("old", NodeState.ONLINE, None, SILENT)
    task = submit(core, tmp_disk_mib=1)
    core.plan(1.0)
    assert task.state is TaskState.WAITING
    assert says(core.why_it_waits(task), "tmp_disk_unknown")
    core.set_nodes((NodeSpec(name="old", tmp_disk_mib=10),))
    core.plan(2.0)
    assert task.state is TaskState.STARTING


def test_more_than_any_node_has_is_refused_with_the_most_that_there_is() -> None:
    core = core_with(NodeSpec(name="a"), NodeSpec(name="b", tmp_disk_mib=8000))
    with pytest.raises(ImpossibleError) as refusal:
        submit(core, tmp_disk_mib=9000)
    assert says(said(refusal.value), "asks_beyond")
    assert says(said(refusal.value), "tmp_disk", mib=9000)
    assert says(said(refusal.value), "has", nodes=names(["b"]), amount=Message("tmp_disk", mib=8000))
