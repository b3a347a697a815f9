"""Tasks on several nodes: all or nothing at the start, and at the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.attempts.exits import Exit, Seen
from master.core.attempts.launching import hostfile, rendezvous
from master.core.core import Core
from master.core.effects import Effect, Kill, Start
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import Task, TaskState
from master.core.tasks.task_log import log_of
from master.executors.memory import Run
from master.executors.simulation import Job, Simulation
from tests.master.core.small_core import core_with, submit
from wire.errors import ImpossibleError

LAB = tuple(NodeSpec(name=name, gpu_models=("GPU",) * 4) for name in "abc")


def begun(core: Core, **wants: object) -> Task:
    """A gang of two nodes that runs."""
    task = submit(core, nodes=2, gpus=4, **wants)
    core.plan(1.0)
    for rank, part in enumerate(task.allocation):
        core.started(part.node, part.launch_id, 2.0, 2.0, pid=100 + rank)
    return task


def end(core: Core, task: Task, rank: int, code: int | None = 0, *, cause: str = "exited", at: float = 3.0) -> None:
    part = task.allocation[rank]
    core.exited(part.node, Exit(part.launch_id, cause, at, code), at)


def effects(core: Core) -> list[Effect]:
    outcome = core.take_outcome()
    return outcome.effects if outcome is not None else []


def test_a_gang_starts_whole_or_not_at_all_with_a_launch_id_for_each_part() -> None:
    core = core_with(*LAB)
    for name in "ab":
        submit(core, gpus=1, node=name)
    core.plan(1.0)
    task = submit(core, nodes=2, gpus=4)
    core.plan(2.0)
    assert (task.state, task.allocation) == (TaskState.WAITING, [])
    assert "4 GPUs on each of 2 nodes" in str(core.reason(task))
    with pytest.raises(ImpossibleError, match="only 3 nodes could ever take part in it"):
        submit(core, nodes=4, gpus=1)
    core = core_with(*LAB)
    task = begun(core)
    assert [part.node for part in task.allocation] == ["a", "b"]
    assert len({part.launch_id for part in task.allocation}) == 2
    assert len([one for one in effects(core) if isinstance(one, Start)]) == 2


def test_a_part_that_ends_with_0_lets_the_others_finish_and_frees_its_gpus() -> None:
    core = core_with(*LAB)
    task = begun(core)
    end(core, task, 0)
    other = submit(core, gpus=4, node="a")
    core.plan(4.0)
    assert (task.state, other.state) == (TaskState.RUNNING, TaskState.STARTING)
    end(core, task, 0)  # told again
    end(core, task, 1)
    assert (task.state, task.exit_code) == (TaskState.SUCCEEDED, 0)


def test_a_part_that_fails_ends_all_and_its_code_is_the_tasks() -> None:
    core = core_with(*LAB)
    task = begun(core)
    effects(core)
    end(core, task, 1, 3)
    assert [one.launch_id for one in effects(core) if isinstance(one, Kill)] == [task.allocation[0].launch_id]
    assert task.state is TaskState.RUNNING, "until its whole tree is dead"
    end(core, task, 0, None, cause="killed")
    assert (task.state, task.exit_code, task.reason) == (TaskState.FAILED, 3, "part 1 (on b): exit code 3")


def test_a_cancel_ends_every_part_and_one_that_was_not_sent_is_claimed_as_killed() -> None:
    core = core_with(*LAB)
    task = submit(core, nodes=2)
    core.plan(1.0)
    core.started("a", task.allocation[0].launch_id, 2.0, 2.0, pid=7)
    core.node_state("b", NodeState.UNREACHABLE, "cut")
    core.cancel(task.id, 3.0)
    end(core, task, 0, None, cause="killed")
    assert task.state is TaskState.RUNNING, "nobody knows of the other part"
    effects(core)
    core.reconcile("b", [], 4.0)
    assert [one.launch_id for one in effects(core) if isinstance(one, Kill)] == [task.allocation[1].launch_id]
    end(core, task, 1, None, cause="killed")
    assert task.state is TaskState.CANCELLED


def test_after_a_cut_each_part_is_reconciled_under_its_own_id() -> None:
    core = core_with(*LAB)
    task = submit(core, nodes=2)
    core.plan(1.0)
    core.started("a", task.allocation[0].launch_id, 2.0, 2.0, pid=7)
    effects(core)
    core.reconcile("b", [], 3.0)
    assert [one.node for one in effects(core) if isinstance(one, Start)] == ["b"], "it was not sent yet"
    core.started("b", task.allocation[1].launch_id, 4.0, 4.0, pid=8)
    core.reconcile("a", [Seen(task.allocation[0].launch_id, 2.0, pid=7)], 5.0)
    assert task.state is TaskState.RUNNING
    core.reconcile("b", [], 6.0)
    assert task.first_end is not None, "it had begun, and nobody there knows of it any more"
    end(core, task, 0, None, cause="killed")
    assert task.state is TaskState.LOST


def test_a_node_that_is_given_up_ends_the_others_and_the_task_when_they_have_ended() -> None:
    core = core_with(*LAB)
    task = begun(core)
    core.node_state("b", NodeState.UNREACHABLE, "gone")
    assert core.give_up("b", "ann", 5.0) == [task.id]
    assert task.state is TaskState.RUNNING
    end(core, task, 0, None, cause="killed", at=6.0)
    assert (task.state, "given up" in (task.reason or "")) == (TaskState.LOST, True)


def test_a_gang_of_which_a_node_could_not_begin_its_part_waits_again_when_the_others_have_ended() -> None:
    core = core_with(*LAB)
    task = submit(core, nodes=2)
    core.plan(1.0)
    first, second = task.allocation
    core.started("a", first.launch_id, 2.0, 2.0, pid=7)
    core.exited("b", Exit(second.launch_id, "not_started", 2.0, None, "its disk is full", None, "node"), 2.0)
    assert task.state is TaskState.RUNNING
    end(core, task, 0, None, cause="killed")
    assert (task.state, [entry.node for entry in task.unstarted]) == (TaskState.WAITING, ["b"])
    core.plan(5.0)
    assert [part.node for part in task.allocation] == ["a", "c"]


def test_of_the_memory_that_the_parts_used_the_most_counts_whichever_of_them_ends_last() -> None:
    core = core_with(*(NodeSpec(name=name, gpu_models=("GPU",), gpu_memory_mib=(10_000,)) for name in "ab"))
    task = submit(core, nodes=2, gpus=1, share=True, gpu_memory_mib=9000)
    core.plan(1.0)
    for used, part in zip((8000, 3000), task.allocation, strict=True):
        core.started(part.node, part.launch_id, 2.0, 2.0, pid=1)
        holder = Holder(1, memory_mib=used, launch_id=part.launch_id)
        told = GpuReport(0, memory_total_mib=10_000, memory_used_mib=used, processes=(holder,))
        core.gpus_seen(part.node, [told], 3.0)
    for rank in (0, 1):
        end(core, task, rank)
    assert task.state is TaskState.SUCCEEDED
    assert task.gpu_peak_mib == 8000


def test_what_failed_is_tried_again_as_a_whole() -> None:
    core = core_with(*LAB)
    task = begun(core, max_retries=1)
    end(core, task, 0, 1)
    end(core, task, 1, None, cause="killed")
    assert (task.state, task.retries, task.first_end) == (TaskState.WAITING, 1, None)
    assert [part.exit_code for part in task.attempts[0].parts] == [1, None]


def test_a_gang_is_paused_when_all_parts_stand() -> None:
    core = core_with(*LAB)
    task = submit(core, nodes=2)
    core.plan(1.0)
    for part in task.allocation:
        core.started(part.node, part.launch_id, 2.0, 2.0, pid=7)
    for part in task.allocation:
        assert task.state is TaskState.RUNNING
        core.stands(part.node, part.launch_id, stands=True)
    assert task.state is TaskState.PAUSED


def test_a_gang_gets_a_reservation_on_as_many_nodes_as_it_wants() -> None:
    core = core_with(*LAB)
    for name in "abc":
        submit(core, gpus=1, node=name)
    core.plan(1.0)
    task = submit(core, nodes=3, gpus=4)
    core.force(task.id)
    later = [submit(core, gpus=1) for _ in range(3)]
    core.plan(2.0)
    assert [place.node for place in core.reservations[0].places] == ["a", "b", "c"]
    assert {one.state for one in later} == {TaskState.WAITING}


def test_the_parts_find_each_other_by_variables_and_each_has_a_log() -> None:
    core = core_with(*LAB)
    task = begun(core)
    told = [rendezvous(task, part, ["gpu1", "gpu2"]) for part in task.allocation]
    assert [one["NODE_RANK"] for one in told] == ["0", "1"]
    assert len({one["MASTER_PORT"] for one in told}) == 1
    assert told[1] | {"MASTER_PORT": ""} == {
        "MASTER_ADDR": "gpu1", "MASTER_PORT": "", "NODE_RANK": "1", "NNODES": "2", "WORLD_SIZE": "8",
        "MUSTER_HOSTS": "gpu1,gpu2", "MUSTER_HOST_SLOTS": "gpu1:4,gpu2:4",
    }  # fmt: skip
    assert hostfile(task, ["gpu1", "gpu2"]) == "gpu1 slots=4\ngpu2 slots=4"
    assert hostfile(task, ["127.0.0.1", "127.0.0.1"]) == "127.0.0.1 slots=8", "no machine stands there twice"
    assert [log_of("/logs/12.log", rank) for rank in (0, 1)] == ["/logs/12.log", "/logs/12.1.log"]
    assert [log_of("/a.b/out", rank) for rank in (0, 1)] == ["/a.b/out", "/a.b/out.1"]


GANG = st.tuples(st.floats(0, 100), st.floats(1, 50), st.integers(1, 3), st.integers(0, 4), st.sampled_from([0, 0, 1]))


@given(st.lists(GANG, max_size=30))
def test_whatever_comes_gangs_are_whole_or_not_there_and_nothing_is_held_at_the_end(
    gangs: list[tuple[float, float, int, int, int]],
) -> None:
    jobs = [
        Job(at, Task(id=0, command="x", nodes=nodes, gpus=gpus), Run(seconds, code))
        for at, seconds, nodes, gpus, code in gangs
    ]
    lab = Simulation(LAB, jobs)
    while (at := lab.next_at) is not None:
        lab.advance(at)
        lab.core.sanity_check()
        for task in lab.core.tasks.values():
            assert len(task.allocation) in (0, task.nodes)
            assert len({part.node for part in task.allocation}) == len(task.allocation)
    assert all(task.state in (TaskState.SUCCEEDED, TaskState.FAILED) for task in lab.core.tasks.values())
    assert not any(
        node.gpu_holders or node.active or any(node.held.values()) for node in lab.core.inventory.nodes.values()
    )


def test_a_gang_that_three_nodes_could_not_begin_has_failed_and_says_what_each_of_them_said() -> None:
    core = core_with(*(NodeSpec(name=name, gpu_models=("GPU",) * 4) for name in "abcd"))
    task = submit(core, nodes=2, gpus=1)
    for at in range(1, 20):
        for name in "abcd":
            core.rested(name)
        core.plan(float(at))
        for part in task.allocation:
            said = f"the disk of {part.node} is full"
            core.exited(part.node, Exit(part.launch_id, "not_started", at, None, said, None, "node"), float(at))
    assert task.state is TaskState.FAILED
    assert "the disk of c is full" in (task.reason or "")
    assert task.attempt == 2
