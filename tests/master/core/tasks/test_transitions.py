"""The table of transitions: every event in every state, through the front of the core, does what the table says."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.nodes.inventory import NodeState
from master.core.outcome import Pending
from master.core.tasks.task import ACTIVE, ENDED, QUEUED, After, Task, TaskState
from master.core.tasks.task_table import IllegalTransitionError, TaskTable
from master.core.tasks.transitions import RULES, TRANSITIONS, Event, check
from tests.cases import each_case
from tests.master.core.small_core import core_with, launch_of, run, submit
from wire.errors import ConflictError, MusterError
from wire.message import Message


def brought_to(state: TaskState, **wants: object) -> tuple[Core, Task]:
    """A core, and a task of it in this state."""
    core = core_with()
    task = submit(core, gpus=1, **wants)
    if state is TaskState.HELD:
        core.hold(task.id)
    elif state is TaskState.CANCELLED:
        core.cancel(task.id, 2.0)
    elif state is not TaskState.WAITING:
        core.plan(0.0)
        if state is not TaskState.STARTING:
            core.started("a", launch_of(task), 2.0, 2.0)
        if state is TaskState.PAUSED:
            core.pause(task.id, "kim", 2.0)
            core.stands("a", launch_of(task), stands=True)
        ends = {"succeeded": ("exited", 0), "failed": ("exited", 1), "timed_out": ("timed_out", None)}
        if state in ENDED:
            cause, code = ends.get(state, ("unknown", None))
            core.exited("a", Exit(launch_of(task), cause, 3.0, code), 3.0)
    assert task.state is state
    return core, task


def exit_of(task: Task, cause: str, code: int | None = None, fault: str = "") -> Exit:
    """The end of its attempt, or of one that nobody knows."""
    return Exit(task.allocation[0].launch_id if task.allocation else "none", cause, 4.0, code, "why", None, fault)


def is_given_up(core: Core) -> None:
    """Its node is gone for good."""
    core.node_state("a", NodeState.UNREACHABLE, "gone")
    core.give_up("a", "kim", 5.0)


HAPPENS: dict[Event, Callable[[Core, Task], object]] = {
    Event.EDIT: lambda core, task: core.edit(Task(id=task.id, command="other", gpus=1)),
    Event.HOLD: lambda core, task: core.hold(task.id),
    Event.RELEASE: lambda core, task: core.release(task.id),
    Event.REORDER: lambda core, task: core.move(task.id, 1),
    Event.FORCE: lambda core, task: core.force(task.id),
    Event.PAUSE: lambda core, task: core.pause(task.id, "kim", 5.0),
    Event.RESUME: lambda core, task: core.resume_task(task.id),
    Event.CANCEL: lambda core, task: core.cancel(task.id, 5.0),
    Event.RETRY: lambda core, task: core.retry(task.id),
    Event.REMOVE: lambda core, task: core.remove(task.id, 5.0),
    Event.START: lambda core, _: core.plan(0.0),
    Event.RESEND: lambda core, _: core.reconcile("a", [], 5.0),
    Event.STARTED: lambda core, task: core.started("a", exit_of(task, "").launch_id, 4.0, 4.0),
    Event.STOPPED: lambda core, task: core.stands("a", exit_of(task, "").launch_id, stands=True),
    Event.CONTINUED: lambda core, task: core.stands("a", exit_of(task, "").launch_id, stands=False),
    Event.NOT_STARTED: lambda core, task: core.exited("a", exit_of(task, "not_started", fault="node"), 5.0),
    Event.EXIT: lambda core, task: core.exited("a", exit_of(task, "exited", 0), 5.0),
    Event.GIVE_UP: lambda core, _: is_given_up(core),
    Event.ARCHIVE: lambda core, task: core.drop_archived([task.id]),
}
"""What can be done to a task in any state; the others need more than it, or something that is not there yet."""
OF_BAD_ENDS: dict[Event, Callable[[Core, Task], object]] = {
    Event.EXIT: lambda core, task: core.exited("a", exit_of(task, "exited", 1), 5.0),
    Event.NOT_STARTED: lambda core, task: core.exited("a", exit_of(task, "not_started"), 5.0),
}
"""The same, where what happens above is a good end."""
ASKED = {
    Event.EDIT, Event.HOLD, Event.RELEASE, Event.REORDER, Event.FORCE, Event.PAUSE, Event.RESUME, Event.CANCEL,
    Event.RETRY, Event.REMOVE, Event.ARCHIVE,
}  # fmt: skip
"""What somebody asks and is refused; what agents tell is ignored where it means nothing."""


INSTEAD = {Event.RESEND: Event.VANISH, Event.NOT_STARTED: Event.EXIT}
"""What the same words of an agent are in a state where they are not the event: of a launch that runs, that nobody there
has a record of it, and that it is over."""


def test_each_event_leads_from_each_state_where_the_table_says_or_changes_nothing() -> None:
    with each_case() as cases:
        for event, state in itertools.product(HAPPENS, TaskState):
            with cases.case(f"{event} while {state}"):
                check_event(event, state)


def check_event(event: Event, state: TaskState) -> None:
    core, task = brought_to(state)
    leads = RULES[event].leads.get(state)
    if leads is None and event in ASKED:
        core.take_outcome()
        with pytest.raises(ConflictError) as refused:
            HAPPENS[event](core, task)
        assert str(refused.value) == str(Message(RULES[event].refusal, id=task.id, state=state))
        assert core.take_outcome() is None, "what is refused leaves nothing behind"
    else:
        HAPPENS[event](core, task)
    now = task.state if task.id in core.tasks else None
    otherwise = RULES[INSTEAD[event]].leads.get(state) if event in INSTEAD else None
    expected = leads or otherwise or {state}
    assert now in expected
    if TaskState.WAITING in expected and state in ACTIVE and now in ENDED:
        core, task = brought_to(state, max_retries=1)  # what ended so may be tried again
        OF_BAD_ENDS.get(event, HAPPENS[event])(core, task)
        assert (task.state, task.retries) == (TaskState.WAITING, 1)


@pytest.mark.parametrize("state", [TaskState.WAITING, TaskState.HELD])
@pytest.mark.parametrize("event", [Event.MEET, Event.THWART])
def test_the_end_of_a_predecessor_leads_where_the_table_says(event: Event, state: TaskState) -> None:
    core = core_with()
    first = submit(core)
    second = submit(core, after=[After(first.id, "ok")])
    if state is TaskState.HELD:
        core.hold(second.id)
    if event is Event.MEET:
        run(core, first)
    else:
        core.cancel(first.id, 5.0)
    assert second.state in RULES[event].leads[state]
    assert second.waits_for == []


def test_what_is_over_is_taken_back_from_the_monthly_files_only_as_ended_and_a_new_task_is_queued() -> None:
    core = core_with()
    ended = Task(id=core.next_id - 1, command="true", state=TaskState.FAILED, ended_at=1.0)
    core.recall(ended)
    assert ended.state in RULES[Event.RECALL].leads[None] == ENDED
    assert submit(core, state=TaskState.HELD).state in RULES[Event.SUBMIT].leads[None] == QUEUED


def test_a_task_that_is_taken_back_in_the_moment_in_which_it_went_is_there() -> None:
    core, task = brought_to(TaskState.FAILED)
    core.take_outcome()
    core.drop_archived([task.id])
    core.recall(task)
    outcome = core.take_outcome()
    assert outcome is not None
    assert (outcome.change.tasks, outcome.change.gone) == ([task], [])
    core.recall(Task(id=task.id + 1, command="true", state=TaskState.FAILED))
    core.drop_archived([task.id + 1])
    outcome = core.take_outcome()
    assert outcome is not None
    assert (outcome.change.tasks, outcome.change.gone) == ([], [task.id + 1])


def test_an_agent_that_knows_nothing_of_what_ran_there_has_lost_it() -> None:
    core, task = brought_to(TaskState.RUNNING)
    core.reconcile("a", [Seen("9.9.9", 1.0)], 5.0)
    assert task.state is TaskState.LOST
    core, task = brought_to(TaskState.RUNNING, max_retries=1)
    core.reconcile("a", [Seen("9.9.9", 1.0)], 5.0)
    assert task.state is TaskState.WAITING
    assert RULES[Event.VANISH].leads[TaskState.RUNNING] == {TaskState.LOST, TaskState.WAITING}


@pytest.mark.parametrize("state", [TaskState.WAITING, TaskState.HELD])
def test_an_allocation_is_granted_where_the_table_says(state: TaskState) -> None:
    core = core_with()
    task = submit(core, gpus=1, is_allocation=True, state=state)
    core.plan(0.0)
    assert {task.state} == RULES[Event.GRANT].leads.get(state, {state})


def test_every_event_is_walked_through_in_one_of_these_tests() -> None:
    elsewhere = {Event.MEET, Event.THWART, Event.RECALL, Event.SUBMIT, Event.VANISH, Event.GRANT}
    elsewhere.add(Event.ADOPT)  # in test_unknown_attempts
    assert HAPPENS.keys() | elsewhere == set(Event) == RULES.keys()


def test_the_book_moves_a_task_only_where_some_event_may_lead_it() -> None:
    with each_case() as cases:
        for before, after in itertools.product(TaskState, TaskState):
            with cases.case(f"{before} to {after}"):
                check_move(before, after)


def check_move(before: TaskState, after: TaskState) -> None:
    task_table = TaskTable(Pending())
    task = Task(id=1, command="true", state=before)
    task_table.take_back(task)
    lead_there = [event for event, rule in RULES.items() if after in rule.leads.get(before, ()) and after is not before]
    assert (after in TRANSITIONS[before]) is bool(lead_there)
    if lead_there:
        task_table.move(task, after)
        assert (task.state, task_table.counts[before], task_table.counts[after]) == (after, 0, 1)
    else:
        with pytest.raises(IllegalTransitionError):
            task_table.move(task, after)
        assert task.state is before


def test_an_ended_task_can_only_wait_again_and_only_one_that_runs_is_paused() -> None:
    for state in ENDED:
        assert TRANSITIONS[state] == {TaskState.WAITING}
    assert [before for before, after in TRANSITIONS.items() if TaskState.PAUSED in after] == [TaskState.RUNNING]


@pytest.mark.parametrize("event", [event for event in Event if RULES[event].refusal])
def test_each_refusal_names_the_task_and_its_state(event: Event) -> None:
    for state in set(TaskState) - RULES[event].leads.keys():
        with pytest.raises(MusterError) as refused:
            check(event, 77, state)
        assert "77" in str(refused.value)
        assert state in str(refused.value)
