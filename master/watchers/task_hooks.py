"""Run a command of the lab when tasks have started or ended: a consumer of the outbox for each of these hooks.

Owns which moves belong to a hook, and the line of JSON that its command reads for each. `deliveries` says when, and
`hook_command` how the command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from master.core.tasks.task import ENDED, Task, TaskState
from master.core.tasks.transitions import State
from master.durable.outbox import Event, Gap, Moved
from master.watchers.hook_command import HookCommand

STARTED, ENDED_HOOK = "task_started", "task_ended"


def _is_start(before: State, after: State) -> bool:
    return before is TaskState.STARTING and after is TaskState.RUNNING


def _is_end(before: State, after: State) -> bool:
    return after in ENDED and before not in ENDED


WANTED: dict[str, Callable[[State, State], bool]] = {STARTED: _is_start, ENDED_HOOK: _is_end}
"""By hook, which moves its command hears of."""
TOLD = ("name", "owner", "project", "attempt", "submitted_at", "started_at", "ended_at", "exit_code", "reason")
"""The fields of a task that a command reads: none that may hold a secret, as a command line and variables may."""


class TaskHook:
    """The command of one hook."""

    def __init__(self, event: str, command: HookCommand) -> None:
        self._event = event
        self._command = command
        self.wants = WANTED[event]

    async def deliver(self, events: Sequence[Event]) -> bool:
        """As `Consumer`: one run of the command, with a line for each event."""
        return await self._command.run(b"".join(map(self._line, events)))

    def _line(self, event: Event) -> bytes:
        said = gap(event) if isinstance(event, Gap) else self._said(event)
        return msgspec.json.encode(said) + b"\n"

    def _said(self, moved: Moved) -> dict[str, Any]:
        task = {"id": moved.task_id, "state": moved.after, **_told(moved.task)}
        return {"event": self._event, "id": moved.id, "task": task}


def gap(lost: Gap) -> dict[str, Any]:
    """Return the words for events that are lost to a consumer."""
    return {"event": "gap", "id": lost.id, "from": lost.first, "to": lost.last}


def _told(task: Task | None) -> dict[str, Any]:
    if task is None:
        return {}
    nodes = [part.node for part in task.allocation]
    return {**{key: getattr(task, key) for key in TOLD}, "nodes": nodes}
