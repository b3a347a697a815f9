"""A node that is up and can start nothing: no task pays for it, and few feel it."""

from __future__ import annotations

import pytest

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.effects import Effect, Rest
from master.core.nodes.health import LONGEST_REST_S, REST_S
from master.core.nodes.inventory import NodeSpec
from master.core.tasks.task import Task, TaskState, Unstarted
from tests.calls import calls_of
from tests.master.core.small_core import core_with, launch_of, run, submit
from wire.errors import ConflictError
from wire.message import Message

ONE = NodeSpec(name="a", gpu_models=("GPU",))
OTHERS = [NodeSpec(name=name, gpu_models=("GPU",)) for name in "bcd"]
WHY = "the launch cannot be recorded in /state: Read-only file system"


def refuse(core: Core, task: Task, fault: str = "node") -> str:
    """The node of its attempt cannot start it; that node."""
    assert task.allocation
    node = task.allocation[0].node
    core.exited(node, Exit(task.allocation[0].launch_id, "not_started", 3.0, None, WHY, None, fault), 3.0)
    return node


def effects(core: Core) -> list[Effect]:
    outcome = core.take_outcome()
    return outcome.effects if outcome else []


def test_what_a_node_could_not_start_is_tried_on_another_with_the_next_number() -> None:
    core = core_with(ONE, *OTHERS)
    task = submit(core, gpus=1)
    core.plan(0.0)
    first = refuse(core, task)
    assert (task.state, task.attempt, task.allocation) == (TaskState.WAITING, 1, [])
    assert core.inventory.nodes[first].free_gpus == [0]
    core.rested(first)
    core.plan(0.0)
    assert task.attempt == 2
    assert task.allocation
    assert task.allocation[0].node != first
    run(core, task)
    assert task.state is TaskState.SUCCEEDED


def test_a_task_that_three_nodes_could_not_start_has_failed_and_says_what_each_said() -> None:
    core = core_with(ONE, *OTHERS)
    task = submit(core, gpus=1)
    for _ in range(3):
        core.plan(0.0)
        core.rested(refuse(core, task))
    assert task.state is TaskState.FAILED
    assert task.reason_key == "not_started_anywhere"
    assert task.reason_args is not None
    assert [one["args"]["said"] for one in task.reason_args["tries"]] == [WHY] * 3
    core.retry(task.id)
    assert task.unstarted == []


def test_a_fault_of_the_task_fails_it_as_ever() -> None:
    for fault in ("task", "", "whatever"):
        core = core_with(ONE, *OTHERS)
        task = submit(core, gpus=1)
        core.plan(0.0)
        refuse(core, task, fault)
        assert task.state is TaskState.FAILED
        assert not core.inventory.nodes["a"].cordons


def test_with_no_other_node_a_task_waits_and_each_rest_of_the_node_is_longer() -> None:
    core = core_with(ONE)
    task = submit(core, gpus=1)
    rests = []
    for _ in range(12):
        core.plan(0.0)
        refuse(core, task)
        rests += [effect.seconds for effect in effects(core) if isinstance(effect, Rest)]
        assert core.plan(0.0) == 0
        assert "tried again" in (core.reason(task) or "")
        core.rested("a")
    assert task.state is TaskState.WAITING
    assert rests[:3] == [REST_S, 2 * REST_S, 4 * REST_S]
    assert rests[-1] == LONGEST_REST_S
    core.plan(0.0)
    run_on = launch_of(task)
    core.started("a", run_on, 4.0, 4.0)
    assert core.inventory.nodes["a"].rests == 0


def test_a_pinned_task_waits_for_its_node() -> None:
    core = core_with(ONE, *OTHERS)
    task = submit(core, gpus=1, node="a")
    core.plan(0.0)
    refuse(core, task)
    core.rested("a")
    core.plan(0.0)
    assert task.allocation[0].node == "a"


def test_the_node_that_could_not_is_taken_where_no_other_ever_could() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",) * 4), *OTHERS)
    task = submit(core, gpus=3)
    core.plan(0.0)
    refuse(core, task)
    core.rested("a")
    assert core.plan(0.0) == 1


def test_a_busy_node_that_could_is_waited_for() -> None:
    core = core_with(ONE, OTHERS[0])
    task = submit(core, gpus=1)
    core.plan(0.0)
    first = refuse(core, task)
    blocker = submit(core, gpus=1)
    core.plan(0.0)
    other = {"a": "b", "b": "a"}[first]
    assert task.allocation[0].node == other
    refuse_none = submit(core, gpus=1, node=first)
    core.rested(first)
    core.plan(0.0)
    assert {blocker.state, refuse_none.state} == {TaskState.STARTING, TaskState.WAITING}


def test_three_tasks_set_a_node_aside_however_many_were_under_way_and_no_more_feel_it() -> None:
    core = core_with(NodeSpec(name="a", slots=60), NodeSpec(name="b", slots=0, cpus=60))
    tasks = [submit(core) for _ in range(60)]
    core.plan(0.0)
    for task in tasks:
        refuse(core, task)
    assert all(task.state is TaskState.WAITING for task in tasks)
    assert sum(bool(task.unstarted) for task in tasks) == 3
    node = core.inventory.nodes["a"]
    assert "could not start 3 tasks" in (node.closed_because or "")
    assert "muster node resume a" in (node.closed_because or "")
    core.rested("a")
    assert core.plan(0.0) == 0


def test_one_task_alone_sets_no_node_aside_and_one_start_forgives_what_was() -> None:
    core = core_with(ONE)
    for number in range(8):
        task = submit(core, gpus=1)
        core.plan(0.0)
        refuse(core, task)
        core.rested("a")
        core.plan(0.0)
        refuse(core, task)
        core.rested("a")
        if number % 2:
            run(core, task)
        else:
            core.cancel(task.id, 5.0)
    assert core.notes == {}


def test_what_was_set_aside_stays_so_over_a_restart_until_somebody_returns_it() -> None:
    core = core_with(ONE)
    tasks = [submit(core, gpus=1) for _ in range(3)]
    core.take_outcome()
    for _ in tasks:
        core.plan(0.0)
        task = next(task for task in tasks if task.allocation)
        refuse(core, task)
        core.hold(task.id)
        core.rested("a")
    outcome = core.take_outcome()
    assert outcome is not None
    fresh = core_with(ONE)
    fresh.load(dict(core.tasks), {}, core.next_id, outcome.change.state)
    assert "set aside" in (fresh.inventory.nodes["a"].closed_because or "")
    assert all(task.unstarted for task in fresh.tasks.values())
    fresh.resume("a")
    assert fresh.inventory.nodes["a"].takes_tasks
    assert not any(task.unstarted for task in fresh.tasks.values())
    with pytest.raises(ConflictError, match="not drained"):
        fresh.resume("a")


def test_a_cancel_that_was_asked_for_is_not_undone_by_a_sick_node() -> None:
    core = core_with(ONE)
    task = submit(core, gpus=1)
    core.plan(0.0)
    core.cancel(task.id, 2.0)
    refuse(core, task)
    assert (task.state, task.reason) == (TaskState.CANCELLED, None)
    assert "tried again" in (core.inventory.nodes["a"].closed_because or "")


def test_a_fault_that_all_nodes_have_burns_no_task_and_they_run_when_the_nodes_are_returned() -> None:
    nodes = [NodeSpec(name=f"n{number}", gpu_models=("GPU",) * 2) for number in range(7)]
    core = core_with(*nodes)
    tasks = [submit(core, gpus=1) for _ in range(40)]
    for _ in range(50):
        core.plan(0.0)
        for task in [task for task in tasks if task.state is TaskState.STARTING]:
            core.rested(refuse(core, task))
    assert {task.state for task in tasks} == {TaskState.WAITING}
    assert all("set aside" in (node.closed_because or "") for node in core.inventory.nodes.values())
    for node in nodes:
        core.resume(node.name)
    assert all(not task.unstarted for task in tasks)
    assert core.plan(0.0) == 14
    for _ in tasks:
        for task in [task for task in tasks if task.state is TaskState.STARTING]:
            run(core, task)
        core.plan(0.0)
    assert {task.state for task in tasks} == {TaskState.SUCCEEDED}


def test_of_tasks_that_come_one_by_one_while_no_node_can_start_any_two_fail_and_the_others_wait() -> None:
    core = core_with(*(NodeSpec(name=f"n{number}", gpu_models=("GPU",)) for number in range(12)))
    tasks = []
    for _ in range(10):
        tasks.append(submit(core, gpus=1))
        for _ in range(20):
            core.plan(0.0)
            for task in [task for task in tasks if task.state is TaskState.STARTING]:
                core.rested(refuse(core, task))
    states = [task.state for task in tasks]
    assert states == [TaskState.FAILED] * 2 + [TaskState.WAITING] * 8


def test_what_a_node_could_not_start_before_it_was_mended_counts_against_nobody() -> None:
    core = core_with(ONE, *OTHERS)
    task = submit(core, gpus=1)
    refusing = []
    for _ in range(2):
        core.plan(0.0)
        refusing.append(refuse(core, task))
        core.rested(refusing[-1])
    core.drain(refusing[0], "its disk", "kim", 4.0)
    core.resume(refusing[0])
    assert [entry.node for entry in task.unstarted] == refusing[1:]
    core.plan(0.0)
    core.rested(refuse(core, task))
    assert task.state is TaskState.WAITING


def test_to_resume_a_node_costs_no_more_among_many_tasks() -> None:
    def cost_among(count: int) -> int:
        core = Core((ONE,), lambda task, attempt: f"{task}.{attempt}")
        for _ in range(count):
            submit(core)
        core.drain("a", "its disk", "kim", 4.0)
        return calls_of(lambda: core.resume("a"))

    assert cost_among(1000) == cost_among(10)


def test_what_runs_is_not_taken_back_by_a_word_of_its_node() -> None:
    core = core_with(ONE, *OTHERS)
    task = submit(core, gpus=1)
    core.plan(0.0)
    core.started(task.allocation[0].node, launch_of(task), 2.0, 2.0)
    refuse(core, task)
    assert task.state is TaskState.FAILED


def test_a_node_that_left_the_registry_goes_when_its_last_task_could_not_be_started() -> None:
    core = core_with(ONE)
    task = submit(core, gpus=1)
    core.plan(0.0)
    core.set_nodes(())
    refuse(core, task)
    assert core.inventory.nodes == {}
    assert task.state is TaskState.WAITING


@pytest.mark.parametrize("at", [-1e15, 0.0, 1e14, 1e15])
def test_a_time_that_cannot_be_is_the_time_when_it_was_heard(at: float) -> None:
    core = core_with(ONE)
    task = submit(core, gpus=1)
    task.submitted_at = 1.7e9
    core.plan(0.0)
    core.started("a", launch_of(task), at, 1.7e9 + 5)
    core.exited("a", Exit(launch_of(task), "exited", at, 0, "", at), 1.7e9 + 9)
    assert (task.started_at, task.ended_at) == (1.7e9 + 5, 1.7e9 + 9)


def test_a_clock_that_is_off_by_a_day_is_believed_as_long_as_nothing_was_measured_of_it() -> None:
    core = core_with(ONE)
    task = submit(core, gpus=1)
    task.submitted_at = 1.7e9
    core.plan(0.0)
    behind = 1.7e9 - 86400
    core.started("a", launch_of(task), behind, 1.7e9 + 5)
    core.exited("a", Exit(launch_of(task), "exited", behind + 60, 0), 1.7e9 + 65)
    assert (task.started_at, task.ended_at) == (behind, behind + 60)


def test_what_was_under_way_when_a_node_failed_does_not_forgive_it() -> None:
    core = core_with(NodeSpec(name="a", slots=60))
    lucky, *tasks = [submit(core) for _ in range(10)]
    core.plan(0.0)
    refuse(core, tasks[0])
    core.started("a", launch_of(lucky), 2.0, 2.0)
    for task in tasks[1:]:
        refuse(core, task)
    assert sum(bool(task.unstarted) for task in tasks) == 3


def test_an_environment_that_is_not_there_is_named_and_a_code_of_the_tasks_own_is_not_explained_away() -> None:
    for asked, code, told in (
        ({"env": "vision"}, 121, "the environment vision"),
        ({}, 121, "exit code 121"),
        ({"env": "vision"}, 126, "126"),
        ({"setup": "module load cuda"}, 122, "its setup failed"),
        ({}, 122, "exit code 122"),
    ):
        core = core_with(ONE)
        task = submit(core, **asked)
        core.plan(0.0)
        core.started("a", launch_of(task), 2.0, 2.0)
        core.exited("a", Exit(launch_of(task), "exited", 3.0, code), 3.0)
        assert (task.state, told in (task.reason or "")) == (TaskState.FAILED, True)


def test_a_node_that_turns_sick_does_not_rest_besides() -> None:
    core = core_with(NodeSpec(name="a", slots=60))
    tasks = [submit(core) for _ in range(3)]
    core.plan(0.0)
    for task in tasks:
        refuse(core, task)
    node = core.inventory.nodes["a"]
    assert [*node.cordons] == ["sick"], "people resume it: no time does"


def test_a_start_while_a_node_rests_does_not_shorten_the_next_rest() -> None:
    core = core_with(NodeSpec(name="a", slots=60))
    first, lucky, second = (submit(core) for _ in range(3))
    core.plan(0.0)
    refuse(core, first)
    core.started("a", launch_of(lucky), 2.0, 2.0)
    assert core.inventory.nodes["a"].rests == 1
    effects(core)
    core.rested("a")
    refuse(core, second)
    assert [one for one in effects(core) if isinstance(one, Rest)] == [Rest("a", 2 * REST_S)]


def found(core: Core, *tasks: Task) -> Core:
    """The core, with these tasks as the last master left them."""
    core.load({task.id: task for task in tasks}, {}, 9)
    core.plan(0.0)
    return core


def unstarted_on(nodes: str, *, number: int = 1, ran: bool = False) -> Task:
    return Task(id=number, command="true", unstarted=[Unstarted(name, WHY, ran=ran) for name in nodes])


def four() -> Core:
    return core_with(*(NodeSpec(name=name, slots=60) for name in "abcd"))


def test_nodes_that_a_task_ran_out_of_memory_on_do_not_count_as_those_that_could_not_start_it() -> None:
    task = unstarted_on("bcd", ran=True)
    refuse(found(four(), task), task)
    assert task.state is TaskState.WAITING


def test_a_task_that_sick_nodes_could_not_start_is_not_to_blame() -> None:
    core, task = four(), unstarted_on("ab")
    found(core, task)
    for name in "ab":
        core.cordon(name, "sick", Message("sick", count=3, said=WHY))
    refuse(core, task)
    assert task.state is TaskState.WAITING, "only one of the three is well"


@pytest.mark.parametrize(
    ("others", "state"), [("", TaskState.FAILED), ("a", TaskState.FAILED), ("ab", TaskState.WAITING)]
)
def test_a_task_has_failed_where_hardly_any_other_could_not_be_started(others: str, state: TaskState) -> None:
    core, task = four(), unstarted_on("abc", number=5)
    for number, name in enumerate(others, 1):
        core.inventory.nodes[name].faulted[number] = WHY
    refuse(found(core, task), task)
    assert task.state is state


def test_a_node_that_is_resumed_while_it_rests_takes_tasks_at_once_and_nothing_counts_against_it() -> None:
    core = core_with(NodeSpec(name="a", slots=60))
    core.drain("a", "the fan rattles", "root", 5.0)
    core.resume("a")
    assert core.notes == {}, "nor is it kept who drained it"
    tasks = [submit(core) for _ in range(3)]
    core.plan(0.0)
    refuse(core, tasks[0])
    core.rested("a")
    refuse(core, tasks[1])
    assert not core.inventory.nodes["a"].takes_tasks
    core.resume("a")
    assert core.inventory.nodes["a"].takes_tasks
    effects(core)
    refuse(core, tasks[2])
    assert [one for one in effects(core) if isinstance(one, Rest)] == [Rest("a", REST_S)]
    assert core.notes == {}, "it could not start one task since"


def test_what_a_node_could_not_start_has_waited_since_it_came() -> None:
    core = core_with(ONE)
    task = submit(core, gpus=1)
    came = task.eligible_at
    core.plan(2.0)
    refuse(core, task)
    core.rested("a")
    core.plan(9.0)
    assert task.eligible_at == came
