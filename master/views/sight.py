"""The part of tasks that a viewer sees if they belong to other users, and of the users on nodes.

Until a user is added, everybody sees everything. From then on only its owner sees the values of a task's variables;
admins, and mentors of the owner, see their names; and only users who may read its log see quotes from it. If
conf.json's `privacy` is `own`, everybody else only sees that a task exists, its owner and state, its GPUs and since
when (`Depth.BARE`); and of a node not who else computes there. Nothing else of what is hidden influences a list, an
order, a search or a count.

Anybody who passes can read a screen on a wall: it shows of all tasks, its user's too, no command, path, line of a log
or reason (`Depth.WALL`), of nodes no address and nothing that somebody wrote or a machine said; if `privacy` is `own`,
no more than that tasks exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from enum import Enum, auto
from typing import Any

import msgspec

from master.core.tasks.arrays import WITH_LINE, said_of_rest, without_line
from master.core.tasks.attempt import Part
from master.core.tasks.nothing import NO_LIST, NO_MAPPING
from master.core.tasks.task import QUEUED, Task, give_reason
from wire.message import Message

HIDDEN = "…"
"""Replaces hidden texts."""


class Depth(Enum):
    """How much of a task is shown: all; of its variables the names; none of them, nor a line of its log; what may be
    shown on a wall; only that it exists: id, owner, state, GPUs and times, and of its allocation nodes and GPUs."""

    WHOLE = auto()
    NAMES = auto()
    PLAIN = auto()
    WALL = auto()
    BARE = auto()


class Sight(msgspec.Struct, frozen=True):
    """The view of one user. `mentored`: members of groups that this user mentors; `is_admin`: sees as a mentor of all;
    `sees_all`: nothing is hidden; `is_own`: `privacy` is `own`; `is_wall`: the viewer is a screen in a room, which
    anybody may read."""

    user: str | None = None
    mentored: frozenset[str] = frozenset()
    is_admin: bool = False
    sees_all: bool = False
    is_own: bool = False
    is_wall: bool = False

    @property
    def hides_others(self) -> bool:
        """Tell whether the viewer sees some tasks only in part."""
        return self.is_wall or (self.is_own and not self.is_admin and not self.sees_all)

    def knows(self, owner: str) -> bool:
        """Tell whether the viewer sees the tasks of this owner in full."""
        return not self.hides_others or owner == self.user or owner in self.mentored

    def depth(self, task: Task) -> Depth:
        """Return how much of the task the viewer sees."""
        if self.sees_all or task.owner == self.user:
            return Depth.WHOLE
        if self.hides_others and task.owner not in self.mentored:
            return Depth.BARE if self.is_own else Depth.WALL
        if self.is_admin or task.owner in self.mentored:
            return Depth.NAMES if task.variables else Depth.WHOLE
        return Depth.PLAIN if task.variables or _quotes_its_log(task) else Depth.WHOLE

    def veiled(self, task: Task) -> Task:
        """Return the task as the viewer sees it: the same one, or a copy."""
        return at_depth(task, self.depth(task))

    def searched(self, task: Task) -> Task:
        """Return the task for searches and orders: fields that the viewer may not see must not influence them."""
        return task if self.knows(task.owner) else self.veiled(task)

    def all_veiled(self, tasks: Sequence[Task]) -> Sequence[Task]:
        """Likewise of many. Mostly there is nothing to hide, and that is seen at once."""
        if self.sees_all or not (self.hides_others or _have_secrets(tasks)):
            return tasks
        return [at_depth(task, self.depth(task)) for task in tasks]

    def reads_logs_of(self, owner: str) -> bool:
        """Tell whether the viewer may read the logs of this owner's tasks."""
        return self.sees_all or self.is_admin or owner == self.user or owner in self.mentored

    def said(self, message: Message) -> Message:
        """Return the message for the viewer. If others' tasks are hidden, it leaves out who computes on a GPU, why a
        task could not be started, and when others' tasks are expected to end; it also leaves out lines of logs that the
        viewer may not read."""
        if message.key == WITH_LINE and (self.is_wall or not self.reads_logs_of(str(message.args["owner"]))):
            message = without_line(message)
        return _without_people(message) if self.hides_others else message

    def key(self, task: Task) -> tuple[Depth, bool]:
        """Of which tasks told to different people the words are the same."""
        return self.depth(task), self.hides_others and task.state in QUEUED


_ON_WALL = ("name", "project", "priority", "urgent", "nodes", "attempt", "array", "exit_code", "time_limit_s")
"""The further fields of a task on a wall where everybody sees all tasks: no command, path or address."""
EVERYTHING = Sight(sees_all=True)
"""Of who is alone."""


def at_depth(task: Task, depth: Depth) -> Task:
    """The task, or a copy of it with so much of it."""
    if depth is Depth.WHOLE:
        return task
    if depth in (Depth.BARE, Depth.WALL):
        return Task(
            **({name: getattr(task, name) for name in _ON_WALL} if depth is Depth.WALL else {}),
            id=task.id,
            command="",
            owner=task.owner,
            state=task.state,
            gpus=task.gpus,
            gpu_ids=task.gpu_ids,
            submitted_at=task.submitted_at,
            started_at=task.started_at,
            ended_at=task.ended_at,
            allocation=[Part(part.node, part.gpus) for part in task.allocation] or NO_LIST,
        )
    veiled = copy(task)
    veiled.variables = (dict.fromkeys(task.variables, HIDDEN) if depth is Depth.NAMES else {}) or NO_MAPPING
    if depth is Depth.PLAIN and _quotes_its_log(task):
        veiled.last_line = None
        if task.reason_key == WITH_LINE and (said := said_of_rest(task)) is not None:
            give_reason(veiled, without_line(said))
        veiled.earlier = [msgspec.structs.replace(attempt, last_line=None) for attempt in task.earlier] or NO_LIST
    return veiled


def _quotes_its_log(task: Task) -> bool:
    """Does it hold a line of its log, which is for those who may read that?"""
    is_quoted = task.last_line is not None or task.reason_key == WITH_LINE
    return is_quoted or any(attempt.last_line is not None for attempt in task.earlier)


def _have_secrets(tasks: Sequence[Task]) -> bool:
    for task in tasks:  # a generator takes three times as long
        if task.variables or task.last_line is not None or task.earlier or task.reason_key == WITH_LINE:
            return True
    return False


def _without_people(message: Message) -> Message:
    """The message without what names processes, their users, and what others' commands have said; and without when
    reserved room is expected to be free, which tells of the limits and the habits of who has it."""
    args = message.args
    if message.key == "gpu_used":
        return Message("gpu_used_by_others")
    if message.key == "have_some":
        return Message("others_have_some")
    if message.key == "task_process":
        return Message("one_task", id=args["task"])
    if message.key in ("resting", "account_rests", "sick", "set_aside"):
        return message.but(said=HIDDEN)
    if message.key == "kept_for_it_until":
        return Message("kept_for_it_after", node=args["node"], gpus=args["gpus"], tasks=args["tasks"])
    if message.key == "kept_for_another_until":
        return Message("kept_for_another_still", node=args["node"], gpus=args["gpus"], task=args["task"])
    if message.key == "would_pass":
        return Message("would_not_be_kept", task=args["task"])
    seen = {name: _value(value) for name, value in args.items()}
    return message if seen == args else message.but(**seen)


def _value(value: Any) -> Any:
    if isinstance(value, Message):
        return _without_people(value)
    return tuple(map(_value, value)) if isinstance(value, tuple) else value
