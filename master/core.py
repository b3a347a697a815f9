"""The only owner of state: what clients and agents say comes in, whole changes and effects go out.

Pure: no I/O, no clock; `now` (seconds since the epoch) is an argument. Every method first checks, then changes, so an
error leaves nothing half done. What was changed is collected until the engine takes it (`take_outcome`): one Change
for the journal and the effects that may happen only once that Change is durable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from copy import copy

import msgspec

from master.backlog import Backlog, order_of
from master.inventory import Facts, Inventory, NodeSpec, NodeState, request_of
from master.scheduler import explain, plan
from master.task import (
    ACTIVE,
    ENDED,
    QUEUED,
    After,
    Allocation,
    Change,
    Launch,
    Task,
    TaskState,
)
from wire.errors import BadRequestError, ConflictError, ImpossibleError, LimitError, NotFoundError

ANSWERS_KEPT = 100_000
SMALLEST_GAP = 1e-6
"""Between two positions; below it the queue is numbered anew."""


class Start(msgspec.Struct, frozen=True):
    """Effect: send this attempt to its node."""

    node: str
    task: Task


class Kill(msgspec.Struct, frozen=True):
    """Effect: end this attempt on its node."""

    node: str
    launch_id: str


class Ack(msgspec.Struct, frozen=True):
    """Effect: the node may forget this attempt."""

    node: str
    launch_id: str


Effect = Start | Kill | Ack


class Exit(msgspec.Struct, frozen=True):
    """How an attempt ended, as the agent tells it; `cause` is one of wire.agent.CAUSES."""

    launch_id: str
    cause: str
    at: float
    code: int | None = None
    error: str = ""
    started_at: float | None = None


class Seen(msgspec.Struct, frozen=True):
    """One attempt in an agent's inventory: `exit` is set if it ended, else it runs since `started_at` (None: is
    about to)."""

    launch_id: str
    started_at: float | None = None
    exit: Exit | None = None


class Outcome(msgspec.Struct):
    """What one event, or several, did."""

    change: Change
    effects: list[Effect]
    nodes: set[str]


class Core:
    """The state and everything that can happen to it.

    `new_launch_id(task_id, attempt)` makes an id that was never used before; it is passed in: chance is not pure.
    """

    def __init__(
        self, specs: tuple[NodeSpec, ...], new_launch_id: Callable[[int, int], str], *, waiting_limit: int
    ) -> None:
        self.tasks: dict[int, Task] = {}
        self.answered: dict[str, msgspec.Raw] = {}
        self.inventory = Inventory(specs)
        self.backlog = Backlog()
        self.counts: Counter[TaskState] = Counter()
        self.next_id = 1
        self.plan_needed = False
        self._new_launch_id = new_launch_id
        self._waiting_limit = waiting_limit
        self._successors: dict[int, set[int]] = {}
        self._by_launch: dict[str, int] = {}
        self._dirty: dict[int, Task] = {}
        self._gone: list[int] = []
        self._new_answers: dict[str, msgspec.Raw] = {}
        self._effects: list[Effect] = []
        self._dirty_nodes: set[str] = set()
        self._queue: list[Task] | None = None

    # -- loading and handing out ------------------------------------------------------------------------------

    def load(self, tasks: dict[int, Task], answered: dict[str, msgspec.Raw], next_id: int) -> None:
        """Take over what the store found. Called once, before any event."""
        self.tasks = tasks
        self._queue = None
        self.answered = answered
        self.next_id = next_id
        for task in tasks.values():
            self.counts[task.state] += 1
            if task.state in ACTIVE:
                self.inventory.take(task)
                if task.launch:
                    self._by_launch[task.launch.launch_id] = task.id
            elif task.state in QUEUED:
                self._link_predecessors(task)
                self._file(task)
        for task in list(tasks.values()):
            if task.state in QUEUED and task.waits_for:
                self._settle_predecessors(task, task.submitted_at)

    def take_outcome(self) -> Outcome | None:
        """What happened since the last call, or None if nothing did."""
        if not (self._dirty or self._gone or self._new_answers or self._effects or self._dirty_nodes):
            return None
        change = Change(tasks=list(self._dirty.values()), gone=self._gone, answered=self._new_answers)
        outcome = Outcome(change, self._effects, self._dirty_nodes)
        self._dirty, self._gone, self._new_answers, self._effects, self._dirty_nodes = {}, [], {}, [], set()
        return outcome

    def remember_answer(self, request_id: str, result: msgspec.Raw) -> None:
        """Keep what a request got, so that its retry gets the same. The oldest beyond ANSWERS_KEPT are forgotten."""
        self.answered[request_id] = result
        self._new_answers[request_id] = result
        if len(self.answered) > ANSWERS_KEPT:
            del self.answered[next(iter(self.answered))]

    def find(self, task_id: int) -> Task:
        """The task, or NotFoundError."""
        task = self.tasks.get(task_id)
        if task is None:
            raise NotFoundError(f"there is no task {task_id}; `muster queue --all` lists all")
        return task

    def reason(self, task: Task) -> str | None:
        """Why it waits, or what there is to say of its end."""
        if task.state is TaskState.HELD:
            return f"held: release it with `muster release {task.id}`"
        if task.state is not TaskState.WAITING:
            return task.reason
        if task.waits_for:
            words = {"ok": "to succeed", "fail": "to fail", "any": "to end"}
            return "waits for " + ", ".join(f"task {after.id} {words[after.on]}" for after in task.waits_for)
        return explain(request_of(task), self.inventory)

    def queue(self) -> list[Task]:
        """The waiting and held tasks, the next one first. Sorted once for all who ask between two changes."""
        if self._queue is None:
            self._queue = sorted((task for task in self.tasks.values() if task.state in QUEUED), key=order_of)
        return self._queue

    def active(self) -> list[Task]:
        """The tasks that may be alive on a node, the longest running first, those about to start last."""
        ids = set().union(*(node.active for node in self.inventory.nodes.values()))
        return sorted(
            (self.tasks[task_id] for task_id in ids), key=lambda task: (task.started_at or float("inf"), task.id)
        )

    def oldest_ended(self, keep: int) -> list[Task]:
        """The ended tasks beyond the `keep` newest, oldest first."""
        surplus = sum(self.counts[state] for state in ENDED) - keep
        if surplus <= 0:
            return []
        ended = (task for task in self.tasks.values() if task.state in ENDED)
        return sorted(ended, key=lambda task: (task.ended_at or 0.0, task.id))[:surplus]

    # -- what clients ask -------------------------------------------------------------------------------------

    def submit(self, drafts: list[Task], now: float) -> list[Task]:
        """File new tasks: all of them or, with an error, none. Ids are given here."""
        waiting = self.counts[TaskState.WAITING] + self.counts[TaskState.HELD]
        if waiting + len(drafts) > self._waiting_limit:
            raise LimitError(
                f"{waiting} tasks wait already and limits.waiting_tasks is {self._waiting_limit}: wait, or raise it"
            )
        checked = None
        for draft in drafts:
            shape = (request_of(draft), draft.after)
            if shape != checked:
                self._check_possible(draft)
                self._check_predecessors(draft)
                checked = shape
        for draft in drafts:
            draft.id = self.next_id
            draft.submitted_at = now
            self.next_id += 1
            self.tasks[draft.id] = draft
            self.counts[draft.state] += 1
            if draft.after:
                self._await_predecessors(draft, now)
            self._file(draft)
            self._touch(draft)
        return drafts

    def submit_many(self, draft: Task, commands: list[str], log_path: Callable[[int], str], now: float) -> list[Task]:
        """File one task per command, all else as in `draft`."""
        drafts = []
        for number, command in enumerate(commands, self.next_id):
            task = copy(draft)
            task.command = command
            task.log_path = log_path(number)
            drafts.append(task)
        return self.submit(drafts, now)

    def cancel(self, task_id: int, now: float, reason: str | None = None) -> bool:
        """Cancel. True: it was still waiting and is ended; False: its node was told and will report the end."""
        task = self.find(task_id)
        if task.state in ENDED:
            raise ConflictError(f"task {task_id} has already ended ({task.state})")
        if task.state in QUEUED:
            self._end(task, TaskState.CANCELLED, now, reason)
            return True
        if not task.cancel_requested:
            task.cancel_requested = True
            self._touch(task)
        if task.launch:
            self._effects.append(Kill(task.launch.node, task.launch.launch_id))
        return False

    def edit(self, edited: Task, now: float) -> Task:
        """Replace a queued task by its edited copy; an ended one queues again with it."""
        task = self.find(edited.id)
        self._refuse_active(task, "edited", "cancel it first, or submit a new one")
        self._check_possible(edited)
        after_changed = edited.after != task.after
        if after_changed:
            self._check_predecessors(edited)
        if task.state in ENDED:
            self._queue_again(task)
        elif after_changed:
            self._unlink_predecessors(task)
        for name in EDITABLE:
            setattr(task, name, getattr(edited, name))
        if after_changed:
            self._await_predecessors(task, now)
        self._file(task)
        self._touch(task)
        return task

    def retry(self, task_id: int) -> Task:
        """Queue an ended task again: a new attempt of the same task."""
        task = self.find(task_id)
        if task.state not in ENDED:
            raise ConflictError(f"task {task_id} is {task.state}; only an ended one can be tried again")
        self._check_possible(task)
        self._queue_again(task)
        self._file(task)
        self._touch(task)
        return task

    def remove(self, task_id: int, now: float, *, successors: bool = False) -> list[int]:
        """Forget a task that waits or has ended; with `successors` also all that wait for it, directly or not."""
        task = self.find(task_id)
        self._refuse_active(task, "removed", "cancel it first")
        doomed = [task_id]
        if successors:
            for doomed_id in doomed:
                doomed += sorted(self._successors.get(doomed_id, set()) - set(doomed))
        for doomed_id in reversed(doomed):
            self._forget(self.tasks[doomed_id], now)
        return doomed

    def drop_archived(self, task_ids: Iterable[int]) -> None:
        """Forget ended tasks that were moved to the monthly files."""
        for task_id in task_ids:
            task = self.tasks.pop(task_id)
            self.counts[task.state] -= 1
            self._dirty.pop(task_id, None)
            self._gone.append(task_id)

    def hold(self, task_id: int) -> Task:
        """Keep a waiting task from starting until it is released."""
        task = self.find(task_id)
        if task.state not in QUEUED:
            raise ConflictError(f"task {task_id} is {task.state}; only a waiting one can be held")
        if task.state is TaskState.WAITING:
            self._move(task, TaskState.HELD)
            self.backlog.discard(task_id)
        return task

    def release(self, task_id: int) -> Task:
        """Let a held task wait again."""
        task = self.find(task_id)
        if task.state is not TaskState.HELD:
            raise ConflictError(f"task {task_id} is {task.state}, not held")
        self._move(task, TaskState.WAITING)
        self._file(task)
        return task

    def force(self, task_id: int) -> Task:
        """Start a queued task as soon as it fits: before all others, whatever holds it or comes before it."""
        task = self.find(task_id)
        if task.state not in QUEUED:
            raise ConflictError(f"task {task_id} is {task.state}; only a waiting one can be started")
        self._unlink_predecessors(task)
        if task.state is TaskState.HELD:
            self._move(task, TaskState.WAITING)
        task.forced = True
        self._file(task)
        self._touch(task)
        return task

    def move(self, task_id: int, position: int) -> Task:
        """Give a queued task the place `position` (1: next) in the queue. Priority is not changed by it: a place that
        belongs to another priority is refused."""
        task = self.find(task_id)
        if task.state not in QUEUED:
            raise ConflictError(f"task {task_id} is {task.state}; only a waiting one can be moved")
        others = [other for other in self.queue() if other.id != task_id]
        index = min(max(position, 1), len(others) + 1) - 1
        rank = order_of(task)[:3]
        before = others[index - 1] if index else None
        behind = others[index] if index < len(others) else None
        if (before and order_of(before)[:3] > rank) or (behind and order_of(behind)[:3] < rank):
            raise ConflictError(
                f"place {position} belongs to tasks of another priority than {task.priority}: "
                f"change it first with `muster edit {task_id} priority=N`"
            )
        low = order_of(before)[3] if before and order_of(before)[:3] == rank else None
        high = order_of(behind)[3] if behind and order_of(behind)[:3] == rank else None
        task.position = _between(low, high, task)
        self._touch(task)
        self._file(task)
        if low is not None and high is not None and high - low < SMALLEST_GAP:
            self._renumber(rank)
        return task

    # -- what the planner decides -----------------------------------------------------------------------------

    def plan(self) -> int:
        """Start all that fits. The number of tasks started."""
        self.plan_needed = False
        placements = plan(self.backlog, self.inventory)
        for placement in placements:
            self._start(self.tasks[placement.task_id], Allocation(placement.node, placement.gpus))
        return len(placements)

    def _start(self, task: Task, allocation: Allocation) -> None:
        node = self.inventory.nodes[allocation.node]
        if node.facts is None:
            raise ValueError(f"{node.name} is online and has not said what it is")
        task.attempt += 1
        launch_id = self._new_launch_id(task.id, task.attempt)
        task.launch = Launch(launch_id, node.name, node.facts.boot_id, node.facts.state_id)
        task.allocation = [allocation]
        task.forced = False
        self._move(task, TaskState.STARTING)
        self.inventory.take(task)
        self._by_launch[launch_id] = task.id
        self._dirty_nodes.add(node.name)
        self._effects.append(Start(node.name, task))

    # -- what agents tell -------------------------------------------------------------------------------------

    def node_state(self, name: str, state: NodeState, reason: str | None = None, facts: Facts | None = None) -> None:
        """The link to a node changed. Its tasks keep their GPUs whatever happens to the link."""
        node = self.inventory.nodes[name]
        if (node.state, node.reason) != (state, reason) or facts is not None:
            node.state, node.reason = state, reason
            node.facts = facts or node.facts
            self._dirty_nodes.add(name)
            self.plan_needed = True

    def node_load(self, name: str, load: list[float] | None) -> None:
        """The node's load averages. Not worth a record, nor a notification: samples tell whoever listens."""
        self.inventory.nodes[name].load = load

    def reconcile(self, name: str, seen: list[Seen], now: float) -> None:
        """An agent said what it has. Adopt what runs, take over what ended, send again what cannot have been claimed,
        give up what may have been lost with the machine, and end what nobody owns."""
        known = {attempt.launch_id: attempt for attempt in seen}
        for task_id in sorted(self.inventory.node_for_ledger(name).active):
            task = self.tasks[task_id]
            if task.launch is not None:
                self._reconcile_one(task, task.launch, known.pop(task.launch.launch_id, None), now)
        for attempt in known.values():
            verdict = Ack if attempt.exit else Kill
            self._effects.append(verdict(name, attempt.launch_id))

    def _reconcile_one(self, task: Task, launch: Launch, attempt: Seen | None, now: float) -> None:
        if attempt is not None and attempt.exit is not None:
            self.exited(launch.node, attempt.exit, now)
        elif attempt is not None:
            if attempt.started_at is not None:
                self.started(launch.launch_id, attempt.started_at)
            if task.cancel_requested:
                self._effects.append(Kill(launch.node, launch.launch_id))
        elif not self._claim_would_be_there(launch):
            self._end(
                task,
                TaskState.LOST,
                now,
                f"node_rebooted: {launch.node} restarted, or its state folder was replaced, during the attempt",
            )
        elif task.state is not TaskState.STARTING:
            self._end(task, TaskState.LOST, now, f"the agent on {launch.node} has no record of it any more")
        elif task.cancel_requested:
            self._effects.append(Kill(launch.node, launch.launch_id))
        else:
            self._effects.append(Start(launch.node, task))

    def _claim_would_be_there(self, launch: Launch) -> bool:
        facts = self.inventory.nodes[launch.node].facts
        return facts is not None and (facts.boot_id, facts.state_id) == (launch.boot_id, launch.state_id)

    def started(self, launch_id: str, at: float) -> None:
        """The attempt runs. Told again after a reconnect: then nothing changes."""
        task = self._of_launch(launch_id)
        if task is not None and task.state is TaskState.STARTING:
            task.started_at = at
            self._move(task, TaskState.RUNNING)

    def exited(self, node: str, exit_: Exit, now: float) -> None:
        """The attempt is over and its tree is dead. An unknown one is only acknowledged."""
        task = self._of_launch(exit_.launch_id)
        if task is not None:
            state, reason = _verdict(exit_)
            task.started_at = exit_.started_at if exit_.started_at is not None else task.started_at
            task.exit_code = exit_.code
            self._end(task, state, exit_.at or now, reason)
        self._effects.append(Ack(node, exit_.launch_id))

    def _of_launch(self, launch_id: str) -> Task | None:
        task_id = self._by_launch.get(launch_id)
        return None if task_id is None else self.tasks[task_id]

    # -- the mechanics ----------------------------------------------------------------------------------------

    def _touch(self, task: Task) -> None:
        self._dirty[task.id] = task
        self._queue = None
        if task.state in QUEUED:
            self.plan_needed = True

    def _move(self, task: Task, to: TaskState) -> None:
        before = task.state
        task.move(to)
        self.counts[before] -= 1
        self.counts[to] += 1
        self._touch(task)

    def _file(self, task: Task) -> None:
        if task.state is TaskState.WAITING and not task.waits_for:
            self.backlog.add(task)
            self.plan_needed = True

    def _end(self, task: Task, state: TaskState, now: float, reason: str | None) -> None:
        if task.state in ACTIVE:
            self.inventory.give_back(task)
            self._dirty_nodes.update(part.node for part in task.allocation)
            if task.launch:
                self._by_launch.pop(task.launch.launch_id, None)
            self.plan_needed = True
        else:
            self.backlog.discard(task.id)
            self._unlink_predecessors(task)
        task.ended_at = now
        task.reason = reason
        self._move(task, state)
        self._settle_successors(task, now)

    def _queue_again(self, task: Task) -> None:
        self._move(task, TaskState.WAITING)
        task.started_at = task.ended_at = task.exit_code = task.reason = task.launch = None
        task.allocation = []
        task.cancel_requested = task.forced = False

    def _forget(self, task: Task, now: float) -> None:
        self.backlog.discard(task.id)
        self._unlink_predecessors(task)
        for successor_id in sorted(self._successors.pop(task.id, ())):
            successor = self.tasks[successor_id]
            conditions = {after.on for after in successor.waits_for if after.id == task.id}
            if conditions <= {"any"}:
                self._met(successor, task.id)
            else:
                self._end(successor, TaskState.CANCELLED, now, f"its predecessor {task.id} was removed before it ended")
        del self.tasks[task.id]
        self._queue = None
        self.counts[task.state] -= 1
        self._dirty.pop(task.id, None)
        self._gone.append(task.id)

    def _refuse_active(self, task: Task, verb: str, cure: str) -> None:
        if task.state in ACTIVE:
            raise ConflictError(f"task {task.id} is {task.state} and cannot be {verb}: {cure}")

    def _check_possible(self, task: Task) -> None:
        never = self.inventory.why_never(request_of(task))
        if never is not None:
            raise ImpossibleError(never)

    def _renumber(self, rank: tuple[bool, bool, int]) -> None:
        # Halving the gap between two neighbours runs out of digits after some forty moves to one place.
        same = [task for task in self.queue() if order_of(task)[:3] == rank]
        for place, task in enumerate(same, min(task.id for task in same)):
            task.position = float(place)
            self._touch(task)
            self._file(task)

    # -- predecessors -----------------------------------------------------------------------------------------

    def _check_predecessors(self, task: Task) -> None:
        for after in task.after:
            before = self.tasks.get(after.id)
            if before is None:
                raise NotFoundError(f"there is no task {after.id} to come after")
            if before.id == task.id or self._comes_after(before, task.id):
                raise BadRequestError(f"task {task.id} cannot wait for task {before.id}: that one waits for it")
            if before.state in ENDED and not _met_by(after.on, before.state):
                raise ConflictError(
                    f"task {before.id} has ended as {before.state}: `{after.id}:{after.on}` can never be met"
                )

    def _comes_after(self, task: Task, other_id: int) -> bool:
        pending, visited = [task], set()
        while pending:
            current = pending.pop()
            for after in current.waits_for:
                if after.id == other_id:
                    return True
                if after.id not in visited and after.id in self.tasks:
                    visited.add(after.id)
                    pending.append(self.tasks[after.id])
        return False

    def _await_predecessors(self, task: Task, now: float) -> None:
        task.waits_for = list(task.after)
        self._link_predecessors(task)
        self.backlog.discard(task.id)
        self._settle_predecessors(task, now)

    def _link_predecessors(self, task: Task) -> None:
        for after in task.waits_for:
            self._successors.setdefault(after.id, set()).add(task.id)

    def _unlink_predecessors(self, task: Task) -> None:
        for after in task.waits_for:
            waiting = self._successors.get(after.id)
            if waiting is not None:
                waiting.discard(task.id)
                if not waiting:
                    del self._successors[after.id]
        task.waits_for = []

    def _settle_predecessors(self, task: Task, now: float) -> None:
        # The old system let a successor of a deleted task wait for ever; whatever was loaded, nobody waits for nothing.
        for after in list(task.waits_for):
            before = self.tasks.get(after.id)
            if before is None or (before.state in ENDED and _met_by(after.on, before.state)):
                self._met(task, after.id)
            elif before.state in ENDED:
                self._end(task, TaskState.CANCELLED, now, _pointless(before, after))
                return

    def _settle_successors(self, task: Task, now: float) -> None:
        for successor_id in sorted(self._successors.pop(task.id, ())):
            successor = self.tasks[successor_id]
            failed = [
                after for after in successor.waits_for if after.id == task.id and not _met_by(after.on, task.state)
            ]
            if failed:
                self._end(successor, TaskState.CANCELLED, now, _pointless(task, failed[0]))
            else:
                self._met(successor, task.id)

    def _met(self, successor: Task, predecessor_id: int) -> None:
        successor.waits_for = [after for after in successor.waits_for if after.id != predecessor_id]
        self._touch(successor)
        self._file(successor)


EDITABLE = (
    "name",
    "project",
    "command",
    "cwd",
    "env",
    "setup",
    "variables",
    "gpus",
    "gpu_ids",
    "cpus",
    "node",
    "after",
    "priority",
    "urgent",
    "time_limit_s",
    "log_path",
)


def _met_by(on: str, state: TaskState) -> bool:
    return on == "any" or (state is TaskState.SUCCEEDED) == (on == "ok")


def _pointless(before: Task, after: After) -> str:
    wanted = "had to succeed" if after.on == "ok" else "had to fail"
    return f"its predecessor {before.id} {wanted} and ended as {before.state}"


def _verdict(exit_: Exit) -> tuple[TaskState, str | None]:
    if exit_.cause == "exited":
        return (TaskState.SUCCEEDED, None) if exit_.code == 0 else (TaskState.FAILED, _code_reason(exit_.code))
    if exit_.cause == "killed":
        return TaskState.CANCELLED, None
    if exit_.cause == "timed_out":
        return TaskState.TIMED_OUT, "its time limit ended it"
    if exit_.cause == "not_started":
        return TaskState.FAILED, f"could not be started: {exit_.error}"
    if exit_.cause == "rebooted":
        return TaskState.LOST, "node_rebooted: the machine restarted during the attempt"
    return TaskState.LOST, exit_.error or "exit unknown: what stood over the attempt was killed"


def _code_reason(code: int | None) -> str:
    known = {
        126: "the command may not be executed",
        127: "the command was not found",
        137: "killed from outside (signal 9)",
    }
    text = known.get(code or 0)
    return f"exit code {code}" + (f": {text}" if text else "")


def _between(low: float | None, high: float | None, task: Task) -> float:
    if low is None and high is None:
        return float(task.id)
    if low is None:
        return (high or 0.0) - 1.0
    if high is None:
        return low + 1.0
    return (low + high) / 2
