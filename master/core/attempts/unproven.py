"""Attempts whose records were lost on their node, and of which nothing that lives can be proven to be theirs: they hold
what they have while processes live that may be, and their node takes nothing new. Where the command itself lives and
has become another account's, which its agent may not signal, the attempt holds what it has, and the node goes on. Where
the agent of a user's account says so, nothing new is started over that account, and others go on.

Pure. The agent says which processes may be theirs, each time that it connects and whenever it changes, so nothing of it
is kept over a restart.
"""

from __future__ import annotations

import msgspec

from master.core.attempts.dispatch import Dispatch
from master.core.attempts.exits import Seen
from master.core.nodes.accounts import OWN
from master.core.nodes.nodes import Nodes
from master.core.tasks.attempt import part_on
from master.core.tasks.task import ACTIVE, Task
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from wire.message import Message

UNPROVEN = "unproven"
"""The kind of the cordon."""
TOLD = 64
"""So many processes are named at most, however many attempts an agent speaks of."""


class Unproven(msgspec.Struct, frozen=True):
    """The processes that may be of an attempt, by the word of the agent of this account on this node."""

    node: str
    login: str
    pids: tuple[int, ...]


class UnprovenAttempts:
    """By launch id, also of attempts that no task has any more."""

    def __init__(self, task_table: TaskTable, nodes: Nodes, dispatch: Dispatch) -> None:
        self._task_table = task_table
        self._nodes = nodes
        self._dispatch = dispatch
        self._of: dict[str, Unproven] = {}

    @property
    def any(self) -> bool:
        """Are there some?"""
        return bool(self._of)

    def concerns(self, before: State, after: State) -> bool:
        """Attempts that are over."""
        return before in ACTIVE and after not in ACTIVE

    def moved(self, task: Task, _before: State, _after: State) -> None:
        """Forget the attempt: one that was given up may live on; its agent says so again when it comes back."""
        for part in task.allocation:
            self._forget(part.launch_id)

    def found(self, name: str, seen: list[Seen], login: str = OWN) -> None:
        """The agent of this account has these attempts, and these only."""
        told = {one.launch_id: one.unproven for one in seen if one.exit is None and one.unproven}
        for launch_id in [key for key, one in self._of.items() if (one.node, one.login) == (name, login)]:
            if launch_id not in told:
                self._forget(launch_id)
        for launch_id, pids in told.items():
            self.told(name, launch_id, pids, login)

    def told(self, name: str, launch_id: str, pids: tuple[int, ...], login: str = OWN) -> None:
        """These processes may be of the attempt, and none is proven to be; none: that is so no more. An agent has a
        word in what was sent to it alone, and in what it said itself that it has beyond that."""
        node, known = self._nodes.get(name), self._of.get(launch_id)
        was_sent = self._dispatch.find(name, launch_id, login) is not None
        if node is None or (known is not None and not was_sent and (known.node, known.login) != (name, login)):
            return
        if known is not None and (known.node, known.login) != (name, login):
            self._forget(launch_id)
            known = None
        is_left = (launch_id, login) in node.orphaned | node.unknown - node.dismissed
        if not pids or not (was_sent or is_left):
            self._forget(launch_id)
        else:
            self._of[launch_id] = Unproven(name, login, pids)
            self._changed(name, launch_id, login)

    def warning(self, task: Task) -> Message | None:
        """Return the warning about a task that cannot be ended for that."""
        found = self._part(task)
        if found is None:
            return None
        if _is_command(task, found):
            return Message("unreachable_command", node=found.node, pids=found.pids)
        return Message("unproven", node=found.node, pids=found.pids)

    def why_not_ended(self, task: Task) -> Message | None:
        """Why nothing of a task was signalled that is to end; None if its tree can be reached, as far as is known."""
        found = self._part(task)
        if found is None:
            return None
        if _is_command(task, found):
            return Message("cancel_unreachable_command", id=task.id, node=found.node, pids=found.pids)
        return Message("cancel_unproven", id=task.id, node=found.node, pids=found.pids)

    def tasks(self) -> list[int]:
        """Those of which there is something to say."""
        attempts = ((self._dispatch.find(one.node, key, one.login)) for key, one in self._of.items())
        return [task.id for task in attempts if task is not None]

    def _part(self, task: Task) -> Unproven | None:
        for part in task.allocation if self._of else ():
            found = self._of.get(part.launch_id)
            if found is not None and (found.node, found.login) == (part.node, part.login):
                return found
        return None

    def _forget(self, launch_id: str) -> None:
        known = self._of.pop(launch_id, None)
        if known is not None:
            self._changed(known.node, launch_id, known.login)

    def _changed(self, name: str, launch_id: str, login: str) -> None:
        task = self._dispatch.find(name, launch_id, login)
        if task is not None:
            self._task_table.changed(task)
        alike = (one for key, one in self._of.items() if (one.node, one.login) == (name, login) and self._closes(key))
        left = tuple(pid for one in alike for pid in one.pids)[:TOLD]
        self._nodes.cordon(name, UNPROVEN, Message("unproven_there", pids=left) if left else None, login)

    def _closes(self, launch_id: str) -> bool:
        task = self._dispatch.attempt(launch_id)
        return task is None or not _is_command(task, self._of[launch_id])


def _is_command(task: Task, found: Unproven) -> bool:
    """Is the command among the processes, by the pid that was written down when it began?"""
    part = part_on(task.allocation, found.node)
    return part is not None and part.pid in found.pids
