"""What an attempt ran out of: the agent's finding, and what the samples say of whose memory it was."""

from __future__ import annotations

from typing import Any

import pytest

from master.core.attempts.agent_messages import as_ended, as_inventory
from master.core.attempts.endings import kind_of
from master.core.attempts.exhaustion import OUT_OF_MEMORY, CardUse, ran_out
from master.core.attempts.exits import Exit
from master.core.attempts.launching import LaunchSettings, launch_message
from master.core.core import Core
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.node import NodeSpec
from master.core.tasks.request import request_of
from master.core.tasks.task import Task, TaskState
from tests.master.core.small_core import core_with, launch_of, submit
from wire.agent import RAN_OUT


def key(finding: str, card: CardUse | None = None, *, has_gpus: bool = True) -> str | None:
    said = ran_out(finding, 1, card, has_gpus=has_gpus)
    return None if said is None else said.key


@pytest.mark.parametrize(
    ("finding", "card", "said"),
    [
        ("oom_gpu", None, "oom_gpu"),
        ("oom_gpu", CardUse(own=23_000, others=100, total=24_000), "oom_gpu_own"),
        ("oom_gpu", CardUse(own=12_000, others=11_000, total=24_000), "oom_gpu_others"),
        ("oom_gpu", CardUse(own=12_000, others=0, total=24_000), "oom_gpu"),
        ("oom_gpu_maybe", None, None),
        ("oom_gpu_maybe", CardUse(own=12_000, others=0, total=24_000), None),
        ("oom_gpu_maybe", CardUse(own=22_000, others=0, total=24_000), "oom_gpu_own"),
        ("oom_gpu_maybe", CardUse(own=12_000, others=11_000, total=24_000), "oom_gpu_others"),
        ("oom_host", None, "oom_host"),
        ("shm_full", None, "shm_full"),
        ("disk_full", None, "disk_was_full"),
        ("", None, None),
        ("what a later agent may say", None, None),
    ],
)
def test_a_finding_is_said_with_whose_memory_it_was_where_that_is_known(
    finding: str, card: CardUse | None, said: str | None
) -> None:
    assert key(finding, card) == said


def test_what_has_no_gpu_ran_out_of_the_machines_memory() -> None:
    assert key("oom_gpu", has_gpus=False) == "oom_host"


def ended(core: Core, task: Task, **found: Any) -> None:
    core.exited("a", Exit(launch_of(task), "exited", 9.0, 1, started_at=2.0, **found), 9.0)


def running(core: Core, **wants: object) -> Task:
    task = submit(core, gpus=1, **wants)
    core.plan(0.0)
    core.started("a", launch_of(task), 2.0, 2.0)
    return task


def test_the_samples_of_its_gpu_tell_that_it_grew_to_the_size_of_the_card() -> None:
    core = core_with()
    task = running(core)
    mine = Holder(pid=7, memory_mib=23_500, launch_id=launch_of(task))
    core.gpus_seen("a", [GpuReport(0, memory_total_mib=24_000, memory_used_mib=23_600, processes=(mine,))], 3.0)
    core.gpus_seen("a", [GpuReport(0, memory_total_mib=24_000, memory_used_mib=5)], 5.0)
    ended(core, task, ran_out="oom_gpu", last_line="torch.OutOfMemoryError: …")
    assert (task.state, task.reason_key) == (TaskState.FAILED, "oom_gpu_own")
    assert task.reason_args == {"code": 1, "own": 23_500, "total": 24_000}
    assert "--gpu-model" in (task.reason or "")
    assert task.last_line == "torch.OutOfMemoryError: …"
    assert task.attempts[-1].last_line == task.last_line


def test_a_stranger_on_its_gpu_is_told() -> None:
    core = core_with()
    task = running(core)
    mine = Holder(pid=7, memory_mib=10_000, launch_id=launch_of(task))
    other = Holder(pid=8, memory_mib=13_000, user="somebody")
    seen = GpuReport(0, memory_total_mib=24_000, memory_used_mib=23_000, processes=(mine, other))
    core.gpus_seen("a", [seen], 3.0)
    ended(core, task, ran_out="oom_gpu_maybe")
    assert (task.reason_key, task.reason_args) == ("oom_gpu_others", {"code": 1, "others": 13_000, "total": 24_000})


def test_want_of_memory_is_tried_again_where_that_was_asked_for_and_a_full_disk_as_any_failure() -> None:
    core = core_with()
    for found, retry_on, state in (
        ("oom_host", ["oom"], TaskState.WAITING),
        ("oom_host", ["fail"], TaskState.FAILED),
        ("disk_full", ["oom"], TaskState.FAILED),
        ("disk_full", ["fail"], TaskState.WAITING),
    ):
        task = running(core, max_retries=1, retry_on=retry_on)
        ended(core, task, ran_out=found, last_line="why")
        assert task.state is state, (found, retry_on)
        assert task.last_line == (None if state is TaskState.WAITING else "why")
        assert task.attempts[-1].last_line == "why"
    assert {kind_of(TaskState.FAILED, ran_out(one, 1, None, has_gpus=True)) for one in RAN_OUT} == {"oom", "fail"}
    assert "oom_gpu" in OUT_OF_MEMORY


def grown(core: Core, **wants: Any) -> Task:
    """One that ran on GPU 0 of node a and grew to the size of that."""
    task = running(core, max_retries=2, retry_on=["oom"], node_list=["a", "b"], **wants)
    mine = Holder(pid=7, memory_mib=23_500, launch_id=launch_of(task))
    core.gpus_seen("a", [GpuReport(0, memory_total_mib=24_000, memory_used_mib=23_600, processes=(mine,))], 3.0)
    ended(core, task, ran_out="oom_gpu")
    return task


def cards(name: str, mib: int) -> NodeSpec:
    return NodeSpec(name=name, gpu_models=("GPU",), gpu_memory_mib=(mib,))


def test_what_grew_to_the_size_of_its_gpu_is_tried_again_with_a_quarter_more_than_it_was_seen_to_use() -> None:
    core = core_with(cards("a", 24_000), cards("b", 80_000))
    task = grown(core)
    assert (task.state, task.gpu_peak_mib, task.gpu_memory_mib) == (TaskState.WAITING, 23_500, 29_375)
    core.plan(100.0)
    assert [part.node for part in task.allocation] == ["b"]
    assert "29375 MiB" in str(request_of(task).describe())


def test_where_no_gpu_has_so_much_it_is_tried_again_as_it_is() -> None:
    core = core_with(cards("a", 24_000), cards("b", 24_000))
    task = grown(core)
    assert (task.state, task.gpu_memory_mib) == (TaskState.WAITING, None)
    core.plan(100.0)
    assert task.allocation


def test_what_others_left_no_memory_is_tried_again_elsewhere_if_there_is_another_place() -> None:
    core = core_with(cards("a", 24_000), cards("b", 24_000))
    task = running(core, max_retries=1, retry_on=["oom"])
    mine = Holder(pid=7, memory_mib=10_000, launch_id=launch_of(task))
    other = Holder(pid=8, memory_mib=13_000, user="somebody")
    seen = GpuReport(0, memory_total_mib=24_000, memory_used_mib=23_000, processes=(mine, other))
    core.gpus_seen("a", [seen], 3.0)
    ended(core, task, ran_out="oom_gpu")
    core.gpus_seen("a", [GpuReport(0, memory_total_mib=24_000, memory_used_mib=5)], 90.0)
    core.plan(100.0)
    assert [part.node for part in task.allocation] == ["b"]
    task.log_path = "/logs/1.log"
    settings = LaunchSettings(conda="/conda", task_env={}, grace_s=3.0, log_folder="/logs")
    assert launch_message(task, task.allocation[0], settings)["log_new"] is False, "the first attempt has written there"


def test_nodes_where_others_left_a_gang_no_memory_are_none_that_could_not_start_it() -> None:
    core = core_with(*(cards(name, 24_000) for name in "abcd"))
    task = submit(core, gpus=1, nodes=3, max_retries=1)
    core.plan(1.0)
    for part in task.allocation:
        core.started(part.node, part.launch_id, 2.0, 2.0, pid=7)
        mine = Holder(pid=7, memory_mib=10_000, launch_id=part.launch_id)
        other = Holder(pid=8, memory_mib=13_000, user="somebody")
        seen = GpuReport(0, memory_total_mib=24_000, memory_used_mib=23_000, processes=(mine, other))
        core.gpus_seen(part.node, [seen], 3.0)
    for part in list(task.allocation):
        core.exited(part.node, Exit(part.launch_id, "exited", 4.0, 1, ran_out="oom_gpu"), 4.0)
        core.gpus_seen(part.node, [GpuReport(0, memory_total_mib=24_000, memory_used_mib=5)], 9.0)
    core.plan(100.0)
    assert (task.state, task.attempt) == (TaskState.STARTING, 2)
    first, *others = task.allocation
    core.exited(first.node, Exit(first.launch_id, "not_started", 101.0, None, fault="node"), 101.0)
    for part in others:
        core.exited(part.node, Exit(part.launch_id, "killed", 101.0), 101.0)
    assert task.state is TaskState.WAITING, "one node could not start it, and not three"


def test_a_new_attempt_begins_without_the_old_ones_line() -> None:
    core = core_with()
    task = running(core)
    ended(core, task, last_line="why")
    assert (task.reason_key, task.last_line) == ("exit_code", "why")
    core.retry(task.id)
    assert (task.last_line, task.attempts[-1].last_line) == (None, "why")


def test_whatever_an_agent_says_a_line_is_short_and_one() -> None:
    line = b'{"op":"exit","launch_id":"1","cause":"exited","code":1,"ran_out":"oom_gpu","last_line":"%s"}'
    told = as_ended(line % (b"a\\n\\u001b[31mb" + b"x" * 5000)).exit()
    assert told.ran_out == "oom_gpu"
    assert told.last_line.isprintable()
    assert len(told.last_line) < 1000
    entry = (
        b'{"attempts":[{"launch_id":"1","state":"ended","cause":"exited","code":1,"last_line":"a\\nb","ran_out":"x"}]}'
    )
    (seen,) = as_inventory(entry).attempts
    found = seen.seen().exit
    assert found is not None
    assert (found.ran_out, found.last_line.isprintable()) == ("x", True)
