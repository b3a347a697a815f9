"""An agent came back and says what it has: each attempt that was sent to its node is held against it.

Pure. Nothing is inferred that the agent cannot know: a launch is sent again only where its claim could be seen, else
the attempt is lost.
"""

from __future__ import annotations

from master.core.attempt import Part, part_on
from master.core.book import Book
from master.core.dispatch import Dispatch
from master.core.effects import Kill, Start
from master.core.exits import Seen
from master.core.law import Event, allows
from master.core.nodes import Nodes
from master.core.outcome import Pending
from master.core.remnants import Remnants
from master.core.task import Task, TaskState
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
        known = {one.launch_id: one for one in seen}
        for task_id in sorted(node.active):
            task = self._book.tasks[task_id]
            part = part_on(task.allocation, name)
            if part is not None:
                self._one(task, part, known.pop(part.launch_id, None), now)
        self._remnants.end(name, list(known.values()))

    def _one(self, task: Task, part: Part, found: Seen | None, now: float) -> None:
        if found is not None and found.exit is not None:
            self._dispatch.exited(part.node, found.exit, now)
        elif found is not None:
            self._alive(task, part, found, now)
        elif not self._claim_would_be_there(part):
            self._book.end(task, TaskState.LOST, now, Message("claim_gone", node=part.node))
        elif not allows(Event.RESEND, task.state):
            self._book.end(task, TaskState.LOST, now, Message("no_record", node=part.node))
        elif task.cancel_requested:
            self._pending.effect(Kill(part.node, part.launch_id))
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
            )
            self._dispatch.log_grows(part.node, part.launch_id, found.log_bytes, found.log_limit)
        if task.cancel_requested:
            self._pending.effect(Kill(part.node, part.launch_id))

    def _claim_would_be_there(self, part: Part) -> bool:
        node = self._nodes.get(part.node)
        facts = node.facts if node is not None else None
        return facts is not None and (facts.boot_id, facts.state_id) == (part.boot_id, part.state_id)
