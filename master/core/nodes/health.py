"""Nodes that are up and can start nothing: they rest for a while, and one that starts nothing at all is set aside.

Pure. The agent tells whose fault a refused launch was; `dispatch` decides what becomes of the task.
"""

from __future__ import annotations

from master.core.effects import Rest
from master.core.nodes.accounts import OWN, AccountAgent
from master.core.nodes.node import Node
from master.core.nodes.nodes import Nodes
from master.core.nodes.notes import SICK, Notes
from master.core.nodes.unstarted_tasks import UnstartedTasks
from master.core.outcome import Pending
from master.core.tasks.task import Task
from wire.errors import ConflictError
from wire.message import Message

NODES_TRIED = 3
"""A task that so many nodes could not start has failed."""
REST_S, LONGEST_REST_S = 2.0, 300.0
"""How long a node is let be that could not start something, and the longest; each rest is twice the one before."""
SICK_AFTER = 3
"""A node that could not start so many different tasks, and none in between, is set aside."""
RESTING = "resting"
"""The kind of the cordon of a node that is let be."""


class Health:
    """Launches that nodes refused, and what these say of the nodes."""

    def __init__(self, unstarted_tasks: UnstartedTasks, nodes: Nodes, notes: Notes, pending: Pending) -> None:
        self._unstarted_tasks = unstarted_tasks
        self._nodes = nodes
        self._notes = notes
        self._pending = pending

    def is_sick(self, name: str) -> bool:
        """Was it set aside because it starts nothing?"""
        node = self._nodes.get(name)
        return node is not None and SICK in node.cordons

    def is_the_tasks_own(self, task: Task) -> bool:
        """Is it the task that nodes cannot start? Not while they start no other one either (the disk of the whole lab
        may be full): then it waits, for more than the first few would follow it. Nor is it over the account of its
        owner, which is the same on all nodes: its home may be full."""
        tried = [entry for entry in task.unstarted if not entry.ran]
        if len(tried) < NODES_TRIED:
            return False
        well = [entry for entry in tried if not self.is_sick(entry.node) and not self._has_account(entry.node, task)]
        refused = {task_id for node in self._nodes.inventory.nodes.values() for task_id in node.faulted}
        return len(well) >= NODES_TRIED and len(refused | {task.id}) < NODES_TRIED

    def _has_account(self, name: str, task: Task) -> bool:
        node = self._nodes.get(name)
        return node is not None and node.accounts.of(task.owner) not in (None, OWN)

    def failed(self, name: str, task_id: int, why: str, login: str = OWN) -> None:
        """A node could not start a task. The node gets no tasks for a while: the next one would fare no better. If one
        account cannot start tasks (its home is full, say), that says nothing of the others."""
        node = self._nodes.get(name)
        if node is None:
            return  # its last task ended just now, and it was leaving
        if login != OWN:
            self._account_failed(node, login, task_id, why)
            return
        node.faulted[task_id] = why
        if RESTING not in node.cordons:
            seconds = min(REST_S * 2.0 ** min(node.rests, 16), LONGEST_REST_S)
            node.rests += 1
            self._nodes.cordon(name, RESTING, Message("resting", task=task_id, said=why, seconds=round(seconds)))
            self._pending.effect(Rest(name, seconds))
        if len(node.faulted) >= SICK_AFTER:
            self._notes.change(name, sick=str(Message("sick", count=SICK_AFTER, said=why)))
            self.rested(name)

    def _account_failed(self, node: Node, login: str, task_id: int, why: str) -> None:
        agent = node.accounts.agents.get(login)
        if agent is None or agent.resting is not None:
            return
        seconds = min(REST_S * 2.0 ** min(agent.rests, 16), LONGEST_REST_S)
        agent.rests += 1
        agent.resting = Message("account_rests", account=login, task=task_id, said=why, seconds=round(seconds))
        self._pending.node_for_plan(node.name)
        self._pending.effect(Rest(node.name, seconds, login))

    def rested(self, name: str, login: str = OWN) -> None:
        """A node, or an account of it, was let be for long enough."""
        if login == OWN:
            self._nodes.cordon(name, RESTING, None)
            return
        agent = self._agent(name, login)
        if agent is not None and agent.resting is not None:
            agent.resting = None
            self._pending.node_for_plan(name)

    def _agent(self, name: str, login: str) -> AccountAgent | None:
        node = self._nodes.get(name)
        return None if node is None else node.accounts.agents.get(login)

    def started(self, name: str, login: str = OWN) -> None:
        """A node has started something. Failures of launches that were sent earlier say nothing of it now."""
        node = self._nodes.inventory.nodes.get(name)
        if login != OWN:
            agent = self._agent(name, login)
            if agent is not None and agent.resting is None:
                agent.rests = 0
        elif node is not None and RESTING not in node.cordons:
            node.faulted, node.rests = {}, 0

    def resume(self, name: str) -> None:
        """Let a node take tasks again that was drained, or set aside because it started nothing, or rests for that
        reason. Raises NotFoundError, ConflictError."""
        node, note = self._nodes.find(name), self._notes.get(name)
        if note.drained is None and note.sick is None and RESTING not in node.cordons:
            raise ConflictError(Message("not_drained", node=name))
        self.rested(name)
        node.faulted, node.rests = {}, 0
        self._unstarted_tasks.forget(name)
        self._notes.change(name, drained=None, by="", at=0.0, sick=None)
