"""A pause is a wish that is kept, and `paused` what the agents of all parts say."""

from __future__ import annotations

import msgspec
import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.effects import Effect, Kill, Pause, Resume
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.attempt import AskedEnd
from master.core.tasks.task import PauseAsked, Task, TaskState
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from wire.errors import ConflictError


def effects(core: Core) -> list[Effect]:
    outcome = core.take_outcome()
    return [] if outcome is None else outcome.effects


def running(core: Core) -> Task:
    task = submit(core, gpus=1)
    core.plan(0.0)
    core.started("a", launch_of(task), 2.0, 2.0)
    core.stands("a", launch_of(task), stands=False)
    effects(core)
    return task


def paused(core: Core) -> Task:
    task = running(core)
    core.pause(task.id, "kim", 3.0)
    core.stands("a", launch_of(task), stands=True)
    assert task.state is TaskState.PAUSED
    effects(core)
    return task


def of_two_nodes() -> tuple[Core, Task]:
    """A task that runs in two parts."""
    core = core_with(NodeSpec(name="a", gpu_models=("GPU",)), NodeSpec(name="b", gpu_models=("GPU",)))
    task, other = running(core), submit(core, gpus=1)
    core.plan(0.0)
    (beside,) = other.allocation
    core.exited("b", Exit(beside.launch_id, "exited", 3.0, 0), 3.0)
    gang = msgspec.structs.replace(task, id=9, allocation=[*task.allocation, beside])
    alone = core_with(NodeSpec(name="a", gpu_models=("GPU",)), NodeSpec(name="b", gpu_models=("GPU",)), online=False)
    alone.load({9: gang}, {}, 10)
    for name in ("a", "b"):
        alone.node_state(name, NodeState.ONLINE, None, BOOT)
    alone.take_outcome()
    return alone, gang


def test_it_is_paused_when_its_agent_says_so_and_not_when_somebody_asks() -> None:
    core = core_with()
    task = running(core)
    core.pause(task.id, "kim", 3.0)
    assert (task.state, task.pause_asked) == (TaskState.RUNNING, PauseAsked("kim", 3.0))
    assert "kim wants it paused: a has not said yet" in (core.reason(task) or "")
    assert effects(core) == [Pause("a", launch_of(task))]
    core.stands("a", launch_of(task), stands=True)
    assert task.state is TaskState.PAUSED
    assert f"muster resume {task.id}" in (core.reason(task) or "")
    assert task.attempts[-1].reason is None, "of an attempt that goes on there is no end to tell of"


def test_what_is_paused_keeps_its_gpus() -> None:
    core = core_with()
    task = paused(core)
    assert core.inventory.nodes["a"].active == {task.id}
    other = submit(core, gpus=8)
    core.plan(0.0)
    assert other.state is TaskState.WAITING


def test_it_goes_on_when_its_agent_says_so() -> None:
    core = core_with()
    task = paused(core)
    core.resume_task(task.id)
    assert (task.state, task.pause_asked) == (TaskState.PAUSED, None)
    assert effects(core) == [Resume("a", launch_of(task))]
    core.stands("a", launch_of(task), stands=False)
    assert (task.state, core.reason(task)) == (TaskState.RUNNING, None)


def test_a_second_press_of_either_key_changes_nothing() -> None:
    core = core_with()
    task = running(core)
    assert core.resume_task(task.id) is task
    assert effects(core) == []
    core.pause(task.id, "kim", 3.0)
    core.pause(task.id, "lee", 4.0)
    assert task.pause_asked == PauseAsked("kim", 3.0)
    core.stands("a", launch_of(task), stands=True)
    effects(core)
    core.pause(task.id, "lee", 5.0)
    assert effects(core) == []


def test_a_wish_that_was_taken_back_before_it_was_heard_leaves_nothing() -> None:
    core = core_with()
    task = running(core)
    core.pause(task.id, "kim", 3.0)
    core.resume_task(task.id)
    assert effects(core) == [Pause("a", launch_of(task)), Resume("a", launch_of(task))]
    assert (task.pause_asked, core.reason(task)) == (None, None)
    core.stands("a", launch_of(task), stands=True)
    core.stands("a", launch_of(task), stands=False)
    assert (task.state, core.reason(task)) == (TaskState.RUNNING, None)


def test_one_that_starts_is_told_once_it_runs() -> None:
    core = core_with()
    task = submit(core, gpus=1)
    core.plan(0.0)
    core.pause(task.id, "kim", 3.0)
    effects(core)
    core.started("a", launch_of(task), 4.0, 4.0)
    core.stands("a", launch_of(task), stands=False)
    assert effects(core) == [Pause("a", launch_of(task))]


def test_an_agent_that_comes_back_is_asked_again() -> None:
    core = core_with()
    task = running(core)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    core.pause(task.id, "kim", 3.0)
    effects(core)
    core.node_state("a", NodeState.CONNECTING, None, BOOT)
    core.reconcile("a", [Seen(launch_of(task), 2.0)], 5.0)
    assert effects(core) == [Pause("a", launch_of(task))]
    core.reconcile("a", [Seen(launch_of(task), 2.0, paused=True)], 6.0)
    assert task.state is TaskState.PAUSED
    assert effects(core) == []


def test_a_master_that_starts_anew_hears_that_it_stands_and_knows_who_wants_that() -> None:
    task = paused(core_with())
    written = msgspec.json.decode(msgspec.json.encode(task), type=Task)
    core = core_with(online=False)
    core.load({written.id: written}, {}, written.id + 1)
    core.node_state("a", NodeState.CONNECTING, None, BOOT)
    core.reconcile("a", [Seen(launch_of(task), 2.0, paused=True)], 6.0)
    assert (written.state, written.pause_asked) == (TaskState.PAUSED, PauseAsked("kim", 3.0))
    core.reconcile("a", [Seen(launch_of(task), 2.0)], 7.0)
    assert written.state is TaskState.RUNNING
    assert "continued it on a by hand" in (core.reason(written) or "")


def test_a_node_that_was_away_when_it_was_to_go_on_is_told_when_it_comes_back() -> None:
    core = core_with()
    task = paused(core)
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    core.resume_task(task.id)
    effects(core)
    core.node_state("a", NodeState.CONNECTING, None, BOOT)
    core.reconcile("a", [Seen(launch_of(task), 2.0, paused=True)], 6.0)
    assert effects(core) == [Resume("a", launch_of(task))]
    core.stands("a", launch_of(task), stands=False)
    assert (task.state, task.pause_asked, task.to_resume) == (TaskState.RUNNING, None, [])


def test_one_that_was_to_go_on_before_it_was_heard_to_stand_is_told_so_by_the_next_master_too() -> None:
    core = core_with()
    task = running(core)
    core.pause(task.id, "kim", 3.0)
    core.resume_task(task.id)
    again = core_with(online=False)
    again.load({task.id: msgspec.json.decode(msgspec.json.encode(task), type=Task)}, {}, 10)
    again.node_state("a", NodeState.CONNECTING, None, BOOT)
    effects(again)
    kept = again.tasks[task.id]
    again.reconcile("a", [Seen(launch_of(kept), 2.0, paused=True)], 6.0)
    assert effects(again) == [Resume("a", launch_of(kept))]
    again.stands("a", launch_of(kept), stands=False)
    assert (kept.state, kept.reason, kept.to_resume) == (TaskState.RUNNING, None, [])


def test_an_agent_that_died_when_it_had_let_go_on_some_of_it_is_asked_again_until_it_answers() -> None:
    core = core_with()
    task = paused(core)
    core.resume_task(task.id)
    for _ in range(2):
        core.node_state("a", NodeState.UNREACHABLE, "its agent was killed")
        core.node_state("a", NodeState.CONNECTING, None, BOOT)
        effects(core)
        core.reconcile("a", [Seen(launch_of(task), 2.0)], 6.0)
        assert (task.state, effects(core)) == (TaskState.RUNNING, [Resume("a", launch_of(task))])
    core.stands("a", launch_of(task), stands=False)
    assert (task.state, task.to_resume, effects(core)) == (TaskState.RUNNING, [], [])


def test_a_pause_before_the_answer_to_a_resume_is_no_hand_of_somebody_elses() -> None:
    core = core_with()
    task = paused(core)
    core.resume_task(task.id)
    core.pause(task.id, "li", 5.0)
    assert effects(core) == [Resume("a", launch_of(task))]
    core.stands("a", launch_of(task), stands=False)
    assert (task.state, task.pause_asked) == (TaskState.RUNNING, PauseAsked("li", 5.0))
    assert effects(core) == [Pause("a", launch_of(task))]
    core.stands("a", launch_of(task), stands=True)
    assert (task.state, task.to_resume, effects(core)) == (TaskState.PAUSED, [], [])


def test_who_pauses_and_resumes_without_end_asks_the_node_no_more_than_it_answers() -> None:
    core = core_with()
    task = running(core)
    launch_id = launch_of(task)
    for expected in ([Pause("a", launch_id), Resume("a", launch_id)], [], []):
        core.pause(task.id, "kim", 3.0)
        core.pause(task.id, "kim", 3.0)
        core.resume_task(task.id)
        core.resume_task(task.id)
        assert effects(core) == expected
    core.pause(task.id, "kim", 3.0)
    core.stands("a", launch_id, stands=True)
    assert (task.state, effects(core)) == (TaskState.PAUSED, []), "that answers the first"
    assert not core.was_started("a", launch_id, 7), "it was asked to say so"
    core.stands("a", launch_id, stands=False)
    assert effects(core) == [Pause("a", launch_id)]
    core.stands("a", launch_id, stands=True)
    assert (task.state, task.pause_asked, effects(core)) == (TaskState.PAUSED, PauseAsked("kim", 3.0), [])


def test_once_it_runs_again_who_stops_it_by_hand_is_left_alone() -> None:
    core = core_with()
    task = paused(core)
    core.resume_task(task.id)
    core.stands("a", launch_of(task), stands=False)
    effects(core)
    core.stands("a", launch_of(task), stands=True)
    assert (task.state, effects(core)) == (TaskState.PAUSED, [])


def test_a_pause_after_that_is_the_wish_that_counts() -> None:
    core = core_with()
    task = paused(core)
    core.resume_task(task.id)
    core.pause(task.id, "li", 5.0)
    effects(core)
    core.stands("a", launch_of(task), stands=True)
    assert (task.state, effects(core)) == (TaskState.PAUSED, [])


def test_of_a_gang_each_part_is_told_until_it_runs() -> None:
    core, task = of_two_nodes()
    first, second = (part.launch_id for part in task.allocation)
    core.pause(task.id, "kim", 3.0)
    for name, launch_id in (("a", first), ("b", second)):
        core.stands(name, launch_id, stands=True)
    core.resume_task(task.id)
    effects(core)
    core.stands("a", first, stands=False)
    effects(core)
    core.stands("b", second, stands=True)
    assert effects(core) == [], "it has yet to answer"
    core.stands("b", second, stands=True, found=True)
    assert effects(core) == [Resume("b", second)]
    core.stands("b", second, stands=False)
    assert (task.state, task.to_resume) == (TaskState.RUNNING, [])


def test_who_continues_it_by_hand_has_taken_the_wish_back_and_that_is_told() -> None:
    core = core_with()
    task = paused(core)
    core.stands("a", launch_of(task), stands=False)
    assert (task.state, task.pause_asked) == (TaskState.RUNNING, None)
    assert "continued it on a by hand" in (core.reason(task) or "")
    core.pause(task.id, "kim", 9.0)
    core.stands("a", launch_of(task), stands=True)
    assert task.state is TaskState.PAUSED


def test_what_was_stopped_by_hand_is_paused_and_can_be_resumed() -> None:
    core = core_with()
    task = running(core)
    core.stands("a", launch_of(task), stands=True)
    assert task.state is TaskState.PAUSED
    assert task.reason_key == "stands_still"
    effects(core)
    core.resume_task(task.id)
    assert effects(core) == [Resume("a", launch_of(task))]


def test_a_gang_is_paused_when_all_of_it_stands_and_goes_on_as_a_whole() -> None:
    core, gang = of_two_nodes()
    on_a, on_b = (part.launch_id for part in gang.allocation)
    core.pause(9, "kim", 3.0)
    assert effects(core) == [Pause("a", on_a), Pause("b", on_b)]
    core.stands("a", on_a, stands=True)
    assert gang.state is TaskState.RUNNING
    core.stands("b", on_b, stands=True)
    assert gang.state is TaskState.PAUSED
    effects(core)
    core.stands("b", on_b, stands=False)  # by hand
    assert gang.state is TaskState.RUNNING
    assert set(effects(core)) == {Resume("a", on_a), Resume("b", on_b)}


def test_a_cancel_outranks_a_pause() -> None:
    core = core_with()
    task = paused(core)
    core.cancel(task.id, 5.0, by="ada")
    assert effects(core) == [Kill("a", launch_of(task))]
    core.stands("a", launch_of(task), stands=False)
    assert (task.state, core.reason(task)) == (TaskState.RUNNING, None), "it was continued to hear the signal"
    with pytest.raises(ConflictError, match="is being ended"):
        core.pause(task.id, "kim", 6.0)
    core.stands("a", launch_of(task), stands=False)
    assert effects(core) == []
    core.exited("a", Exit(launch_of(task), "killed", 7.0, 143), 7.0)
    assert (task.state, task.pause_asked, task.asked_end) == (TaskState.CANCELLED, None, AskedEnd("cancel", "ada"))


def test_what_ends_while_it_is_paused_wants_nothing_any_more_and_begins_anew_without_it() -> None:
    core = core_with()
    task = paused(core)
    core.exited("a", Exit(launch_of(task), "timed_out", 7.0, 143), 7.0)
    assert (task.state, task.pause_asked) == (TaskState.TIMED_OUT, None)
    core.retry(task.id)
    core.plan(0.0)
    core.started("a", launch_of(task), 8.0, 8.0)
    effects(core)
    core.stands("a", launch_of(task), stands=False)
    assert effects(core) == []


def test_what_waits_is_held_and_not_paused_and_what_is_held_is_released() -> None:
    core = core_with()
    task = submit(core)
    with pytest.raises(ConflictError, match=f"muster hold {task.id}"):
        core.pause(task.id, "kim", 2.0)
    core.hold(task.id)
    with pytest.raises(ConflictError, match=f"muster release {task.id}"):
        core.resume_task(task.id)


def test_an_agent_of_before_is_not_asked_what_it_would_not_hear() -> None:
    core = core_with()
    task = running(core)
    core.node_state("a", NodeState.ONLINE, None, msgspec.structs.replace(BOOT, protocol=3))
    effects(core)
    with pytest.raises(ConflictError, match="muster agents restart a"):
        core.pause(task.id, "kim", 3.0)
    assert task.pause_asked is None
    assert effects(core) == []


def test_another_node_says_nothing_of_it() -> None:
    core = core_with()
    task = running(core)
    core.stands("b", launch_of(task), stands=True)
    core.stands("a", "none", stands=True)
    assert task.state is TaskState.RUNNING
