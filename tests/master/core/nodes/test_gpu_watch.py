"""GPUs that may not be given out: broken, in use by others, not free yet, not there."""

from __future__ import annotations

import pytest

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.gpu_watch import FREE_MIB, SETTLE_S, GpuReport, GpuWatch, Holder, condition
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import TaskState
from tests.faults import says
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from wire.errors import ConflictError, NotFoundError

TWO = NodeSpec(name="a", gpu_models=("GPU",) * 2)
BOB = Holder(pid=7, user="bob", memory_mib=500)


def gpus(*changes: dict[str, object]) -> list[GpuReport]:
    """Two idle GPUs, with these changes."""
    plain = {"memory_total_mib": 24_000, "memory_used_mib": 3}
    return [GpuReport(index=index, **{**plain, **change}) for index, change in enumerate(changes)]  # type: ignore[arg-type]


def seen(core: Core, *changes: dict[str, object], at: float = 10.0) -> None:
    core.gpus_seen("a", gpus(*changes), at)
    core.plan(0.0)


def test_a_gpu_that_somebody_else_computes_on_gets_no_task_and_everybody_sees_whose_it_is() -> None:
    core = core_with(TWO)
    seen(core, {"processes": (BOB,)}, {})
    first, second = submit(core, gpus=1), submit(core, gpus=1)
    core.plan(0.0)
    assert first.allocation[0].gpus == [1]
    assert second.state is TaskState.WAITING
    assert "used by bob (pid 7)" in str(core.reason(second))
    seen(core, {}, {})
    assert second.allocation[0].gpus == [0]


def test_our_own_process_is_no_stranger() -> None:
    core = core_with(TWO)
    task = submit(core, gpus=1)
    core.plan(0.0)
    ours = Holder(pid=8, user="lab", memory_mib=9000, launch_id=launch_of(task))
    seen(core, {"processes": (ours,), "memory_used_mib": 9000}, {})
    assert core.inventory.nodes["a"].kept_back == {}


def test_a_gpu_that_a_task_computes_on_without_having_been_given_it_gets_no_other_task() -> None:
    core = core_with(TWO)
    seen(core, {}, {})
    stray = submit(core, gpus=1)
    core.plan(0.0)
    core.started("a", launch_of(stray), 2.0, 2.0)
    everywhere = Holder(pid=8, user="lab", memory_mib=9000, launch_id=launch_of(stray))
    seen(core, {"processes": (everywhere,)}, {"processes": (everywhere,)})
    second = submit(core, gpus=1)
    core.plan(0.0)
    assert second.state is TaskState.WAITING
    assert f"used by task {stray.id} (pid 8), which was not given it" in str(core.reason(second))
    seen(core, {"processes": (everywhere,)}, {})
    assert second.allocation[0].gpus == [1]


def test_what_a_task_leaves_is_not_counted_while_another_one_computes_there() -> None:
    core = core_with(TWO)
    seen(core, {}, {})
    first, other = submit(core, gpus=1, gpu_ids=[0]), submit(core, gpus=1, gpu_ids=[1])
    core.plan(0.0)
    core.exited("a", Exit(launch_of(first), "exited", 3.0, 0), 3.0)
    seen(core, {"memory_used_mib": 20_000}, {}, at=10.0)
    for holder in (BOB, Holder(pid=8, launch_id=launch_of(other), memory_mib=19_000)):
        seen(core, {"memory_used_mib": 20_000, "processes": (holder,)}, {}, at=10.0 + 2 * SETTLE_S)
        seen(core, {"memory_used_mib": 20_000}, {}, at=12.0 + 2 * SETTLE_S)
        assert core.inventory.nodes["a"].aside == {}
        assert "not free yet" in str(core.inventory.nodes["a"].kept_back[0])


def test_a_gpu_with_a_fault_is_set_aside_alone_until_somebody_returns_it() -> None:
    core = core_with(TWO)
    seen(core, {"fault": "Xid 79: the GPU has fallen off the bus"}, {})
    both = submit(core, gpus=2)
    one = submit(core, gpus=1)
    core.plan(0.0)
    assert one.allocation[0].gpus == [1]
    assert "Xid 79" in str(core.reason(both))
    outcome = core.take_outcome()
    assert outcome is not None
    again = core_with(TWO, online=False)
    again.load({}, {}, 1, outcome.change.state)
    assert again.inventory.nodes["a"].free_gpus == [1], "it is so after a restart"
    seen(core, {}, {})
    assert core.inventory.nodes["a"].aside, "that it looks well is not enough"
    core.return_gpu("a", 0)
    assert core.inventory.nodes["a"].aside == {}
    for gpu, error in ((0, ConflictError), (9, NotFoundError)):
        with pytest.raises(error):
            core.return_gpu("a", gpu)


def test_a_gpu_that_is_returned_gets_no_task_before_a_sample_has_shown_it_well() -> None:
    core = core_with(TWO)
    seen(core, {"fault": "Xid 79"}, {"processes": (BOB,)})
    core.return_gpu("a", 0)
    task = submit(core, gpus=1)
    core.plan(0.0)
    assert task.state is TaskState.WAITING
    seen(core, {"fault": "Xid 79"}, {"processes": (BOB,)})
    assert core.inventory.nodes["a"].aside == {0: "Xid 79"}
    core.return_gpu("a", 0)
    seen(core, {}, {"processes": (BOB,)})
    assert task.allocation[0].gpus == [0]


def test_a_gpu_is_free_again_only_when_its_memory_is() -> None:
    core = core_with(TWO)
    seen(core, {}, {})
    first, second = submit(core, gpus=2), submit(core, gpus=2)
    core.plan(0.0)
    core.exited("a", Exit(launch_of(first), "exited", 3.0, 0), 3.0)
    core.plan(0.0)
    assert second.state is TaskState.WAITING
    assert says(core.why_it_waits(second), "gpu_not_free_yet", task=first.id)
    seen(core, {"memory_used_mib": 20_000}, {})
    assert second.state is TaskState.WAITING
    seen(core, {"memory_used_mib": 5}, {})
    assert second.state is TaskState.STARTING


def test_memory_that_stays_in_use_sets_the_gpu_aside() -> None:
    core = core_with(TWO)
    seen(core, {}, {})
    task = submit(core, gpus=1, gpu_ids=[0])
    core.plan(0.0)
    core.exited("a", Exit(launch_of(task), "killed", 3.0), 3.0)
    for second in range(int(SETTLE_S) + 3):
        seen(core, {"memory_used_mib": 20_000}, {}, at=10.0 + second)
    assert "stayed in use: 20000 MiB" in core.inventory.nodes["a"].aside[0]
    assert core.inventory.nodes["a"].free_gpus == [1]


def test_gpus_that_the_machine_does_not_show_are_not_given_out() -> None:
    core = core_with(TWO)
    core.gpus_seen("a", gpus({}), 10.0)
    task = submit(core, gpus=1, gpu_ids=[1])
    core.plan(0.0)
    assert says(core.why_it_waits(task), "gpu_missing", shown=1, count=2)


def test_a_node_that_is_not_probed_is_believed() -> None:
    core = core_with(TWO)
    first, second = submit(core, gpus=2), submit(core, gpus=2)
    core.plan(0.0)
    core.exited("a", Exit(launch_of(first), "exited", 3.0, 0), 3.0)
    core.plan(0.0)
    assert second.state is TaskState.STARTING


def test_what_a_desktop_holds_of_a_gpu_is_not_taken_for_a_left_over() -> None:
    watch = GpuWatch()
    idle = FREE_MIB - 24
    watch.look(gpus({"memory_used_mib": idle}, {}), 2, {}, 0.0)
    watch.released(0, 1)
    assert watch.settling()
    assert watch.look(gpus({"memory_used_mib": idle + 100}, {}), 2, {}, 1.0).kept_back == {}


def test_while_a_gpu_is_off_the_bus_the_others_go_by_name_for_cuda_counts_without_it() -> None:
    watch = GpuWatch()
    named: list[dict[str, object]] = [{"uuid": "GPU-a"}, {"uuid": "GPU-b"}, {}]
    watch.look(gpus(*named), 3, {}, 0.0)
    assert watch.names() == {}
    named[1] = {"uuid": "GPU-b", "fault": "it fell off the bus", "memory_used_mib": None}
    watch.look(gpus(*named), 3, {}, 1.0)
    assert watch.names() == {0: "GPU-a", 1: "GPU-b"}
    named[1] = {"uuid": "GPU-b", "fault": "Xid 48"}
    watch.look(gpus(*named), 3, {}, 2.0)
    assert watch.names() == {}


DESKTOP_MIB = 3 * FREE_MIB


def test_a_desktop_may_hold_much_and_change_while_a_task_runs() -> None:
    watch = GpuWatch()
    watch.look(gpus({"memory_used_mib": DESKTOP_MIB}), 1, {}, 0.0)
    watch.released(0, 1)
    assert watch.look(gpus({"memory_used_mib": DESKTOP_MIB * 5 // 4}), 1, {}, 1.0).kept_back == {}
    watch.released(0, 2)
    assert watch.look(gpus({"memory_used_mib": DESKTOP_MIB * 2}), 1, {}, 2.0).kept_back


def test_what_a_desktop_holds_is_seen_beside_a_task_too() -> None:
    watch = GpuWatch()
    ours = Holder(pid=8, launch_id="1.1.x", memory_mib=9000)
    busy = {"memory_used_mib": 9000 + DESKTOP_MIB, "processes": (ours,)}
    watch.look(gpus(busy), 1, {0: {1: None}}, 0.0)  # by a master that starts while the task runs
    watch.released(0, 1)
    assert watch.look(gpus(busy), 1, {}, 1.0).kept_back, "it is still there"
    assert watch.look(gpus({"memory_used_mib": DESKTOP_MIB}), 1, {}, 2.0).kept_back == {}


@pytest.mark.parametrize("processes", [(), (Holder(pid=8, launch_id="1.1.x"),)], ids=["no process", "no figure"])
def test_the_memory_of_a_task_is_not_taken_for_a_desktops(processes: tuple[Holder, ...]) -> None:
    watch = GpuWatch()
    watch.look(gpus({"memory_used_mib": 20_000, "processes": processes}), 1, {0: {1: None}}, 0.0)
    watch.released(0, 1)
    assert watch.look(gpus({"memory_used_mib": 20_000}), 1, {}, 1.0).kept_back


def test_a_sample_of_a_node_that_left_changes_nothing() -> None:
    core = core_with(TWO)
    core.set_nodes(())
    core.gpus_seen("a", gpus({}, {}), 1.0)
    core.node_state("a", NodeState.ONLINE, None, BOOT)
    assert core.inventory.nodes == {}


def test_a_node_that_is_not_probed_any_more_is_believed_again() -> None:
    core = core_with(TWO)
    seen(core, {"processes": (BOB,)}, {})
    first = submit(core, gpus=1)
    core.plan(0.0)
    core.gpus_unseen("a")
    assert core.inventory.nodes["a"].free_gpus == [0]
    core.exited("a", Exit(launch_of(first), "exited", 3.0, 0), 3.0)
    assert core.inventory.nodes["a"].free_gpus == [0, 1]


def test_no_gpu_is_given_out_before_the_first_sample_of_a_node_that_is_probed() -> None:
    core = core_with(TWO)
    core.gpus_expected("a")
    task = submit(core, gpus=1)
    core.plan(0.0)
    assert says(core.why_it_waits(task), "gpu_unseen")
    seen(core, {"processes": (BOB,)}, {})
    assert task.allocation[0].gpus == [1]


def test_what_was_seen_before_a_connection_broke_gives_no_gpu_out_after_it() -> None:
    core = core_with(TWO)
    seen(core, {"processes": (BOB,)}, {})
    core.node_state("a", NodeState.UNREACHABLE, "no route")
    core.gpus_expected("a")
    core.node_state("a", NodeState.ONLINE, None, BOOT)
    first, second = submit(core, gpus=1), submit(core, gpus=1)
    core.plan(0.0)
    assert (first.state, second.state) == (TaskState.WAITING, TaskState.WAITING)
    assert "bob" in str(core.reason(second))
    assert says(core.why_it_waits(second), "gpu_unseen")
    seen(core, {}, {"processes": (BOB,)})
    assert first.allocation[0].gpus == [0]


def conditions(core: Core) -> list[str]:
    node = core.inventory.nodes["a"]
    return [condition(node.aside.get(gpu), node.kept_back.get(gpu)) for gpu in range(len(node.spec.gpu_models))]


def test_only_what_is_broken_or_missing_is_called_so() -> None:
    core = core_with(TWO)
    core.gpus_expected("a")
    assert conditions(core) == ["unknown", "unknown"]
    seen(core, {}, {"processes": (BOB,)})
    assert conditions(core) == ["ok", "busy"]
    task = submit(core, gpus=1)
    core.plan(0.0)
    core.exited("a", Exit(launch_of(task), "exited", 3.0, 0), 3.0)
    assert conditions(core) == ["clearing", "busy"]
    seen(core, {"memory_used_mib": 20_000})
    assert conditions(core) == ["clearing", "broken"], "the machine shows one GPU and the registry counts two"
    seen(core, {}, {"fault": "it fell off the bus"})
    assert conditions(core) == ["ok", "broken"]
    core.set_aside("a", 0, "set aside by ada: fan")
    assert conditions(core) == ["aside", "broken"]
    core.return_gpu("a", 1)
    assert conditions(core) == ["aside", "unknown"]
    core.gpus_seen("a", [], 20.0, fault="the driver is not loaded")
    assert conditions(core) == ["aside", "broken"]


def test_that_a_gpu_is_kept_back_or_free_again_is_told_and_planned_for() -> None:
    core = core_with(TWO)
    core.plan(0.0)
    changes: list[dict[str, object]] = [{"processes": (BOB,)}, {}]
    for change in changes:
        core.take_outcome()
        core.gpus_seen("a", gpus(change, {}), 10.0)
        outcome = core.take_outcome()
        assert outcome is not None
        assert (outcome.nodes, core.plan_needed) == ({"a"}, True)
        core.plan(0.0)
        core.gpus_seen("a", gpus(change, {}), 12.0)
        assert (core.take_outcome(), core.plan_needed) == (None, False), "nothing else is"


def test_while_somebody_waits_to_share_a_gpu_only_notably_more_of_one_is_planned_for() -> None:
    core = core_with(TWO)
    seen(core, {"utilization": 50.0}, {"utilization": 50.0})
    submit(core, gpus=2)
    core.plan(0.0)

    def wanted(**first: object) -> bool:
        core.gpus_seen("a", gpus({"utilization": 50.0, **first}, {"utilization": 50.0}), 12.0)
        needed = core.plan_needed
        core.plan(0.0)
        return needed

    assert not wanted(utilization=0.0), "nobody asks to share"
    submit(core, gpus=1, share=True, gpu_memory_mib=1000)
    core.plan(0.0)
    wanted(memory_used_mib=9000)
    assert not wanted(memory_used_mib=9000)
    assert not wanted(memory_used_mib=9500), "there is less"
    assert not wanted(memory_used_mib=9500 - 63)
    assert wanted(memory_used_mib=9500 - 64)
    wanted(memory_used_mib=9000)
    assert wanted(memory_used_mib=9000, model="NVIDIA L40"), "by now it is known what it is"
    assert not wanted(memory_used_mib=9000, model="NVIDIA L40")
    assert wanted(memory_used_mib=9000, memory_total_mib=48_000), "it is another GPU"


def test_gpus_that_are_about_to_be_told_of_are_no_more_kept_back_than_they_are() -> None:
    core = core_with(TWO)
    core.plan(0.0)
    core.take_outcome()
    core.gpus_expected("a")
    outcome = core.take_outcome()
    assert outcome is not None
    assert outcome.nodes == {"a"}
    core.gpus_unseen("a")
    assert (core.inventory.nodes["a"].kept_back, core.plan_needed) == ({}, True)
    seen(core, {}, {})
    assert core.inventory.nodes["a"].watch.newest
    core.gpus_unseen("a")
    assert not core.inventory.nodes["a"].watch.newest, "what was seen then is not believed later"


def test_the_first_gpu_that_a_node_does_not_have_cannot_be_set_aside() -> None:
    core = core_with(TWO)
    for gpu in (-1, 2):
        with pytest.raises(NotFoundError):
            core.set_aside("a", gpu, "broken")
    seen(core, {}, {})
    core.set_aside("a", 1, "broken")
    core.return_gpu("a", 1)
    assert core.inventory.nodes["a"].kept_back == {}, "no sample told a fault of it"
