"""Giving up the attempts on a machine that will not come back, or over an account of it that nobody can log in to
again: people decide that they are over.

Pure. Only what cannot be reached is given up: an agent that answers is asked to end its tasks. An attempt that was
given up may be alive; should its agent come back, `orphaned` has it ended before the node takes anything.
"""

from __future__ import annotations

from master.core.attempts.dispatch import Dispatch
from master.core.attempts.orphaned_attempts import OrphanedAttempts
from master.core.nodes.accounts import OWN
from master.core.nodes.inventory import Node, NodeState
from master.core.nodes.nodes import Nodes
from master.core.planning.allocations import Allocations
from master.core.tasks.attempt import AskedEnd, Part, part_on
from master.core.tasks.task_table import TaskTable
from wire.errors import ConflictError, NotFoundError
from wire.message import Message, names

TOLD = 6
"""So many accounts are named in a line."""


class GivingUp:
    """Of whole nodes, and of single accounts there."""

    def __init__(
        self,
        task_table: TaskTable,
        nodes: Nodes,
        dispatch: Dispatch,
        allocations: Allocations,
        orphaned: OrphanedAttempts,
    ) -> None:
        self._task_table = task_table
        self._nodes = nodes
        self._dispatch = dispatch
        self._allocations = allocations
        self._orphaned = orphaned

    def node(self, name: str, by: str, now: float) -> list[int]:
        """End what runs on a node that will not come back: its tasks are lost, their GPUs free. The attempts that an
        account's agent there can still tell of run on. Gives the ids. Raises NotFoundError, ConflictError."""
        node = self._nodes.find(name)
        if _answers(node, OWN):
            raise ConflictError(Message("node_is_online", node=name))
        ended = [task_id for task_id in sorted(node.active) if self._task_table.tasks[task_id].is_allocation]
        for task_id in ended:
            self._allocations.end(self._task_table.tasks[task_id], AskedEnd("node_lost", by), now)
        silent = {login for login in _logins(node, self._task_table) if not _answers(node, login)}
        return sorted([*ended, *self._lose(node, silent, Message("given_up", node=name, by=by), by, now)])

    def account(self, name: str, account: str, by: str, now: float) -> list[int]:
        """Likewise what runs there over one account alone, while the node's other tasks run on. `account`: its name on
        the node. Raises NotFoundError, ConflictError."""
        node = self._nodes.find(name)
        login = self._known(node, account)
        if _answers(node, login):
            raise ConflictError(Message("account_answers", node=name, account=account))
        return self._lose(node, {login}, Message("account_given_up", node=name, account=account, by=by), by, now)

    def silent(self, name: str) -> set[str]:
        """The accounts besides the node's own of which something may be alive there, and whose agent cannot be asked.
        Raises NotFoundError."""
        node = self._nodes.find(name)
        return {login for login in _logins(node, self._task_table) - {OWN} if not _answers(node, login)}

    def _known(self, node: Node, account: str) -> str:
        """The account as parts have it. Raises NotFoundError where nothing there has to do with it."""
        own = node.spec.address.partition("@")[0]
        if account == own:
            return OWN
        known = {*_logins(node, self._task_table), *node.accounts.agents, *(node.accounts.logins or {}).values()} - {
            OWN
        }
        if account not in known:
            there = names(sorted({*known, own} - {""}), TOLD)
            raise NotFoundError(Message("unknown_account", node=node.name, account=account, accounts=there))
        return account

    def _lose(self, node: Node, logins: set[str], why: Message, by: str, now: float) -> list[int]:
        parts = _parts(node, self._task_table)
        lost = sorted(task_id for task_id, part in parts.items() if part.login in logins)
        for task_id in lost:
            task = self._task_table.tasks[task_id]
            asked = AskedEnd("node_lost", by)
            task.asked_end = asked if asked.outranks(task.asked_end) else task.asked_end
            self._dispatch.lost(task, parts[task_id], why, now)
        for login in logins:
            self._orphaned.give_up(node.name, login)
        return lost


def _answers(node: Node, login: str) -> bool:
    """Can the agent of this account say what became of its tasks?"""
    return node.state is NodeState.ONLINE if login == OWN else node.accounts.is_there(login)


def _logins(node: Node, task_table: TaskTable) -> set[str]:
    """The accounts of which something may be alive there."""
    left = {login for _, login in node.orphaned | node.unknown}
    return {*(part.login for part in _parts(node, task_table).values()), *left}


def _parts(node: Node, task_table: TaskTable) -> dict[int, Part]:
    """Return the parts that were started there, by task; of an allocation nothing was."""
    tasks = (task_table.tasks[task_id] for task_id in node.active)
    parts = {task.id: part_on(task.allocation, node.name) for task in tasks if not task.is_allocation}
    return {task_id: part for task_id, part in parts.items() if part is not None}
