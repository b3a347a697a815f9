"""Attempts that run on nodes and of which the lab lost the records: each is left alone, and keeps its GPUs, until an
admin has adopted it as a task, ended it, or dismissed it: then it is left alone, and holds no GPU on which it is not
seen to compute.

Pure. An attempt counts as such only where the lab cannot have given it up: a task that is known keeps the launch ids of
its attempts, so what was cancelled, lost with its node or replaced is known, and is a remnant. Of what is not known it
may be one if it is of a time of which records were lost, or if its id was never given by this queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from master.core.attempts.agent_messages import kept_path
from master.core.attempts.exits import Seen
from master.core.effects import Kill
from master.core.nodes.accounts import OWN
from master.core.nodes.node import Node
from master.core.nodes.nodes import Nodes
from master.core.outcome import Pending
from master.core.tasks.task import FIRST_FOREIGN_ID, Task, TaskState, give_reason
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import Event, allows
from wire.errors import ConflictError, NotFoundError
from wire.message import Message
from wire.numbers import whole_number

PIECE = "unknown_attempts:"
"""With the name of a node: the piece of the state that tells of those there."""
LOST_BEFORE = "records_lost_before"
"""The piece of the state that says of which tasks records may have been lost: of those with an id below this one."""
UNKNOWN = "unknown_attempts"
"""The kind of the cordon of a node where nobody can say which GPUs they have."""
KEPT = 256
"""So many are listed of a node; one that says it has more takes nothing new."""
MOST_GPUS = 1024
"""A limit, because reports of a node go into the journal."""


class UnknownAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of them, as its agent tells it. `login`: the account whose agent that is; `since`: when it was first told, in
    seconds since the epoch, as `started_at` is, by the node's clock. `log_path`: as `kept_path` keeps it. `gpus`:
    indices; None where nobody knows. `ended_by`: who asked for its end; `dismissed_by`: who said that it is to hold
    nothing; `is_given_up`: with its node, so that it holds nothing and ends when its agent is heard again."""

    launch_id: str
    since: float
    login: str = OWN
    started_at: float | None = None
    pid: int = 0
    pid_start: int | None = None
    run_as: str = ""
    log_path: str = ""
    name: str = ""
    gpus: tuple[int, ...] | None = None
    ended_by: str = ""
    is_given_up: bool = False
    dismissed_by: str = ""

    @property
    def account(self) -> str:
        """As which it runs; "": as the node's own agent."""
        return self.run_as or self.login


class UnknownAttempts:
    """By node, and there by the account of the agent and the launch id."""

    def __init__(self, task_table: TaskTable, nodes: Nodes, pending: Pending) -> None:
        self._task_table = task_table
        self._nodes = nodes
        self._pending = pending
        self._lost_before = 0
        self._of: dict[str, dict[tuple[str, str], UnknownAttempt]] = {}
        self._surplus: dict[tuple[str, str], int] = {}
        """How many more an agent has than are listed."""

    def load(self, pieces: Mapping[str, msgspec.Raw]) -> None:
        """Take over what was written down."""
        raw = pieces.get(LOST_BEFORE)
        self._lost_before = 0 if raw is None else msgspec.json.decode(raw, type=int)
        for key, piece in pieces.items():
            if key.startswith(PIECE) and bytes(piece) != b"null":
                found = msgspec.json.decode(piece, type=list[UnknownAttempt])
                self._of[key[len(PIECE) :]] = {(one.login, one.launch_id): one for one in found}
        self.show()

    def records_were_lost(self) -> None:
        """Records were lost: any task with an id that was given until now may be unknown."""
        self._lost_before = self._task_table.next_id
        self._pending.piece(LOST_BEFORE, msgspec.Raw(msgspec.json.encode(self._lost_before)))

    def on(self, name: str) -> list[UnknownAttempt]:
        """Those on a node, the oldest first."""
        found = (one for one in self._of.get(name, {}).values() if not one.is_given_up)
        return sorted(found, key=lambda one: (one.started_at or one.since, one.launch_id))

    def find(self, name: str, launch_id: str, account: str | None = None) -> UnknownAttempt:
        """One on a node. The agents of several accounts may say that they have an attempt of one launch id, and one of
        them lies: then `account` has to say which is meant. Raises NotFoundError, ConflictError."""
        found = [one for one in self.on(name) if one.launch_id == launch_id and account in (None, one.account)]
        if not found:
            raise NotFoundError(Message("no_unknown_attempt", launch=launch_id, node=name))
        if len(found) > 1:
            accounts = tuple(one.account or '""' for one in found)  # as --account takes it
            raise ConflictError(Message("unknown_is_several", launch=launch_id, node=name, accounts=accounts))
        return found[0]

    def is_listed(self, name: str, launch_id: str, login: str = OWN) -> bool:
        """Tell whether it is one of them, as the agent of this account says."""
        return (login, launch_id) in self._of.get(name, {})

    def show(self) -> None:
        """Let every node hold what it should: some may have come, and some gone."""
        for name in [*self._of]:
            if self._nodes.get(name) is None:
                self._put(name, {})  # its agent tells it again if the node comes back
        for name in self._of:
            self._show(name)

    # -- what agents tell -------------------------------------------------------------------------------------

    def sift(self, name: str, unowned: list[Seen], now: float, login: str = OWN) -> list[Seen]:
        """The agent of this account has these, which no task has: the rest, without those of unknown origin."""
        node, known = self._nodes.get(name), self._of.get(name, {})
        if node is None:
            return unowned
        mine = [one for one in unowned if self._is_one(node, one, known.get((login, one.launch_id)), login)]
        mine.sort(key=lambda one: (login, one.launch_id) not in known)
        self._surplus[name, login] = max(0, len(mine) - KEPT)
        found = [_as_told(node, one, known.get((login, one.launch_id)), now, login) for one in mine[:KEPT]]
        kept = {key: one for key, one in known.items() if key[0] != login}
        after = {**kept, **{(login, one.launch_id): one for one in found}}
        for one in found:
            if one.ended_by:
                self._pending.effect(Kill(name, one.launch_id, login))
            if (login, one.launch_id) not in known:
                self._hold_its_task(one, name)
        self._settle(node, (one for key, one in known.items() if key not in after))
        self._put(name, after)
        told = {id(one) for one in mine}
        return [one for one in unowned if id(one) not in told]

    def started(self, name: str, launch_id: str, at: float, main: tuple[int, int | None], login: str = OWN) -> None:
        """One that was about to begin runs. `main`: its command's pid, and that one's start."""
        known = self._of.get(name, {})
        one = known.get((login, launch_id))
        if one is not None and one.started_at is None:
            self._change(name, replace(one, started_at=at, pid=main[0], pid_start=main[1]))

    def ended(self, name: str, launch_id: str, login: str = OWN) -> None:
        """It may be one of them that ended, as the agent of this account says."""
        node, known = self._nodes.get(name), self._of.get(name, {})
        one = known.get((login, launch_id))
        if one is not None:
            if node is not None:
                self._settle(node, [one])
            self._put(name, {key: other for key, other in known.items() if other is not one})

    # -- what admins decide -----------------------------------------------------------------------------------

    def end(self, name: str, launch_id: str, by: str, account: str | None = None) -> UnknownAttempt:
        """Have one ended; it keeps its GPUs until its agent says that it is over. `account`: as in `find`. Raises
        NotFoundError, ConflictError."""
        self._nodes.find(name)
        one = replace(self.find(name, launch_id, account), ended_by=by)
        self._change(name, one)
        self._pending.effect(Kill(name, launch_id, one.login))
        return one

    def dismiss(self, name: str, launch_id: str, by: str, account: str | None = None) -> UnknownAttempt:
        """Let one hold nothing, and leave it alone. `account`: as in `find`. Raises NotFoundError, ConflictError."""
        self._nodes.find(name)
        one = self.find(name, launch_id, account)
        if one.ended_by:
            raise ConflictError(Message("unknown_is_ending", launch=launch_id, by=one.ended_by))
        one = replace(one, dismissed_by=by)
        self._change(name, one)
        return one

    def give_up(self, name: str, login: str = OWN) -> None:
        """Nobody can tell when those of this account end, and they hold nothing any more; should their agent come back,
        they end before the node takes anything."""
        known = self._of.get(name, {})
        self._surplus.pop((name, login), None)
        after = {key: replace(one, is_given_up=True) if key[0] == login else one for key, one in known.items()}
        self._put(name, after)

    def release(self, name: str, one: UnknownAttempt) -> None:
        """It is a task's from now on."""
        known = self._of.get(name, {})
        self._put(name, {key: other for key, other in known.items() if key != (one.login, one.launch_id)})

    # -- within -----------------------------------------------------------------------------------------------

    def _is_one(self, node: Node, seen: Seen, known: UnknownAttempt | None, login: str) -> bool:
        if seen.exit is not None:
            return False
        if known is not None:
            return not known.is_given_up
        if (seen.launch_id, login) in node.orphaned:
            return False  # it was to end before, and its task may have been removed since
        task_id = task_of(seen.launch_id)
        task = None if task_id is None else self._task_table.tasks.get(task_id)
        if task is not None and any(part.launch_id == seen.launch_id for one in task.attempts for part in one.parts):
            return False
        if task_id is None or task_id >= FIRST_FOREIGN_ID:
            return self._lost_before > 0
        if task_id < self._lost_before:
            return True
        # The agent of a user's account could make up such ids, to hold GPUs.
        return login == OWN and task_id >= self._task_table.next_id

    def _hold_its_task(self, one: UnknownAttempt, name: str) -> None:
        """Of a task that waits a second attempt would run beside this one."""
        task = self._task_table.tasks.get(task_of(one.launch_id) or 0)
        if task is None or not may_be_of(self._nodes.find(name), one, task):
            return
        if task.state is TaskState.WAITING and allows(Event.HOLD, task.state):
            self._task_table.move(task, TaskState.HELD)
            give_reason(task, Message("runs_already", node=name, launch=one.launch_id))

    def _settle(self, node: Node, over: Iterable[UnknownAttempt]) -> None:
        """The GPUs of these are kept back until their memory is free, where samples tell of it."""
        for one in over:
            for gpu in () if one.is_given_up or one.dismissed_by else one.gpus or ():
                if gpu not in node.gpu_holders:
                    node.watch.released(gpu, task_of(one.launch_id) or 0)
        node.kept_back = {**node.watch.settling(), **node.kept_back}

    def _change(self, name: str, one: UnknownAttempt) -> None:
        self._put(name, {**self._of.get(name, {}), (one.login, one.launch_id): one})

    def _put(self, name: str, after: dict[tuple[str, str], UnknownAttempt]) -> None:
        if self._of.get(name, {}) != after:
            told = b"null" if not after else msgspec.json.encode(list(after.values()))
            self._pending.piece(PIECE + name, msgspec.Raw(told))
        if after:
            self._of[name] = after
        else:
            self._of.pop(name, None)
        self._show(name)

    def _show(self, name: str) -> None:
        node, there = self._nodes.get(name), self.on(name)
        if node is None:
            return
        unknown = {(one.launch_id, one.login) for one in there}
        dismissed = {(one.launch_id, one.login) for one in there if one.dismissed_by}
        there = [one for one in there if not one.dismissed_by]
        gpus = {
            gpu: Message("gpu_unknown_attempt", launch=one.launch_id, node=name)
            for one in there
            for gpu in one.gpus or ()
        }
        if (node.unknown, node.dismissed, node.unknown_gpus) != (unknown, dismissed, gpus):
            node.unknown, node.dismissed, node.unknown_gpus = unknown, dismissed, gpus
            node.count_free()
            self._pending.node_for_plan(name)
        for login in sorted({OWN, *node.accounts.cordons, *(one.login for one in there)}):
            count = sum(one.gpus is None and one.login == login for one in there) + self._surplus.get((name, login), 0)
            why = Message("unknown_attempts", count=count, node=name) if count else None
            self._nodes.cordon(name, UNKNOWN, why, login)


def may_be_of(node: Node, one: UnknownAttempt, task: Task) -> bool:
    """Whether it can be an attempt of this task, as its launch id says. The agent of a user's account could say so of
    any task; it is believed of those that run over its account alone."""
    return one.login in (OWN, node.accounts.of(task.owner))


def task_of(launch_id: str) -> int | None:
    """The id of the task for which a launch id was made, as it says itself; None where it says none."""
    return whole_number(launch_id.partition(".")[0])


def _as_told(node: Node, seen: Seen, known: UnknownAttempt | None, now: float, login: str) -> UnknownAttempt:
    gpus = gpus_of(node, seen.gpus)
    return UnknownAttempt(
        seen.launch_id,
        now if known is None else known.since,
        login,
        started_at=seen.started_at,
        pid=seen.pid,
        pid_start=seen.pid_start,
        run_as=seen.run_as if login == OWN else "",  # the agent of a user's account becomes nobody else
        log_path=kept_path(seen.log_path or seen.log),  # all of a node are written anew when one of them changes
        name=seen.name,
        gpus=known.gpus if gpus is None and known is not None else gpus,
        ended_by="" if known is None else known.ended_by,
        dismissed_by="" if known is None else known.dismissed_by,
    )


def gpus_of(node: Node, visible: str | None) -> tuple[int, ...] | None:
    """The GPUs that CUDA was told of, by number or by name; None where that cannot be said."""
    if visible is None:
        return None
    numbers = {report.uuid: gpu for gpu, report in node.watch.newest.items() if report.uuid}
    words = [word for word in visible.split(",") if word]
    by_number = {word: whole_number(word) for word in words}
    found = {numbers.get(word) if number is None else number for word, number in by_number.items()}
    known = {gpu for gpu in found if gpu is not None}
    return tuple(sorted(known)) if known == found and len(known) <= MOST_GPUS else None
