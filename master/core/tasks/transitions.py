"""The transition table: what may happen to a task in which state, where it leads, and what is told where it may not.

Pure. The table is complete: each part that lets an event happen asks it first (`check`, `allows`) and repeats no check
of its own, and how a task's state may change at all (`TRANSITIONS`) follows from it. The handler of an event does
everything else that it means, and checks its other conditions (a cluster that could ever meet the request, predecessors
that can be met).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeAlias

import msgspec

from master.core.tasks.task import ACTIVE, ENDED, QUEUED, TaskState
from wire.errors import ConflictError
from wire.message import Message

State: TypeAlias = TaskState | None
"""None: the task is not there, not yet or not any more."""


class Event(StrEnum):
    """Each event that can happen to a task: requests of people, decisions of the planner, reports of agents, and what
    follows from these."""

    SUBMIT = "submit"
    EDIT = "edit"
    HOLD = "hold"
    RELEASE = "release"
    REORDER = "reorder"
    FORCE = "force"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    REMOVE = "remove"
    MEET = "meet"
    THWART = "thwart"
    START = "start"
    GRANT = "grant"
    ADOPT = "adopt"
    RESEND = "resend"
    STARTED = "started"
    STOPPED = "stopped"
    CONTINUED = "continued"
    NOT_STARTED = "not_started"
    EXIT = "exit"
    VANISH = "vanish"
    GIVE_UP = "give_up"
    ARCHIVE = "archive"
    RECALL = "recall"


class Rule(msgspec.Struct, frozen=True):
    """`leads`: from each state in which the event may happen to those in which the task may be then. `refusal`: the
    key of what is told in any other state, with the way out where there is one; "": nothing, for agents repeat
    themselves."""

    leads: dict[State, frozenset[State]]
    refusal: str = ""


_SAME: frozenset[State] = frozenset()
_NEW: frozenset[State] = frozenset({None})


def _rule(refusal: str, *leads: tuple[Iterable[State], Iterable[State]]) -> Rule:
    """Each of `leads`: from these states to those; `_SAME`: it stays where it is."""
    table = {state: frozenset(after) or frozenset({state}) for before, after in leads for state in before}
    return Rule(table, refusal)


RULES: dict[Event, Rule] = {
    # Requests of people.
    Event.SUBMIT: _rule("", (_NEW, QUEUED)),
    Event.EDIT: _rule(
        "cannot_edit",
        (QUEUED, _SAME),
        (ENDED, {TaskState.WAITING}),
    ),
    Event.HOLD: _rule("cannot_hold", (QUEUED, {TaskState.HELD})),
    Event.RELEASE: _rule("cannot_release", ({TaskState.HELD}, {TaskState.WAITING})),
    Event.REORDER: _rule("cannot_move", (QUEUED, _SAME)),
    Event.FORCE: _rule("cannot_start", (QUEUED, {TaskState.WAITING})),
    Event.PAUSE: _rule("cannot_pause", (ACTIVE, _SAME)),
    Event.RESUME: _rule("cannot_resume", (ACTIVE, _SAME)),
    Event.CANCEL: _rule("has_ended", (QUEUED, {TaskState.CANCELLED}), (ACTIVE, _SAME)),
    Event.RETRY: _rule("cannot_retry", (ENDED, {TaskState.WAITING})),
    Event.REMOVE: _rule("cannot_remove", (QUEUED | ENDED, {None})),
    # Results of the end of a predecessor: one less to wait for, or one that can never be met.
    Event.MEET: _rule("", (QUEUED, _SAME)),
    Event.THWART: _rule("", (QUEUED, {TaskState.CANCELLED})),
    # Decisions of the planner: of an allocation nothing is launched. A launch is also sent again if its node has not
    # seen it.
    Event.START: _rule("", ({TaskState.WAITING}, {TaskState.STARTING})),
    Event.GRANT: _rule("", ({TaskState.WAITING}, {TaskState.RUNNING})),
    # An admin says that an attempt which runs, and which the queue did not know, is this task's.
    Event.ADOPT: _rule("", (_NEW, {TaskState.RUNNING}), (QUEUED, {TaskState.RUNNING})),
    Event.RESEND: _rule("", ({TaskState.STARTING}, _SAME)),
    # Reports of agents: it runs; it is stopped; it goes on; its node could not start it; it is over; nobody there knows
    # of it any more.
    Event.STARTED: _rule("", ({TaskState.STARTING}, {TaskState.RUNNING})),
    Event.STOPPED: _rule("", ({TaskState.RUNNING}, {TaskState.PAUSED})),
    Event.CONTINUED: _rule("", ({TaskState.PAUSED}, {TaskState.RUNNING})),
    Event.NOT_STARTED: _rule("", ({TaskState.STARTING}, {TaskState.WAITING, TaskState.CANCELLED, TaskState.FAILED})),
    # An attempt that is over may be followed by another one, and the task is then never seen as ended.
    Event.EXIT: _rule("", (ACTIVE, ENDED | {TaskState.WAITING})),
    Event.VANISH: _rule("", (ACTIVE, {TaskState.LOST, TaskState.WAITING})),
    # Its node was given up by somebody.
    Event.GIVE_UP: _rule("", (ACTIVE, {TaskState.LOST, TaskState.WAITING})),
    # To the monthly files, and back.
    Event.ARCHIVE: _rule("cannot_archive", (ENDED, {None})),
    Event.RECALL: _rule("", (_NEW, ENDED)),
}


_ALLOWED = {event: frozenset(rule.leads) for event, rule in RULES.items()}


def allows(event: Event, state: State) -> bool:
    """May this happen to a task in this state?"""
    return state in _ALLOWED[event]


def check(event: Event, task_id: int, state: TaskState) -> None:
    """Raises ConflictError, with the refusal, where it may not."""
    rule = RULES[event]
    if state not in rule.leads:
        raise ConflictError(Message(rule.refusal, id=task_id, state=state))


def _transitions() -> dict[TaskState, frozenset[TaskState]]:
    leads = [(before, after) for rule in RULES.values() for before, afters in rule.leads.items() for after in afters]
    return {
        state: frozenset(after for before, after in leads if before is state and after not in (None, state))
        for state in TaskState
    }  # fmt: skip


TRANSITIONS: dict[TaskState, frozenset[TaskState]] = _transitions()
"""Each state, and those that a task may move to from it."""
