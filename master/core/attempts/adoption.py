"""An attempt of unknown origin becomes a task again: an admin has said so.

Pure. Unknown facts are not made up: its command, and its request besides GPUs. Where the queue still
has the task, in the queue, it is that task that runs.
"""

from __future__ import annotations

from master.core.attempts.agent_messages import kept_path
from master.core.attempts.dispatch import Dispatch
from master.core.attempts.unknown_attempts import UnknownAttempt, UnknownAttempts, may_be_of, task_of
from master.core.nodes.node import Node
from master.core.nodes.node_clock import sane
from master.core.nodes.nodes import Nodes
from master.core.people.people import People
from master.core.tasks.attempt import Part
from master.core.tasks.dependencies import Dependencies
from master.core.tasks.task import Task, TaskState
from master.core.tasks.task_log import is_account
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import Event, allows
from wire.errors import ConflictError
from wire.message import Message, ids
from wire.numbers import whole_number

COMMAND = ["(command unknown)"]
"""The command of a task whose command nobody knows; no program has this name."""
TOLD = 6


class Adoption:
    """Of the attempts of unknown origin."""

    def __init__(
        self,
        task_table: TaskTable,
        nodes: Nodes,
        dispatch: Dispatch,
        unknown: UnknownAttempts,
        *,
        dependencies: Dependencies,
        people: People,
    ) -> None:
        self._task_table = task_table
        self._nodes = nodes
        self._dispatch = dispatch
        self._unknown = unknown
        self._dependencies = dependencies
        self._people = people

    def adopt(
        self,
        name: str,
        launch_id: str,
        gpus: list[int] | None,
        *,
        by: str,
        now: float,
        log_folder: str,
        owner: str | None = None,
        account: str | None = None,
        is_archived: bool = False,
    ) -> Task:
        """The task that it is from now on. `gpus`: which it has, where nobody knows; `owner`: the user whose task it
        is, None for the one whose account it has; `account`: as which it runs, where agents of several accounts say
        that they have it; `is_archived`: the monthly files hold a task of its id. Raises
        NotFoundError, ConflictError."""
        named = None if owner is None else self._people.find(owner).name
        node = self._nodes.find(name)
        one = self._unknown.find(name, launch_id, account)
        held = self._gpus(node, one, gpus)
        part = self._part(node, one, held)
        started_at = sane(one.started_at or now, 0.0, now, self._nodes.clock_of(name))
        task = self._queued(node, one, part)
        if task is not None:
            if named not in (None, task.owner):
                raise ConflictError(Message("unknown_has_owner", launch=launch_id, id=task.id, owner=task.owner))
            self._unknown.release(name, one)
            self._dependencies.drop(task)
            task.attempt, task.allocation, task.started_at = max(task.attempt + 1, _number(one)), [part], started_at
            task.forced, task.over_quota, task.not_before = False, False, None
            self._task_table.move(task, TaskState.RUNNING)
            return task
        task_id = task_of(launch_id) or 0
        is_free = 0 < task_id < self._task_table.next_id and task_id not in self._task_table.tasks and not is_archived
        task = Task(
            id=task_id if is_free else 0,
            command=COMMAND,
            name=one.name,
            owner=named or self._owner(node, one, by),
            state=TaskState.RUNNING,
            gpus=len(held),
            log_path=_log(one, log_folder),
            attempt=_number(one),
            submitted_at=started_at,
            started_at=started_at,
            allocation=[part],
        )
        self._unknown.release(name, one)
        self._task_table.enter(task)
        return task

    def _gpus(self, node: Node, one: UnknownAttempt, told: list[int] | None) -> list[int]:
        if one.ended_by:
            raise ConflictError(Message("unknown_is_ending", launch=one.launch_id, by=one.ended_by))
        if one.started_at is None or not one.pid:
            raise ConflictError(Message("unknown_not_begun", launch=one.launch_id, node=node.name))
        if self._dispatch.attempt(one.launch_id) is not None:
            raise ConflictError(Message("unknown_is_known", launch=one.launch_id))
        if one.gpus is None and told is None:
            raise ConflictError(Message("unknown_gpus", launch=one.launch_id, node=node.name))
        gpus = sorted(set(told or ())) if one.gpus is None else list(one.gpus)
        count = len(node.spec.gpu_models)
        for gpu in gpus:
            if gpu >= count:
                raise ConflictError(Message("no_gpu", node=node.name, gpu=gpu, count=count))
            if holders := node.gpu_holders.get(gpu):
                raise ConflictError(
                    Message("unknown_gpu_held", gpu=gpu, node=node.name, tasks=ids(sorted(holders), TOLD))
                )
        return gpus

    def _part(self, node: Node, one: UnknownAttempt, gpus: list[int]) -> Part:
        facts = node.facts_of(one.login)
        if facts is None:
            raise ConflictError(Message("unknown_away", node=node.name))
        return Part(
            node.name,
            gpus,
            one.launch_id,
            facts.boot_id,
            facts.state_id,
            node.address_of(one.login),
            facts.machine,
            one.pid,
            one.pid_start,
            one.run_as if is_account(one.run_as) else "",
            account=facts.account,
            login=one.login,
        )

    def _queued(self, node: Node, one: UnknownAttempt, part: Part) -> Task | None:
        """The task of which it is an attempt, if it still waits and asks for what one part has."""
        task = self._task_table.tasks.get(task_of(one.launch_id) or 0)
        if task is None or not allows(Event.ADOPT, task.state) or not may_be_of(node, one, task):
            return None
        is_whole = task.nodes == 1 and task.within is None and not task.is_allocation and not task.share
        return task if is_whole and not (task.gpus and not part.gpus) else None

    def _owner(self, node: Node, one: UnknownAttempt, by: str) -> str:
        """Return the user of the account that it runs as, or the admin who adopts it if that account is no user's."""
        known = {user.name for user in self._people.users.values()}
        if one.run_as in known:
            return one.run_as
        theirs = sorted(owner for owner, login in (node.accounts.logins or {}).items() if login == one.login)
        return theirs[0] if one.login and len(theirs) == 1 and theirs[0] in known else by


def _number(one: UnknownAttempt) -> int:
    """Which attempt of its task it is, as its launch id says."""
    number = whole_number(one.launch_id.partition(".")[2].partition(".")[0], len("999999"))
    return 1 if number is None else number


def _log(one: UnknownAttempt, folder: str) -> str:
    """Where its log lies, if nobody placed it; a node is believed nothing else: what it names is read."""
    file = f"{task_of(one.launch_id) or 0}.log"
    account = one.run_as or one.login
    owners = f"{folder}/{account}/{file}"
    return owners if is_account(account) and one.log_path == kept_path(owners) else f"{folder}/{file}"
