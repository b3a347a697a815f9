"""Orphaned attempts, alive on a node and owned by no task: each is ended, and the node takes nothing before it is dead.

Pure. An attempt that was given up may run on, on a GPU that the inventory calls free. The lab leaves alone what it may
merely have forgotten (`unknown_attempts`). The agent of a user's account speaks for that account only: nothing new is
started over it, and others go on. Its orphaned attempts hold only GPUs that the master gave to such an attempt and took
back because people gave it up.
"""

from __future__ import annotations

from master.core.attempts.exits import Seen
from master.core.attempts.unknown_attempts import UnknownAttempts
from master.core.effects import Ack, Kill
from master.core.nodes.accounts import OWN
from master.core.nodes.nodes import Nodes
from master.core.outcome import Pending
from master.core.tasks.attempt import Attempt, Part, sent_as
from master.core.tasks.task_table import TaskTable
from wire.message import Message
from wire.numbers import whole_number

REMNANTS = "remnants"
"""The kind of the cordon."""


GIVEN_UP = frozenset({"given_up", "account_given_up"})
"""The reasons of an end that people decided on, when nobody could hear of the attempt."""

LONGEST_ID = 15
"""Digits that the id of a task may have: what an agent says is no number of thousands."""


class OrphanedAttempts:
    """The orphaned attempts on all nodes; each node counts its own."""

    def __init__(self, task_table: TaskTable, nodes: Nodes, unknown: UnknownAttempts, pending: Pending) -> None:
        self._task_table = task_table
        self._nodes = nodes
        self._unknown = unknown
        self._pending = pending

    def end(self, name: str, unowned: list[Seen], now: float, login: str = OWN) -> None:
        """The agent, of this account, has these, and these only, beyond what it should: what runs is killed, unless
        nobody here may know what it is; what ended is forgotten."""
        node = self._nodes.get(name)
        if node is None:
            return  # its last task ended just now, and it was leaving
        unowned = self._unknown.sift(name, unowned, now, login)
        others = {one for one in node.orphaned if one[1] != login}
        node.orphaned = others | {(one.launch_id, login) for one in unowned if one.exit is None}
        for one in unowned:
            self._pending.effect((Ack if one.exit else Kill)(name, one.launch_id, login))
        self._show(name, login)

    def ended(self, name: str, launch_id: str, login: str = OWN) -> None:
        """One may have died, as the agent of this account says."""
        self._unknown.ended(name, launch_id, login)
        node = self._nodes.get(name)
        if node is not None and (launch_id, login) in node.orphaned:
            node.orphaned.discard((launch_id, login))
            self._show(name, login)

    def give_up(self, name: str, login: str = OWN) -> None:
        """Wait no more for the attempts that the agent of this account had: nobody can tell when they end. They are
        told again should that agent come back."""
        self._unknown.give_up(name, login)
        node = self._nodes.get(name)
        if node is not None and any(of == login for _, of in node.orphaned):
            node.orphaned = {one for one in node.orphaned if one[1] != login}
            self._show(name, login)

    def _show(self, name: str, login: str) -> None:
        node = self._nodes.get(name)
        of_all = set() if node is None else node.orphaned
        left = sum(of == login for _, of in of_all)
        self._nodes.cordon(name, REMNANTS, Message("remnants", count=left) if left else None, login)
        held: dict[int, Message] = {}
        for launch_id, of in sorted(of_all):
            task_id, part = self._given_up(name, launch_id, of)
            if part is not None:
                held.update(dict.fromkeys(part.gpus, Message("gpu_left", task=task_id)))
        self._nodes.hold_left(name, held)

    def _given_up(self, name: str, launch_id: str, login: str) -> tuple[int, Part | None]:
        """The task, and the part that was sent to this account and given up; an end that its agent told, or let us
        conclude, gave back what it held for good."""
        task = self._task_table.tasks.get(_task_of(launch_id)) if login != OWN else None
        for attempt in () if task is None else task.attempts:
            part = sent_as(attempt.parts, launch_id)
            if part is not None and (part.node, part.login) == (name, login) and _was_given_up(attempt):
                return (0 if task is None else task.id), part
        return 0, None


def _task_of(launch_id: str) -> int:
    """The id of the task whose attempt may have this launch id; 0 if none can."""
    return whole_number(launch_id.partition(".")[0], LONGEST_ID) or 0


def _was_given_up(attempt: Attempt) -> bool:
    asked = attempt.asked_end
    return attempt.reason_key in GIVEN_UP or (asked is not None and asked.why == "node_lost")
