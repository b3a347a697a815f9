"""The tasks and how they move: every change of a task goes through here, and what was changed is collected.

Pure. It owns the tasks, the counts by state, who waits for whom, the ledger of allocations (`inventory`), the backlog
that the planner reads, and the outcome that the engine takes: one Change for the journal and the effects that may
happen only once that Change is durable. Why a task moves is decided by who calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from master.core.backlog import Backlog, order_of
from master.core.effects import Effect
from master.core.inventory import Inventory, NodeSpec, request_of
from master.core.task import ACTIVE, ENDED, QUEUED, After, Change, Task, TaskState
from wire.errors import BadRequestError, ConflictError, ImpossibleError, NotFoundError

ANSWERS_KEPT = 100_000


class Outcome(msgspec.Struct):
    """What one event, or several, did."""

    change: Change
    effects: list[Effect]
    nodes: set[str]


class Ledger:
    """The state. `new_launch_id(task_id, attempt)` makes an id that was never used before; it is passed in: chance is
    not pure."""

    def __init__(self, specs: tuple[NodeSpec, ...], new_launch_id: Callable[[int, int], str]) -> None:
        self.tasks: dict[int, Task] = {}
        self.answered: dict[str, msgspec.Raw] = {}
        self.inventory = Inventory(specs)
        self.backlog = Backlog()
        self.counts: Counter[TaskState] = Counter()
        self.next_id = 1
        self.plan_needed = False
        self._new_launch_id = new_launch_id
        self._successors: dict[int, set[int]] = {}
        self._by_launch: dict[str, int] = {}
        self._dirty: dict[int, Task] = {}
        self._gone: list[int] = []
        self._pieces: dict[str, msgspec.Raw] = {}
        self._new_answers: dict[str, msgspec.Raw] = {}
        self._effects: list[Effect] = []
        self._dirty_nodes: set[str] = set()
        self._queue: list[Task] | None = None

    # -- handing out ------------------------------------------------------------------------------------------

    def take_outcome(self) -> Outcome | None:
        """What happened since the last call, or None if nothing did."""
        if not (self._dirty or self._gone or self._pieces or self._new_answers or self._effects or self._dirty_nodes):
            return None
        change = Change(list(self._dirty.values()), self._gone, self._pieces, self._new_answers)
        outcome = Outcome(change, self._effects, self._dirty_nodes)
        self._dirty, self._gone, self._pieces, self._new_answers = {}, [], {}, {}
        self._effects, self._dirty_nodes = [], set()
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

    def queue(self) -> list[Task]:
        """The waiting and held tasks, the next one first. Sorted once for all who ask between two changes."""
        if self._queue is None:
            self._queue = sorted((task for task in self.tasks.values() if task.state in QUEUED), key=order_of)
        return self._queue

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


def _met_by(on: str, state: TaskState) -> bool:
    return on == "any" or (state is TaskState.SUCCEEDED) == (on == "ok")


def _pointless(before: Task, after: After) -> str:
    wanted = "had to succeed" if after.on == "ok" else "had to fail"
    return f"its predecessor {before.id} {wanted} and ended as {before.state}"
