"""Attempts: where waiting tasks are sent, and what becomes of them by what the agents tell.

Pure. What an agent says is a fact, and nothing else is: a broken link ends no attempt, and silence is never read as a
death. Which of them an agent that comes back still has is `reconcile`'s.
"""

from __future__ import annotations

from collections.abc import Callable

from master.core.attempt import Allocation, AskedEnd, Part, sent_as, with_known
from master.core.book import Book
from master.core.effects import Ack, Kill, Start, WakeAt
from master.core.exits import LIMITS, Exit, sane, verdict
from master.core.health import Health
from master.core.inventory import NodeState
from master.core.law import Event, State, allows
from master.core.nodes import Nodes
from master.core.outcome import Pending
from master.core.remnants import Remnants
from master.core.run_as import is_account, is_owners_log, placed_log
from master.core.scheduler import Plan, Snapshot, plan
from master.core.task import ACTIVE, Task, TaskState, Unstarted
from master.core.waiting import Waiting
from wire.errors import ConflictError
from wire.message import Message

NewLaunchId = Callable[[int, int], str]
"""Makes an id that was never used before, of a task's id and the attempt's number; passed in: chance is not pure."""


class Dispatch:
    """The attempts by launch id. `large_logs`: by task the attempt whose log is near its limit, its bytes and the
    limit; not kept over a restart, for the agent tells it again."""

    def __init__(
        self,
        book: Book,
        nodes: Nodes,
        *,
        waiting: Waiting,
        health: Health,
        remnants: Remnants,
        pending: Pending,
        new_launch_id: NewLaunchId,
    ) -> None:
        self.large_logs: dict[int, tuple[str, int, int]] = {}
        self._book = book
        self._nodes = nodes
        self._waiting = waiting
        self._health = health
        self._remnants = remnants
        self._pending = pending
        self._new_launch_id = new_launch_id
        self._by_launch: dict[str, int] = {}

    def concerns(self, before: State, after: State) -> bool:
        """Attempts that begin or are over."""
        return (before in ACTIVE) is not (after in ACTIVE)

    def moved(self, task: Task, _before: State, after: State) -> None:
        """An attempt is known by its launch ids from when it is sent until it is over."""
        for part in task.allocation:
            if after in ACTIVE:
                self._by_launch[part.launch_id] = task.id
            else:
                self._by_launch.pop(part.launch_id, None)
                self.large_logs.pop(task.id, None)

    def find(self, node: str, launch_id: str) -> Task | None:
        """The task of an attempt, for the node that it was sent to: no other has a word in it."""
        task_id = self._by_launch.get(launch_id)
        if task_id is None:
            return None
        task = self._book.tasks[task_id]
        part = sent_as(task.allocation, launch_id)
        return task if part is not None and part.node == node else None

    # -- what the planner decides -----------------------------------------------------------------------------

    def plan(self, now: float = 0.0) -> int:
        """Ask the planner and do what it says. The number of tasks started."""
        self._pending.plan_needed = False
        made = plan(Snapshot(self._waiting.backlog, self._nodes.inventory), now)
        self.carry_out(made)
        return len(made.starts)

    def carry_out(self, made: Plan) -> None:
        """Do what a plan says. Raises ValueError for what no attempt can do yet: to be stopped for another's sake, or
        to go on with other GPUs."""
        if made.stops or made.resizes:
            raise ValueError("attempts are neither stopped nor resized by the planner")
        for start in made.starts:
            (part,) = start.parts
            self._start(self._book.tasks[start.task_id], part)
        if made.wake_at is not None:
            self._pending.effect(WakeAt(made.wake_at))

    def woken(self) -> None:
        """It is the time at which the planner wanted to be asked again."""
        self._pending.plan_needed = True

    def _start(self, task: Task, allocation: Allocation) -> None:
        node = self._nodes.inventory.nodes[allocation.node]
        facts = node.facts
        if facts is None:
            raise ValueError(f"{node.name} is online and has not said what it is")
        task.attempt += 1
        part = Part(
            node.name,
            allocation.gpus,
            self._new_launch_id(task.id, task.attempt),
            facts.boot_id,
            facts.state_id,
            node.spec.address,
            facts.machine,
        )
        task.allocation = [part]
        task.forced = False
        self._book.move(task, TaskState.STARTING)
        self._pending.node(node.name)
        self._pending.effect(Start(node.name, task))

    # -- what people ask --------------------------------------------------------------------------------------

    def kill(self, task: Task, asked: AskedEnd) -> None:
        """Somebody wants the end of its attempt: its node is told, and will report it."""
        if task.asked_end is None:
            task.asked_end = asked
            self._book.changed(task)
        for part in task.allocation:
            self._pending.effect(Kill(part.node, part.launch_id))

    def give_up(self, name: str, by: str, now: float) -> list[int]:
        """End what runs on a node that will not come back: its tasks are lost, their GPUs free. Should it come back,
        whatever is left of them is killed before it takes a task. Raises NotFoundError, ConflictError."""
        node = self._nodes.find(name)
        if node.state is NodeState.ONLINE:
            raise ConflictError(Message("node_is_online", node=name))
        lost = sorted(node.active)
        for task_id in lost:
            task = self._book.tasks[task_id]
            task.asked_end = task.asked_end or AskedEnd("node_lost", by)
            self._book.end(task, TaskState.LOST, now, Message("given_up", node=name, by=by))
        return lost

    # -- what agents tell -------------------------------------------------------------------------------------

    def started(
        self,
        node: str,
        launch_id: str,
        at: float,
        now: float,
        *,
        pid: int = 0,
        pid_start: int | None = None,
        run_as: str = "",
        log_path: str = "",
    ) -> None:
        """The attempt runs, as this process; of one that runs as its owner, as whom, and where its log lies. Told again
        after a reconnect: then nothing changes."""
        task = self.find(node, launch_id)
        part = None if task is None else sent_as(task.allocation, launch_id)
        if task is None or part is None:
            return
        if pid and not part.pid:
            task.allocation = with_known(task.allocation, launch_id, pid=pid, pid_start=pid_start)
            self._book.changed(task)
        if run_as or task.earlier:
            self._runs_as(task, launch_id, run_as, log_path)
        if allows(Event.STARTED, task.state):
            task.started_at = sane(at, task.submitted_at, now)
            self._book.move(task, TaskState.RUNNING)
            self._health.started(node)

    def _runs_as(self, task: Task, launch_id: str, account: str, log_path: str) -> None:
        """The attempt is one of this account ("": of the agent's own). What the node says of its log is believed where
        that can be one; an earlier attempt may have had another."""
        part = sent_as(task.allocation, launch_id)
        if part is None or (account and not is_account(account)):
            return
        log = log_path if is_owners_log(task, account, log_path) else placed_log(task)
        if (part.run_as, task.log_path) != (account, log):
            task.log_path = log
            task.allocation = with_known(task.allocation, launch_id, run_as=account)
            self._book.changed(task)

    def log_grows(self, node: str, launch_id: str, size: int, limit: int) -> None:
        """The log of an attempt is near its limit; nothing where there is none."""
        task = self.find(node, launch_id) if limit else None
        if task is not None and self.large_logs.get(task.id) != (launch_id, size, limit):
            self.large_logs[task.id] = (launch_id, size, limit)
            self._book.changed(task)

    def log_warning(self, task: Task) -> Message | None:
        """What to say of a log that is near its limit."""
        large = self.large_logs.get(task.id)
        if large is None or sent_as(task.allocation, large[0]) is None:
            return None
        _, size, limit = large
        return Message("large_log", size=size, limit=limit)

    def exited(self, node: str, exit_: Exit, now: float) -> None:
        """The attempt is over and its tree is dead. An unknown one is only acknowledged."""
        task = self.find(node, exit_.launch_id)
        if task is None:
            self._remnants.ended(node, exit_.launch_id)
        elif exit_.is_the_nodes and allows(Event.NOT_STARTED, task.state):
            self._not_started(task, node, exit_.error, now)
        else:
            if exit_.run_as or task.earlier:
                self._runs_as(task, exit_.launch_id, exit_.run_as, exit_.log_path)
            state, reason = verdict(exit_, task.env)
            if exit_.started_at is not None:
                task.started_at = sane(exit_.started_at, task.submitted_at, now)
            task.exit_code = exit_.code
            if exit_.cause in LIMITS:
                task.asked_end = task.asked_end or AskedEnd("limit")
            self._book.end(task, state, sane(exit_.at, task.submitted_at, now), reason)
        self._pending.effect(Ack(node, exit_.launch_id))

    def _not_started(self, task: Task, name: str, why: str, now: float) -> None:
        """For a fault of the node's own, nothing of the task was done: it is tried elsewhere. Only its number is used
        up; a node that is known to be sick by now is not even counted."""
        known_sick = self._health.is_sick(name)
        if not known_sick:
            others = [entry for entry in task.unstarted if entry.node != name]
            task.unstarted = [*others, Unstarted(name, why)]
        if task.cancel_requested:
            self._book.end(task, TaskState.CANCELLED, now, None)
        elif self._health.is_the_tasks_own(task):
            tries = tuple(Message("node_said", node=entry.node, said=entry.why) for entry in task.unstarted)
            why_not = Message("not_started_anywhere", count=len(tries), tries=tries)
            self._book.end(task, TaskState.FAILED, now, why_not)
        else:
            self._book.attempt_again(task, now, Message("not_started", said=why))
        if not known_sick:
            self._health.failed(name, task.id, why)

    def discrepancies(self) -> list[str]:
        """Where the attempts that are known differ from those that the active tasks have."""
        active = [task for task in self._book.tasks.values() if task.state in ACTIVE]
        wanted = {part.launch_id: task.id for task in active for part in task.allocation}
        ids = sorted(number for _, number in wanted.items() ^ self._by_launch.items())
        return [f"the attempt of task {number} is not known by its launch id alone" for number in ids]
