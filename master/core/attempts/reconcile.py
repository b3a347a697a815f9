"""An agent came back and says what it has: each attempt that was sent to its node is held against it.

Pure. Nothing is inferred that the agent cannot know: a launch is sent again only where its claim could be seen, else
the attempt is lost.
"""

from __future__ import annotations

from master.core.attempts.dispatch import Dispatch
from master.core.attempts.endings import Endings
from master.core.attempts.exits import Seen
from master.core.attempts.orphaned_attempts import OrphanedAttempts
from master.core.attempts.pausing import Pausing
from master.core.attempts.unproven import UnprovenAttempts
from master.core.effects import Kill, Start
from master.core.nodes.accounts import OWN
from master.core.nodes.nodes import Nodes
from master.core.outcome import Pending
from master.core.tasks.attempt import Part, part_on
from master.core.tasks.task import Task
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import Event, allows
from wire.message import Message


class Reconciliation:
    """The comparison of the agents' attempts with the task store."""

    def __init__(
        self,
        task_table: TaskTable,
        nodes: Nodes,
        dispatch: Dispatch,
        *,
        pausing: Pausing,
        endings: Endings,
        orphaned: OrphanedAttempts,
        unproven: UnprovenAttempts,
        pending: Pending,
    ) -> None:
        self._task_table = task_table
        self._nodes = nodes
        self._dispatch = dispatch
        self._pausing = pausing
        self._endings = endings
        self._orphaned = orphaned
        self._unproven = unproven
        self._pending = pending

    def reconcile(self, name: str, seen: list[Seen], now: float, login: str = OWN) -> None:
        """An agent, the node's own or that of an account, said what it has. Adopt what runs, take over what ended, send
        again what cannot have been claimed, give up what may have been lost with the machine, and end what nobody
        owns."""
        node = self._nodes.get(name)
        if node is None:
            return
        known = {one.launch_id: one for one in seen}
        for task_id in sorted(node.active):
            task = self._task_table.tasks[task_id]
            part = None if task.is_allocation else part_on(task.allocation, name)
            if part is not None and part.login == login:
                self._one(task, part, known.pop(part.launch_id, None), now)
        self._orphaned.end(name, list(known.values()), now, login)
        self._unproven.found(name, seen, login)

    def _one(self, task: Task, part: Part, found: Seen | None, now: float) -> None:
        if found is not None and found.exit is not None:
            self._dispatch.exited(part.node, found.exit, now, part.login)
        elif found is not None:
            self._alive(task, part, found, now)
        elif not self._claim_would_be_there(part):
            self._dispatch.lost(task, part, Message("claim_gone", node=part.node), now)
        elif not _may_be_sent(task, part):
            self._dispatch.lost(task, part, Message("no_record", node=part.node), now)
        elif task.is_ending:
            self._pending.effect(Kill(part.node, part.launch_id, part.login))
        else:
            self._pending.effect(Start(part.node, task))

    def _alive(self, task: Task, part: Part, found: Seen, now: float) -> None:
        if found.started_at is not None:
            self._dispatch.started(
                part.node,
                part.launch_id,
                found.started_at,
                now,
                pid=found.pid,
                pid_start=found.pid_start,
                run_as=found.run_as,
                log_path=found.log_path,
                login=part.login,
            )
            self._dispatch.log_grows(part.node, part.launch_id, found.log_bytes, found.log_limit, part.login)
            self._pausing.told(part.node, part.launch_id, stands=found.paused, found=True, login=part.login)
        if task.is_ending:
            self._pending.effect(Kill(part.node, part.launch_id, part.login))

    def _claim_would_be_there(self, part: Part) -> bool:
        node = self._nodes.get(part.node)
        facts = node.facts_of(part.login) if node is not None else None
        return facts is not None and (facts.boot_id, facts.state_id) == (part.boot_id, part.state_id)


def _may_be_sent(task: Task, part: Part) -> bool:
    """Can nothing of a part have begun? While others of its attempt run, it may not have been sent yet."""
    return allows(Event.RESEND, task.state) or (len(task.allocation) > 1 and not part.pid)
