"""Attempts of which the lab lost the records: they run on and keep their GPUs, what is known ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from master.core.attempts import unknown_attempts
from master.core.attempts.adoption import COMMAND
from master.core.attempts.agent_messages import BRIEF, Attempt
from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Ack, Effect, Kill
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.records import merge_pieces
from master.core.tasks.task import ACTIVE, Task, TaskState
from master.core.tasks.transitions import RULES, Event
from tests.cases import each_case
from tests.master.core.nodes.test_accounts import lab_with, up
from tests.master.core.small_core import BOOT, REBOOTED, core_with, launch_of, submit
from wire.errors import ConflictError, MusterError, NotFoundError

LAUNCH = "3.1.x"
RUNS = Seen(LAUNCH, 4.0, pid=7, pid_start=8, gpus="0,1", name="training", log="/logs/3.log")


def effects(core: Core) -> list[Effect]:
    outcome = core.take_outcome()
    return [] if outcome is None else outcome.effects


def lost(next_id: int = 5, **tasks: Task) -> Core:
    """A core that was loaded after a loss; ids up to `next_id` had been given."""
    core = core_with()
    core.load({task.id: task for task in tasks.values()}, {}, next_id)
    core.end_access()
    core.take_outcome()
    return core


def loaded_again(core: Core, pieces: Mapping[str, msgspec.Raw]) -> Core:
    again = core_with(online=False)
    again.load(dict(core.tasks), {}, core.next_id, pieces)
    return again


def adopted(core: Core, launch: str = LAUNCH, gpus: list[int] | None = None, **more: Any) -> Task:
    return core.adopt("a", launch, gpus, by="ada", now=9.0, log_folder="/logs", **more)


def holder(core: Core) -> set[int]:
    """The GPUs of node a that nobody gets and no task has."""
    node = core.inventory.nodes["a"]
    return set(range(8)) - set(node.free_gpus) - set(node.gpu_holders)


def test_after_a_loss_it_is_not_killed_and_others_get_the_other_gpus() -> None:
    core = lost()
    core.reconcile("a", [RUNS], 5.0)
    assert effects(core) == []
    assert holder(core) == {0, 1}
    assert "muster node attempts a" in str(core.inventory.nodes["a"].why_closed(0))
    small, large = submit(core, gpus=6), submit(core, gpus=7)
    core.plan(6.0)
    assert small.allocation[0].gpus == [2, 3, 4, 5, 6, 7]
    assert large.state is TaskState.WAITING
    (one,) = core.unknown_on("a")
    assert (one.launch_id, one.since, one.name, one.log_path) == (LAUNCH, 5.0, "training", "/logs/3.log")
    core.exited("a", Exit(LAUNCH, "exited", 8.0, 0), 8.0)
    assert (core.unknown_on("a"), holder(core)) == ([], set())
    assert effects(core)[-1] == Ack("a", LAUNCH)


def test_without_a_loss_what_was_given_up_and_removed_is_ended() -> None:
    core = core_with()
    gone = [submit(core) for _ in range(4)]
    for task in gone:
        core.remove(task.id, 1.0)
    effects(core)
    core.reconcile("a", [RUNS, Seen("no id", 4.0, gpus="3")], 5.0)
    assert effects(core) == [Kill("a", LAUNCH), Kill("a", "no id")]
    assert core.unknown_on("a") == []


def test_what_this_queue_never_gave_an_id_is_left_alone_also_without_a_loss() -> None:
    core = core_with()
    core.reconcile("a", [RUNS], 5.0)
    assert effects(core) == []
    assert [one.launch_id for one in core.unknown_on("a")] == [LAUNCH]
    assert adopted(core).id != 3, "an id of another queue's is given to nobody here"


@pytest.mark.parametrize("how", ["lost with its node", "replaced by a newer attempt", "cancelled"])
def test_what_is_known_is_ended_after_a_loss_too(how: str) -> None:
    core = lost()
    task = submit(core, gpus=1)
    core.plan(6.0)
    launch = launch_of(task)
    core.started("a", launch, 6.0, 6.0, pid=3)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    if how == "cancelled":
        core.cancel(task.id, 7.0, by="ada")
    core.give_up("a", "ada", 7.0)
    if how == "replaced by a newer attempt":
        core.retry(task.id)
    core.node_state("a", NodeState.ONLINE, None, BOOT)
    effects(core)
    core.reconcile("a", [Seen(launch, 6.0, pid=3, gpus="0")], 8.0)
    assert Kill("a", launch) in effects(core)
    assert core.unknown_on("a") == []
    assert not core.inventory.nodes["a"].takes_tasks
    if how != "replaced by a newer attempt":
        core.remove(task.id, 9.0)  # before it is dead
    core.reconcile("a", [Seen(launch, 6.0, pid=3, gpus="0")], 9.0)
    assert core.unknown_on("a") == []


def test_it_is_known_and_held_over_restarts_before_its_agent_is_heard() -> None:
    core = core_with()
    core.load({}, {}, 5)
    core.end_access()
    core.reconcile("a", [RUNS], 5.0)
    pieces: dict[str, msgspec.Raw] = {}
    if (outcome := core.take_outcome()) is not None:
        merge_pieces(pieces, outcome.change.state)
    again = loaded_again(core, pieces)
    assert [one.launch_id for one in again.unknown_on("a")] == [LAUNCH]
    assert holder(again) == {0, 1}
    again.node_state("a", NodeState.ONLINE, None, BOOT)
    again.reconcile("a", [RUNS, msgspec.structs.replace(RUNS, launch_id="4.1.y", gpus="2")], 50.0)
    assert effects(again) == [], "also one that is told only now, for the loss is not forgotten"
    assert holder(again) == {0, 1, 2}
    assert again.unknown_on("a")[0].since == 5.0
    again.reconcile("a", [], 60.0)
    assert holder(again) == set()


def test_nothing_is_written_down_when_an_agent_says_the_same_again() -> None:
    core = lost()
    core.reconcile("a", [RUNS], 5.0)
    core.take_outcome()
    core.reconcile("a", [RUNS], 6.0)
    outcome = core.take_outcome()
    assert outcome is None or not outcome.change.state


@pytest.mark.parametrize("gpus", [None, "GPU-unknown", "0,MIG-3", "9" * 400, "1," * 3000 + "x"])
def test_where_nobody_can_say_which_gpus_it_has_the_node_takes_nothing(gpus: str | None) -> None:
    core = lost()
    core.reconcile("a", [msgspec.structs.replace(RUNS, gpus=gpus)], 5.0)
    assert not core.inventory.nodes["a"].takes_tasks
    assert "muster node attempts a" in (core.inventory.nodes["a"].closed_because or "")
    with pytest.raises(ConflictError, match="--gpu"):
        adopted(core)
    task = adopted(core, gpus=[4, 5])
    assert task.allocation[0].gpus == [4, 5]
    assert core.inventory.nodes["a"].takes_tasks


def test_gpus_that_are_called_by_name_are_those_of_the_samples() -> None:
    core = lost()
    core.gpus_seen("a", [GpuReport(gpu, f"GPU-{gpu}") for gpu in range(8)], 3.0)
    core.reconcile("a", [msgspec.structs.replace(RUNS, gpus="GPU-6,GPU-2")], 5.0)
    assert core.unknown_on("a")[0].gpus == (2, 6)
    core.gpus_seen("a", [GpuReport(gpu, f"GPU-{gpu}", memory_used_mib=0) for gpu in range(8)], 6.0)
    assert holder(core) == {2, 6}


def test_a_gpu_on_which_it_computes_is_kept_from_others_whatever_its_launch_said() -> None:
    core = lost()
    core.reconcile("a", [RUNS], 5.0)
    its, foreign = Holder(7, "kim", 500, LAUNCH), Holder(9, "kim", 500, "2.1.other")
    used = {4: (its,), 5: (foreign,)}
    reports = [GpuReport(gpu, memory_used_mib=0, processes=used.get(gpu, ())) for gpu in range(8)]
    core.gpus_seen("a", reports, 6.0)
    assert holder(core) == {0, 1, 4}
    core.exited("a", Exit(LAUNCH, "exited", 8.0, 0), 8.0)
    core.gpus_seen("a", [GpuReport(gpu, memory_used_mib=0) for gpu in range(8)], 9.0)
    assert holder(core) == set()


def test_who_waits_for_its_gpus_is_told_what_holds_them() -> None:
    core = lost()
    core.reconcile("a", [RUNS], 5.0)
    large = submit(core, gpus=7)
    core.plan(6.0)
    assert f"held by attempt {LAUNCH}" in str(core.wait(large)._asdict()) + (core.reason(large) or "")


def test_an_agent_that_has_more_than_are_listed_loses_none_and_its_node_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unknown_attempts, "KEPT", 2)
    core = lost()
    all_of_them = [msgspec.structs.replace(RUNS, launch_id=f"3.{number}.x", gpus="") for number in range(1, 5)]
    core.reconcile("a", all_of_them, 5.0)
    assert effects(core) == []
    assert len(core.unknown_on("a")) == 2
    assert not core.inventory.nodes["a"].takes_tasks
    core.reconcile("a", all_of_them[::-1], 6.0)
    assert [one.launch_id for one in core.unknown_on("a")] == ["3.1.x", "3.2.x"]
    core.reconcile("a", all_of_them[:2], 7.0)
    assert core.inventory.nodes["a"].takes_tasks


# -- end ------------------------------------------------------------------------------------------------------


def test_one_that_is_ended_keeps_its_gpus_until_its_node_says_that_it_is_over() -> None:
    core = lost()
    core.reconcile("a", [RUNS], 5.0)
    assert core.end_unknown("a", LAUNCH, "ada").ended_by == "ada"
    assert effects(core) == [Kill("a", LAUNCH)]
    assert holder(core) == {0, 1}
    core.reconcile("a", [RUNS], 6.0)
    assert effects(core) == [Kill("a", LAUNCH)], "the word may have been lost on the way"
    with pytest.raises(ConflictError, match="ada"):
        adopted(core)
    core.exited("a", Exit(LAUNCH, "killed", 8.0), 8.0)
    assert holder(core) == set()
    with pytest.raises(NotFoundError):
        core.end_unknown("a", LAUNCH, "ada")


def test_its_memory_is_waited_for_where_samples_tell_of_it() -> None:
    core = lost()
    core.gpus_seen("a", [GpuReport(gpu, memory_used_mib=0) for gpu in range(8)], 3.0)
    core.reconcile("a", [RUNS], 5.0)
    core.exited("a", Exit(LAUNCH, "exited", 8.0, 0), 8.0)
    assert holder(core) == {0, 1}
    core.gpus_seen("a", [GpuReport(gpu, memory_used_mib=0) for gpu in range(8)], 9.0)
    assert holder(core) == set()


def test_one_whose_tree_cannot_be_proven_closes_its_node_and_says_so() -> None:
    core = lost()
    core.reconcile("a", [msgspec.structs.replace(RUNS, unproven=(11,))], 5.0)
    assert "11" in (core.inventory.nodes["a"].closed_because or "")
    core.exited("a", Exit(LAUNCH, "unknown", 8.0), 8.0)
    core.reconcile("a", [], 9.0)
    assert core.inventory.nodes["a"].takes_tasks


def test_those_of_a_node_that_is_given_up_hold_nothing_and_end_should_it_come_back() -> None:
    core = lost()
    core.reconcile("a", [RUNS], 5.0)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    core.give_up("a", "ada", 6.0)
    assert (core.unknown_on("a"), holder(core)) == ([], set())
    effects(core)
    core.node_state("a", NodeState.ONLINE, None, BOOT)
    core.reconcile("a", [RUNS], 7.0)
    assert effects(core) == [Kill("a", LAUNCH)]
    assert not core.inventory.nodes["a"].takes_tasks
    core.exited("a", Exit(LAUNCH, "killed", 8.0), 8.0)
    assert core.inventory.nodes["a"].takes_tasks


def test_one_whose_machine_restarted_is_over() -> None:
    core = lost()
    core.reconcile("a", [RUNS], 5.0)
    core.node_state("a", NodeState.ONLINE, None, REBOOTED)
    core.reconcile("a", [Seen(LAUNCH, exit=Exit(LAUNCH, "rebooted", 6.0))], 7.0)
    assert (core.unknown_on("a"), holder(core)) == ([], set())


def test_a_node_that_leaves_and_comes_back_tells_of_it_again() -> None:
    core = lost()
    core.reconcile("a", [RUNS], 5.0)
    spec = core.inventory.nodes["a"].spec
    core.set_nodes((NodeSpec(name="b"),))
    core.set_nodes((spec,))
    core.node_state("a", NodeState.ONLINE, None, BOOT)
    assert core.unknown_on("a") == []
    core.reconcile("a", [RUNS], 9.0)
    assert effects(core) == []
    assert holder(core) == {0, 1}


# -- adopt ----------------------------------------------------------------------------------------------------


def test_what_is_adopted_is_a_task_with_its_own_id_and_ends_as_one() -> None:
    core = lost()
    core.reconcile("a", [RUNS], 5.0)
    task = adopted(core)
    assert (task.id, task.state, task.owner, task.name) == (3, TaskState.RUNNING, "ada", "training")
    assert (task.command, task.log_path, task.attempt) == (COMMAND, "/logs/3.log", 1)
    assert core.unknown_on("a") == []
    core.reconcile("a", [RUNS], 10.0)
    assert effects(core) == []
    core.exited("a", Exit(LAUNCH, "exited", 11.0, 4), 11.0)
    assert (task.state, task.exit_code) == (TaskState.FAILED, 4)
    assert core.inventory.nodes["a"].free_gpus == list(range(8))


def test_an_id_that_the_monthly_files_have_is_given_to_nobody_again() -> None:
    core = lost()
    core.reconcile("a", [RUNS], 5.0)
    task = adopted(core, is_archived=True)
    assert (task.id, core.next_id) == (5, 6)
    assert submit(core).id == 6


def test_the_task_that_waits_for_it_is_held_and_runs_when_it_is_adopted() -> None:
    known = Task(id=3, command="train", owner="kim", gpus=2, state=TaskState.WAITING)
    core = lost(known=known)
    core.reconcile("a", [RUNS], 5.0)
    assert known.state is TaskState.HELD
    assert "muster node attempts a" in (core.reason(known) or "")
    core.plan(6.0)
    assert known.state is TaskState.HELD
    assert adopted(core) is known
    assert (known.state, known.owner, known.allocation[0].gpus) == (TaskState.RUNNING, "kim", [0, 1])
    assert known.reason is None


def test_what_cannot_be_adopted_is_refused_and_stays_held() -> None:
    core = lost()
    begins = msgspec.structs.replace(RUNS, launch_id="4.1.y", started_at=None, pid=0, gpus="3")
    core.reconcile("a", [RUNS, begins], 5.0)
    with pytest.raises(NotFoundError, match="no attempt 1"):
        adopted(core, "1.1.z")
    with pytest.raises(ConflictError, match="not begun"):
        adopted(core, "4.1.y")
    core.started("a", "4.1.y", 6.0, 6.0, pid=9, pid_start=9)
    assert adopted(core, "4.1.y").allocation[0].pid == 9
    core.reconcile("a", [RUNS, msgspec.structs.replace(begins, started_at=6.0, pid=9)], 7.0)
    core.reconcile("a", [msgspec.structs.replace(RUNS, gpus="3"), msgspec.structs.replace(begins, pid=9)], 7.0)
    with pytest.raises(ConflictError, match="GPU 3"):
        adopted(core)
    assert [one.launch_id for one in core.unknown_on("a")] == [LAUNCH]
    with pytest.raises(ConflictError, match="GPU 3"):
        core.adopt("a", LAUNCH, None, by="ada", now=9.0, log_folder="/logs")


def test_its_owner_is_whose_account_it_has_and_its_log_only_where_that_can_be() -> None:
    core = lost()
    core.people.add("kim")
    told = msgspec.structs.replace(RUNS, run_as="kim", log_path="/logs/kim/3.log")
    core.reconcile("a", [told, msgspec.structs.replace(told, launch_id="4.1.y", gpus="2", log_path="/etc/shadow")], 5.0)
    task, other = adopted(core), adopted(core, "4.1.y")
    assert (task.owner, task.log_path, task.allocation[0].run_as) == ("kim", "/logs/kim/3.log", "kim")
    assert other.log_path == "/logs/4.log"


def test_a_path_of_its_log_that_is_too_long_to_be_kept_is_not_shortened_to_that_of_another_file() -> None:
    folder = "/logs" + "/x" * BRIEF
    core = lost()
    placed = Attempt(launch_id="4.1.y", state="running", gpus="2", log=f"{folder}/4.log").seen()
    told = msgspec.structs.replace(RUNS, run_as="kim", log_path=f"{folder}/kim/3.log")
    core.reconcile("a", [told, placed], 5.0)
    assert [one.log_path for one in core.unknown_on("a")] == ["", ""]
    tasks = [core.adopt("a", LAUNCH, None, by="ada", now=9.0, log_folder=folder)]
    assert [task.log_path for task in tasks] == [f"{folder}/kim/3.log"]


def test_an_accounts_agent_is_believed_of_its_own_alone() -> None:
    core = lab_with()
    core.load({}, {}, 5)
    core.end_access()
    up(core, "li2")
    core.take_outcome()
    core.reconcile("a", [msgspec.structs.replace(RUNS, gpus="0")], 5.0, "li2")
    assert effects(core) == []
    core.exited("a", Exit(LAUNCH, "exited", 6.0, 0), 6.0)  # it is not that agent's
    core.reconcile("a", [], 6.0)
    (one,) = core.unknown_on("a")
    assert one.login == "li2"
    core.end_unknown("a", LAUNCH, "ada")
    assert Kill("a", LAUNCH, "li2") in effects(core)
    core.exited("a", Exit(LAUNCH, "exited", 7.0, 0), 7.0, "li2")
    assert core.unknown_on("a") == []


def test_in_every_state_of_its_task_it_is_adopted_as_the_table_says() -> None:
    with each_case() as cases:
        for state in TaskState:
            with cases.case(state):
                check_adoption(state)


def check_adoption(state: TaskState) -> None:
    known = Task(id=3, command="train", gpus=1, state=TaskState.WAITING)
    core = lost(known=known)
    if state is TaskState.HELD:
        core.hold(3)
    elif state is TaskState.CANCELLED:
        core.cancel(3, 2.0)
    elif state is not TaskState.WAITING:
        core.plan(2.0)
        if state is not TaskState.STARTING:
            core.started("a", launch_of(known), 2.0, 2.0)
        if state is TaskState.PAUSED:
            core.pause(3, "kim", 2.0)
            core.stands("a", launch_of(known), stands=True)
        ends = {"succeeded": ("exited", 0), "failed": ("exited", 1), "timed_out": ("timed_out", None)}
        cause, code = ends.get(state, ("unknown", None))
        if state not in ACTIVE:
            core.exited("a", Exit(launch_of(known), cause, 3.0, code), 3.0)
    assert known.state is state
    at = None if state is TaskState.STARTING else 2.0
    others = [Seen(launch_of(known), at, paused=state is TaskState.PAUSED)] if state in ACTIVE else []
    core.reconcile("a", [msgspec.structs.replace(RUNS, gpus="6"), *others], 5.0)
    task = adopted(core)
    if state in RULES[Event.ADOPT].leads:
        assert task is known
    else:
        assert task.id == 5
        assert known.state is state
    assert {task.state} == RULES[Event.ADOPT].leads[None]


def test_two_nodes_that_say_they_have_one_attempt_make_one_task_of_it() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",) * 8), NodeSpec(name="b", gpu_models=("GPU",) * 8))
    core.load({}, {}, 5)
    core.end_access()
    for name in ("a", "b"):
        core.reconcile(name, [RUNS], 5.0)
    adopted(core)
    with pytest.raises(MusterError, match="task already"):
        core.adopt("b", LAUNCH, None, by="ada", now=9.0, log_folder="/logs")


def test_it_is_adopted_for_the_user_whom_the_admin_names() -> None:
    core = lost()
    core.people.add("li")
    core.reconcile("a", [RUNS], 5.0)
    with pytest.raises(NotFoundError, match="nobody"):
        adopted(core, owner="nobody")
    assert adopted(core, owner="li").owner == "li"


def test_a_task_that_the_queue_has_keeps_its_owner_when_its_attempt_is_adopted() -> None:
    task = Task(id=3, command="x", owner="wang", state=TaskState.WAITING)
    core = lost(three=task)
    for name in ("li", "wang"):
        core.people.add(name)
    core.reconcile("a", [RUNS], 5.0)
    with pytest.raises(ConflictError, match="wang"):
        adopted(core, owner="li")
    assert core.unknown_on("a")
    assert adopted(core, owner="wang").owner == "wang"


def test_one_that_is_dismissed_holds_nothing_is_never_signalled_and_can_be_adopted_all_the_same() -> None:
    core = lost()
    core.reconcile("a", [RUNS, Seen("4.1.y", 4.0, pid=9)], 5.0)
    assert not core.inventory.nodes["a"].takes_tasks
    for launch in (LAUNCH, "4.1.y"):
        assert core.dismiss_unknown("a", launch, "ada").dismissed_by == "ada"
    assert (holder(core), core.inventory.nodes["a"].takes_tasks) == (set(), True)
    outcome, pieces = core.take_outcome(), dict[str, msgspec.Raw]()
    assert outcome is not None
    merge_pieces(pieces, outcome.change.state)
    again = loaded_again(core, pieces)
    again.node_state("a", NodeState.ONLINE, None, BOOT)
    again.reconcile("a", [RUNS, Seen("4.1.y", 4.0, pid=9, unproven=(9,))], 6.0)
    assert effects(again) == []
    assert (holder(again), again.inventory.nodes["a"].takes_tasks) == (set(), True)
    assert [one.dismissed_by for one in again.unknown_on("a")] == ["ada", "ada"]
    with pytest.raises(NotFoundError):
        again.dismiss_unknown("a", "9.1.z", "ada")
    assert adopted(again).state is TaskState.RUNNING
    again.reconcile("a", [RUNS], 7.0)
    assert again.unknown_on("a") == []


def test_one_that_was_dismissed_can_be_ended() -> None:
    core = lost()
    core.reconcile("a", [RUNS], 5.0)
    core.dismiss_unknown("a", LAUNCH, "ada")
    core.end_unknown("a", LAUNCH, "ada")
    assert effects(core)[-1] == Kill("a", LAUNCH)
    assert holder(core) == set()
    with pytest.raises(ConflictError):
        core.dismiss_unknown("a", LAUNCH, "ada")
