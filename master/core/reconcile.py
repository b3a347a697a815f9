"""An agent came back and says what it has: each attempt that was sent to its node is held against it.

Pure. Nothing is inferred that the agent cannot know: a launch is sent again only where its claim could be seen, else
the attempt is lost.
"""

from __future__ import annotations

from master.core.attempt import Seen
from master.core.book import Book
from master.core.dispatch import Dispatch
from master.core.effects import Kill, Start
from master.core.law import Event, allows
from master.core.nodes import Nodes
from master.core.outcome import Pending
from master.core.remnants import Remnants
from master.core.task import Launch, Task, TaskState
from wire.message import Message


class Reconciliation:
    """What the agents have, against what the book says."""

    def __init__(self, book: Book, nodes: Nodes, dispatch: Dispatch, remnants: Remnants, pending: Pending) -> None:
        self._book = book
        self._nodes = nodes
        self._dispatch = dispatch
        self._remnants = remnants
        self._pending = pending

    def reconcile(self, name: str, seen: list[Seen], now: float) -> None:
        """An agent said what it has. Adopt what runs, take over what ended, send again what cannot have been claimed,
        give up what may have been lost with the machine, and end what nobody owns."""
        node = self._nodes.get(name)
        if node is None:
            return
        known = {attempt.launch_id: attempt for attempt in seen}
        for task_id in sorted(node.active):
            task = self._book.tasks[task_id]
            if task.launch is not None:
                self._one(task, task.launch, known.pop(task.launch.launch_id, None), now)
        self._remnants.end(name, list(known.values()))

    def _one(self, task: Task, launch: Launch, attempt: Seen | None, now: float) -> None:
        if attempt is not None and attempt.exit is not None:
            self._dispatch.exited(launch.node, attempt.exit, now)
        elif attempt is not None:
            self._alive(task, launch, attempt, now)
        elif not self._claim_would_be_there(launch):
            self._book.end(task, TaskState.LOST, now, Message("claim_gone", node=launch.node))
        elif not allows(Event.RESEND, task.state):
            self._book.end(task, TaskState.LOST, now, Message("no_record", node=launch.node))
        elif task.cancel_requested:
            self._pending.effect(Kill(launch.node, launch.launch_id))
        else:
            self._pending.effect(Start(launch.node, task))

    def _alive(self, task: Task, launch: Launch, attempt: Seen, now: float) -> None:
        if attempt.started_at is not None:
            self._dispatch.started(
                launch.node, launch.launch_id, attempt.started_at, now, pid=attempt.pid, pid_start=attempt.pid_start
            )
            self._dispatch.log_grows(launch.node, launch.launch_id, attempt.log_bytes, attempt.log_limit)
        if task.cancel_requested:
            self._pending.effect(Kill(launch.node, launch.launch_id))

    def _claim_would_be_there(self, launch: Launch) -> bool:
        node = self._nodes.get(launch.node)
        facts = node.facts if node is not None else None
        return facts is not None and (facts.boot_id, facts.state_id) == (launch.boot_id, launch.state_id)
