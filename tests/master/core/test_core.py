"""The core, without clock, loop or disk: what people and agents say comes in, changes and effects come out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Ack, Kill, Start
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.task import ENDED, After, Task, TaskState
from tests.calls import calls_of
from tests.master.core.small_core import BOOT, EIGHT, REBOOTED, core_with, launch_of, run, submit
from wire.errors import BadRequestError, ConflictError, ImpossibleError, LimitError, NotFoundError
from wire.message import Message


def test_a_task_goes_from_submit_to_history_with_each_effect_after_its_record() -> None:
    core = core_with()
    task = submit(core, gpus=2)
    outcome = core.take_outcome()
    assert outcome is not None
    assert outcome.change.tasks == [task]
    assert outcome.effects == []
    core.plan(0.0)
    outcome = core.take_outcome()
    assert outcome is not None
    assert outcome.change.tasks == [task]
    assert outcome.effects == [Start("a", task)]
    assert task.state is TaskState.STARTING
    assert task.allocation[0].gpus == [0, 1]
    core.started("a", launch_of(task), 5.0, 5.0)
    core.exited("a", Exit(launch_of(task), "exited", 6.0, 0), 6.5)
    outcome = core.take_outcome()
    assert outcome is not None
    assert outcome.effects == [Ack("a", launch_of(task))]
    assert (task.state, task.exit_code, task.started_at, task.ended_at) == (TaskState.SUCCEEDED, 0, 5.0, 6.0)
    assert core.inventory.nodes["a"].free_gpus == list(range(8))
    assert core.take_outcome() is None


def test_a_log_near_its_limit_is_warned_of_in_the_unit_that_shows_how_near_until_the_task_ends() -> None:
    core = core_with()
    task = submit(core)
    core.plan(0.0)
    core.started("a", launch_of(task), 2.0, 2.0)
    for size, limit, units in (
        (900, 1000, ("900 bytes", "1,000 bytes")),
        (900_000, 1 << 20, ("900,000 bytes", "1 MiB")),
        (1900 << 20, 2000 << 20, ("1,900 MiB", "2,000 MiB")),
    ):
        core.log_grows("a", launch_of(task), size, limit)
        assert core.what_looks_wrong(task) == Message("large_log", size=size, limit=limit)
        assert all(unit in str(core.warning(task)) for unit in units)
    core.exited("a", Exit(launch_of(task), "exited", 6.0, 0), 6.5)
    assert core.warning(task) is None


def test_nothing_happens_twice_when_the_agent_repeats_itself() -> None:
    core = core_with()
    task = submit(core)
    run(core, task)
    core.take_outcome()
    core.started("a", launch_of(task), 9.0, 9.0)
    assert core.take_outcome() is None
    core.exited("a", Exit(launch_of(task), "exited", 9.0, 1), 9.0)
    outcome = core.take_outcome()
    assert outcome is not None
    assert not outcome.change
    assert outcome.effects == [Ack("a", launch_of(task))]
    assert task.exit_code == 0


def test_gpus_are_never_held_twice_and_a_large_task_does_not_block_a_small_one() -> None:
    core = core_with()
    first, second = submit(core, gpus=6), submit(core, gpus=4)
    small = submit(core, gpus=2)
    core.plan(0.0)
    assert (first.state, second.state, small.state) == (TaskState.STARTING, TaskState.WAITING, TaskState.STARTING)
    held = first.allocation[0].gpus + small.allocation[0].gpus
    assert sorted(held) == list(range(8))
    assert "0 of 8 GPUs free" in str(core.reason(second))


def test_exact_gpus_wait_for_exactly_those() -> None:
    core = core_with()
    one = submit(core, gpus=2, gpu_ids=[3, 5])
    other = submit(core, gpus=1, gpu_ids=[5])
    core.plan(0.0)
    assert one.allocation[0].gpus == [3, 5]
    assert other.state is TaskState.WAITING
    assert f"GPU 5 held (task {one.id})" in str(core.reason(other))


def test_a_given_node_is_kept_to() -> None:
    core = core_with(EIGHT, NodeSpec(name="b", gpu_models=("GPU",) * 2))
    task = submit(core, gpus=1, node="b")
    core.plan(0.0)
    assert task.allocation[0].node == "b"


def test_small_requests_fill_the_fuller_node_so_that_whole_nodes_stay_free() -> None:
    core = core_with(EIGHT, NodeSpec(name="b", gpu_models=("GPU",) * 2))
    task = submit(core, gpus=1)
    core.plan(0.0)
    assert task.allocation[0].node == "b"


def test_tasks_without_gpus_take_slots_and_others_do_not() -> None:
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",), slots=2))
    tasks = [submit(core) for _ in range(3)]
    gpu = submit(core, gpus=1)
    core.plan(0.0)
    assert [task.state for task in tasks] == [TaskState.STARTING, TaskState.STARTING, TaskState.WAITING]
    assert gpu.state is TaskState.STARTING
    assert "2 of 2 slots taken" in str(core.reason(tasks[2]))


def test_asked_for_cpus_are_counted() -> None:
    core = core_with()
    first, second = submit(core, cpus=3), submit(core, cpus=2)
    core.plan(0.0)
    assert (first.state, second.state) == (TaskState.STARTING, TaskState.WAITING)


def test_urgent_comes_first_then_priority_then_the_order_of_submission() -> None:
    core = core_with(NodeSpec(name="a", slots=1))
    plain, high, urgent = submit(core), submit(core, priority=5), submit(core, urgent=True)
    order = []
    for _ in range(3):
        core.plan(0.0)
        running = next(task for task in (plain, high, urgent) if task.state is TaskState.STARTING)
        order.append(running)
        core.exited("a", Exit(launch_of(running), "exited", 3.0, 0), 3.0)
    assert order == [urgent, high, plain]


@pytest.mark.parametrize(
    ("wants", "says"),
    [
        ({"gpus": 9}, "has 8 GPUs"),
        ({"gpus": 1, "gpu_ids": [8]}, "no GPU 8"),
        ({"node": "zzz"}, "no node 'zzz'"),
        ({"cpus": 5}, "has 4 CPUs"),
    ],
)
def test_an_impossible_request_is_refused_at_once_with_the_reason(wants: dict[str, object], says: str) -> None:
    core = core_with()
    with pytest.raises(ImpossibleError, match=says):
        submit(core, **wants)
    assert core.take_outcome() is None
    assert core.next_id == 1


def test_a_batch_with_one_wrong_task_leaves_nothing_behind() -> None:
    core = core_with()
    with pytest.raises(ImpossibleError):
        core.submit([Task(id=0, command="a"), Task(id=0, command="b", gpus=99)], 1.0)
    assert core.tasks == {}


def test_more_tasks_than_the_limit_are_refused() -> None:
    core = core_with(waiting_limit=2)
    submit(core)
    with pytest.raises(LimitError, match=r"limits\.waiting_tasks is 2"):
        core.submit([Task(id=0, command="a"), Task(id=0, command="b")], 1.0)


@pytest.mark.parametrize(
    ("condition", "code", "state"),
    [
        ("ok", 0, TaskState.WAITING),
        ("ok", 1, TaskState.CANCELLED),
        ("fail", 0, TaskState.CANCELLED),
        ("fail", 1, TaskState.WAITING),
        ("any", 0, TaskState.WAITING),
        ("any", 1, TaskState.WAITING),
    ],
)
def test_a_predecessor_releases_or_ends_its_successor(condition: str, code: int, state: TaskState) -> None:
    core = core_with()
    first = submit(core)
    second = submit(core, after=[After(first.id, condition)])
    core.plan(0.0)
    assert second.state is TaskState.WAITING
    assert f"task {first.id}" in str(core.reason(second))
    run(core, first, code)
    assert second.state is state
    if state is TaskState.CANCELLED:
        assert f"predecessor {first.id}" in str(second.reason)
    else:
        assert second.id in core.backlog


def test_several_predecessors_must_all_be_met() -> None:
    core = core_with()
    one, two = submit(core), submit(core)
    last = submit(core, after=[After(one.id), After(two.id, "any")])
    run(core, one)
    core.plan(0.0)
    assert last.state is TaskState.WAITING
    core.exited("a", Exit(launch_of(two), "exited", 3.0, 1), 3.0)
    core.plan(0.0)
    assert last.state is TaskState.STARTING


def test_a_chain_is_ended_to_its_last_link() -> None:
    core = core_with()
    first = submit(core)
    second = submit(core, after=[After(first.id)])
    third = submit(core, after=[After(second.id)])
    core.cancel(first.id, 2.0)
    assert (second.state, third.state) == (TaskState.CANCELLED, TaskState.CANCELLED)


def test_no_successor_waits_for_a_removed_task() -> None:
    core = core_with()
    first = submit(core)
    needs = submit(core, after=[After(first.id, "ok")])
    follows = submit(core, after=[After(first.id, "any")])
    both = submit(core, after=[After(first.id, "any"), After(first.id, "ok")])
    core.remove(first.id, 2.0)
    assert needs.state is TaskState.CANCELLED
    assert "removed" in str(needs.reason)
    assert both.state is TaskState.CANCELLED
    assert follows.id in core.backlog


def test_removing_with_successors_takes_the_whole_chain() -> None:
    core = core_with()
    first = submit(core)
    second = submit(core, after=[After(first.id, "any")])
    third = submit(core, after=[After(second.id, "any")])
    apart = submit(core)
    assert core.remove(first.id, 2.0, successors=True) == [first.id, second.id, third.id]
    assert list(core.tasks) == [apart.id]
    core.plan(0.0)
    assert apart.state is TaskState.STARTING


def test_predecessors_that_do_not_exist_or_can_never_be_met_are_refused() -> None:
    core = core_with()
    failed = submit(core)
    run(core, failed, 1)
    with pytest.raises(NotFoundError):
        submit(core, after=[After(99)])
    with pytest.raises(ConflictError, match="never"):
        submit(core, after=[After(failed.id, "ok")])


def test_tasks_cannot_be_edited_into_waiting_for_each_other() -> None:
    core = core_with()
    first = submit(core)
    second = submit(core, after=[After(first.id)])
    edited = Task(id=first.id, command="true", after=[After(second.id)])
    with pytest.raises(BadRequestError, match="waits for it"):
        core.edit(edited)


def test_a_waiting_task_that_is_edited_keeps_its_id_and_takes_its_new_wishes() -> None:
    core = core_with()
    task = submit(core, gpus=8)
    core.edit(Task(id=task.id, command="other", gpus=1))
    core.plan(0.0)
    assert (task.command, task.allocation[0].gpus) == ("other", [0])


def test_an_ended_task_that_is_edited_or_retried_queues_again_as_a_new_attempt() -> None:
    core = core_with()
    task = submit(core)
    run(core, task, 1)
    first = launch_of(task)
    core.retry(task.id)
    assert (task.state, task.exit_code, task.allocation) == (TaskState.WAITING, None, [])
    run(core, task, 1)
    core.edit(Task(id=task.id, command="better"))
    run(core, task, 0)
    assert task.state is TaskState.SUCCEEDED
    assert task.attempt == 3
    assert launch_of(task) != first


def test_a_running_task_can_be_neither_edited_nor_removed_nor_retried() -> None:
    core = core_with()
    task = submit(core)
    core.plan(0.0)
    for refused in (
        lambda: core.edit(Task(id=task.id, command="x")),
        lambda: core.remove(task.id, 2.0),
        lambda: core.retry(task.id),
        lambda: core.hold(task.id),
    ):
        with pytest.raises(ConflictError):
            refused()


def test_a_held_task_waits_until_it_is_released() -> None:
    core = core_with()
    task = submit(core)
    core.hold(task.id)
    core.plan(0.0)
    assert task.state is TaskState.HELD
    assert "muster release" in str(core.reason(task))
    core.release(task.id)
    core.plan(0.0)
    assert task.state is TaskState.STARTING


def test_a_forced_task_passes_hold_priority_and_predecessors() -> None:
    core = core_with(NodeSpec(name="a", slots=1))
    blocker = submit(core)
    core.plan(0.0)
    high = submit(core, urgent=True, priority=9)
    held = submit(core, after=[After(high.id)])
    core.hold(held.id)
    core.force(held.id)
    core.exited("a", Exit(launch_of(blocker), "exited", 3.0, 0), 3.0)
    core.plan(0.0)
    assert (held.state, high.state) == (TaskState.STARTING, TaskState.WAITING)


def test_moving_changes_the_order_and_never_the_priority() -> None:
    core = core_with()
    tasks = [submit(core) for _ in range(4)]
    high = submit(core, priority=1)
    core.move(tasks[3].id, 2)
    assert core.queue() == [high, tasks[3], tasks[0], tasks[1], tasks[2]]
    with pytest.raises(ConflictError, match="priority"):
        core.move(tasks[2].id, 1)


def test_a_thousand_moves_to_one_place_keep_the_order_exact() -> None:
    core = core_with()
    tasks = [submit(core) for _ in range(3)]
    for number in range(1000):
        moved = tasks[number % 2 + 1]
        core.move(moved.id, 2)
        assert core.queue()[1] is moved


def test_cancelling_a_waiting_task_ends_it_and_a_running_one_is_killed_on_its_node() -> None:
    core = core_with()
    running, waiting = submit(core), submit(core, gpus=1, node="a")
    core.plan(0.0)
    core.hold(submit(core).id)
    assert core.cancel(running.id, 2.0) is False
    assert waiting.state is TaskState.STARTING
    outcome = core.take_outcome()
    assert outcome is not None
    assert Kill("a", launch_of(running)) in outcome.effects
    core.exited("a", Exit(launch_of(running), "killed", 3.0, 143), 3.0)
    assert (running.state, running.exit_code) == (TaskState.CANCELLED, 143)


@pytest.mark.parametrize(
    ("cause", "state"),
    [
        ("timed_out", TaskState.TIMED_OUT),
        ("not_started", TaskState.FAILED),
        ("unknown", TaskState.LOST),
        ("rebooted", TaskState.LOST),
    ],
)
def test_each_way_to_end_has_its_state_and_its_reason(cause: str, state: TaskState) -> None:
    core = core_with()
    task = submit(core)
    core.plan(0.0)
    core.exited("a", Exit(launch_of(task), cause, 3.0, None, "no such folder"), 3.0)
    assert task.state is state
    assert task.reason


class TestAfterAReconnect:
    """What an agent says that it has, against what the master believes."""

    @pytest.fixture
    def started(self) -> Iterator[tuple[Core, Task]]:
        core = core_with()
        task = submit(core, gpus=1)
        core.plan(0.0)
        core.take_outcome()
        core.node_state("a", NodeState.UNREACHABLE, "cut")
        yield core, task
        gpus = core.inventory.nodes["a"].gpu_holders
        assert ({task.id: None} in gpus.values()) == (task.state not in ENDED)

    def effects(self, core: Core) -> list[object]:
        outcome = core.take_outcome()
        return list(outcome.effects) if outcome else []

    def test_a_running_task_is_adopted(self, started: tuple[Core, Task]) -> None:
        core, task = started
        core.reconcile("a", [Seen(launch_of(task), 4.0)], 9.0)
        assert (task.state, task.started_at) == (TaskState.RUNNING, 4.0)
        assert self.effects(core) == []

    def test_an_exit_that_happened_meanwhile_is_taken_over(self, started: tuple[Core, Task]) -> None:
        core, task = started
        exit_ = Exit(launch_of(task), "exited", 7.0, 0, started_at=4.0)
        core.reconcile("a", [Seen(launch_of(task), exit=exit_)], 9.0)
        assert (task.state, task.started_at, task.ended_at) == (TaskState.SUCCEEDED, 4.0, 7.0)
        assert self.effects(core) == [Ack("a", launch_of(task))]

    def test_an_unclaimed_launch_is_sent_again_under_the_same_id(self, started: tuple[Core, Task]) -> None:
        core, task = started
        before = launch_of(task)
        core.reconcile("a", [], 9.0)
        assert self.effects(core) == [Start("a", task)]
        assert launch_of(task) == before

    def test_a_launch_whose_claim_may_be_lost_with_the_machine_is_not(self, started: tuple[Core, Task]) -> None:
        core, task = started
        core.node_state("a", NodeState.CONNECTING, None, REBOOTED)
        core.reconcile("a", [], 9.0)
        assert task.state is TaskState.LOST
        assert "node_rebooted" in str(task.reason)
        assert self.effects(core) == []

    def test_a_cancel_was_remembered(self, started: tuple[Core, Task]) -> None:
        core, task = started
        core.cancel(task.id, 5.0)
        core.take_outcome()
        core.reconcile("a", [], 9.0)
        assert self.effects(core) == [Kill("a", launch_of(task))]
        core.exited("a", Exit(launch_of(task), "killed", 9.0), 9.0)
        assert task.state is TaskState.CANCELLED

    def test_what_nobody_owns_is_ended_and_forgotten(self, started: tuple[Core, Task]) -> None:
        core, task = started
        gone = submit(core)
        core.remove(gone.id, 5.0)  # an id that was never given is in test_unknown_attempts
        launch = f"{gone.id}.1.x"
        stray, old = Seen(launch, 1.0), Seen("78.1.x", exit=Exit("78.1.x", "exited", 1.0, 0))
        core.reconcile("a", [Seen(launch_of(task), 4.0), stray, old], 9.0)
        assert self.effects(core) == [Kill("a", launch), Ack("a", "78.1.x")]


def test_loading_gives_back_the_same_books() -> None:
    core = core_with()
    running, waiting = submit(core, gpus=8), submit(core, gpus=1)
    after = submit(core, after=[After(waiting.id)])
    core.plan(0.0)
    again = core_with(online=False)
    again.load(dict(core.tasks), {}, core.next_id)
    assert again.inventory.nodes["a"].free_gpus == []
    assert again.counts == core.counts
    again.node_state("a", NodeState.ONLINE, None, BOOT)
    again.exited("a", Exit(launch_of(running), "exited", 3.0, 0), 3.0)
    again.plan(0.0)
    assert waiting.state is TaskState.STARTING
    assert after.id not in again.backlog


def test_a_task_loaded_with_a_predecessor_that_is_gone_does_not_wait_for_ever() -> None:
    core = core_with()
    orphan = Task(id=5, command="true", after=[After(3)], waits_for=[After(3)])
    core.load({5: orphan}, {}, 6)
    core.plan(0.0)
    assert orphan.state is TaskState.STARTING


def test_answers_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("master.core.idempotency.ANSWERS_KEPT", 2)
    core = core_with()
    for name in "abc":
        core.remember_answer(name, b"1")  # type: ignore[arg-type]
    assert list(core.answered) == ["b", "c"]


def test_who_looks_at_tasks_in_turn_sees_whether_one_that_was_there_changed_or_went() -> None:
    core = core_with()
    first, second = submit(core, gpus=1), submit(core, gpus=1)
    then = core.touched
    submit(core, gpus=1)
    core.take_outcome()
    assert core.touched == then
    for happens in (lambda: core.hold(first.id), lambda: core.remove(second.id, 2.0), lambda: core.plan(0.0)):
        then = core.touched
        happens()
        assert core.touched > then


def test_to_plan_costs_no_more_on_many_nodes_where_nothing_waits() -> None:
    def cost_on(count: int) -> int:
        core = Core(tuple(NodeSpec(name=f"n{at}") for at in range(count)), lambda task, attempt: f"{task}.{attempt}")
        for name in core.inventory.nodes:
            core.node_state(name, NodeState.ONLINE, None, BOOT)
        core.plan(0.0)
        return calls_of(lambda: core.plan(1.0))

    assert cost_on(100) == cost_on(10)
