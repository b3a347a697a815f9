"""Attempts: where waiting tasks are sent, and what becomes of them by what the agents tell.

Pure. Only reports of agents are facts: a broken link ends no attempt, and silence is never taken for a
death. Which of them an agent that comes back still has is `reconcile`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from master.core.attempts.endings import Endings, is_resized
from master.core.attempts.exits import LIMITS, Exit, verdict
from master.core.attempts.gang import Gang, PartEnd, kept_reason, not_started_anywhere
from master.core.attempts.orphaned_attempts import OrphanedAttempts
from master.core.attempts.unknown_attempts import UnknownAttempts
from master.core.effects import Ack, Start, WakeAt
from master.core.nodes.accounts import OWN
from master.core.nodes.health import Health
from master.core.nodes.node_clock import sane
from master.core.nodes.nodes import Nodes
from master.core.nodes.unstarted_tasks import UnstartedTasks
from master.core.outcome import Pending
from master.core.people.barred import BarredOwners
from master.core.people.quotas import Quotas
from master.core.planning.allocations import Allocations
from master.core.planning.availability import only_its_own
from master.core.planning.elastic import NONE_ELASTIC, Elastic, Lab, in_order
from master.core.planning.forecast import Hold
from master.core.planning.free_nodes import FreeNodes
from master.core.planning.learned import Learned
from master.core.planning.reservations import Reservation
from master.core.planning.resizing import ElasticTasks
from master.core.planning.scheduler import Plan, PlanInput, Reasons, Wait, plan, preview
from master.core.tasks.attempt import Allocation, AskedEnd, Part, sent_as, with_known
from master.core.tasks.request import Demand
from master.core.tasks.task import ACTIVE, WAITING, Task, TaskState, Unstarted, give_reason
from master.core.tasks.task_log import account_log, is_account, is_owners_log, placed_log
from master.core.tasks.task_table import TaskTable
from master.core.tasks.time_limit import cut
from master.core.tasks.transitions import Event, State, allows
from master.core.tasks.waiting import Waiting
from master.core.tuning import Tuning
from wire.message import Message

NewLaunchId = Callable[[int, int], str]
"""Makes an id that was never used before, of a task's id and the attempt's number; passed in: chance is not pure."""

MINUTE_S = 60.0
RESERVATIONS = "reservations"
"""The piece of the state that says for which tasks room is kept."""


class Dispatch:
    """The attempts by launch id, and the last plan. `reservations`: for which tasks room is kept. `large_logs`: by task
    the attempt whose log is near its limit, its bytes and the limit; not kept over a restart, for the agent tells it
    again. `elastic`: those that may get more GPUs or fewer."""

    def __init__(
        self,
        task_table: TaskTable,
        nodes: Nodes,
        *,
        waiting: Waiting,
        endings: Endings,
        learned: Learned,
        allocations: Allocations,
        health: Health,
        unstarted_tasks: UnstartedTasks,
        orphaned: OrphanedAttempts,
        unknown: UnknownAttempts,
        pending: Pending,
        quotas: Quotas,
        tuning: Tuning,
        barred: BarredOwners,
        new_launch_id: NewLaunchId,
        log_folder: str,
    ) -> None:
        self.large_logs: dict[int, tuple[str, int, int]] = {}
        self._task_table = task_table
        self._nodes = nodes
        self._gang = Gang(task_table, nodes, endings, pending, health)
        self._waiting = waiting
        self._endings = endings
        self._learned = learned
        self._allocations = allocations
        self.elastic = ElasticTasks(task_table, nodes.inventory, pending, barred.bars)
        self._health = health
        self._unstarted_tasks = unstarted_tasks
        self._orphaned = orphaned
        self._unknown = unknown
        self._pending = pending
        self._quotas = quotas
        self._tuning = tuning
        self._barred = barred
        self._new_launch_id = new_launch_id
        self._log_folder = log_folder
        self._free = FreeNodes(nodes.inventory)
        self._by_launch: dict[str, int] = {}
        self._wake_at: float | None = None
        self.reservations: tuple[Reservation, ...] = ()
        self._last = Plan(Reasons(self._seen(None, NONE_ELASTIC)))

    def load(self, pieces: Mapping[str, msgspec.Raw]) -> None:
        """Take over for which tasks room was kept."""
        raw = pieces.get(RESERVATIONS)
        if raw is not None:
            self.reservations = msgspec.json.decode(raw, type=tuple[Reservation, ...])
            self._waiting.backlog.apart = frozenset(one.task for one in self.reservations)

    def concerns(self, before: State, after: State) -> bool:
        """Attempts that begin, change or are over, and whoever waits no more."""
        return before in ACTIVE or after in ACTIVE or (before is WAITING and after is not WAITING)

    def moved(self, task: Task, before: State, after: State) -> None:
        """An attempt is known by its launch ids from when it is sent until it is over; when it changes, it may end at
        another time. Room that was kept for a
        task that no longer waits may start others at once."""
        if before is WAITING and after not in ACTIVE:
            self._pending.plan_needed |= any(one.task == task.id for one in self.reservations)
            return
        if before in ACTIVE and after in ACTIVE:
            self._free.forget_findings(part.node for part in task.allocation)
            return
        for part in task.allocation:
            if after in ACTIVE:
                self._by_launch[part.launch_id] = task.id
            else:
                self._by_launch.pop(part.launch_id, None)
                self.large_logs.pop(task.id, None)

    def find(self, node: str, launch_id: str, login: str = OWN) -> Task | None:
        """The task of an attempt, for the agent that it was sent to, the node's own or that of an account: no other has
        a word in it."""
        task_id = self._by_launch.get(launch_id)
        if task_id is None:
            return None
        task = self._task_table.tasks[task_id]
        part = sent_as(task.allocation, launch_id)
        return task if part is not None and (part.node, part.login) == (node, login) else None

    def attempt(self, launch_id: str) -> Task | None:
        """The task of an attempt that was sent under this id and is not over."""
        task_id = self._by_launch.get(launch_id)
        return None if task_id is None else self._task_table.tasks[task_id]

    # -- what the planner decides -----------------------------------------------------------------------------

    def plan(self, now: float) -> int:
        """Ask the planner and do what it says. The number of tasks started."""
        self._pending.plan_needed = False
        self._nodes.inventory.set_rules(self._tuning.settings.scheduler)
        self._barred.begin(now, self._nodes.inventory.run_as_somewhere)
        self._waiting.begin(now)
        self._allocations.begin(now, self.kill)
        started, again = 0, True
        while again:
            made = plan(self.plan_input(now), now)
            granted = self.carry_out(made, now)
            started, again = started + len(made.starts), made.again or granted
        return started

    def free(self) -> FreeNodes:
        """Return the free resources of the nodes now. Callers give back everything that they take from it."""
        self._free.refresh(self._pending.to_look_at, self._pending.sampled)
        self._pending.to_look_at.clear()
        self._pending.sampled.clear()
        return self._free

    @property
    def holds(self) -> Mapping[str, Hold]:
        """The reservations of the last plan, by node."""
        return self._last.holds

    def why(self, demand: Demand, task_id: int) -> Wait:
        """Return why a task waits that could start as far as it is concerned, as the last plan has it; 0: a task that
        is not filed."""
        self.free()  # what is kept of it from plan to plan is as things are now
        return self._last.reasons(demand, task_id)

    def preview(self, draft: Task, now: float) -> list[Allocation] | None:
        """Return what a task would get if it were filed now; None where it would wait."""
        return preview(self.plan_input(now), draft, self.holds, now)

    def plan_input(self, now: float) -> PlanInput:
        """Return the state that the planner reads."""
        return self._seen(self.free(), self.elastic.known(now))

    def _seen(self, free: FreeNodes | None, elastic: Elastic) -> PlanInput:
        return PlanInput(
            self._waiting.backlog,
            self._nodes.inventory,
            self._quotas,
            settings=self._tuning.settings,
            tasks=self._task_table.tasks,
            at_most=self._learned.at_most,
            runs=self._learned.runs,
            reservations=self.reservations,
            free=free,
            elastic=elastic,
        )

    def carry_out(self, made: Plan, now: float) -> bool:
        """Do what a plan says; was an allocation granted, so that there is room within?"""
        for start in made.starts:
            self._start(self._task_table.tasks[start.task_id], start.parts, now)
        for wanted in made.resizes:
            self.elastic.resize(wanted, now, self.kill)
        self._keep(made)
        ahead = (
            made.wake_at,
            self._waiting.later.next_at,
            self._allocations.next_at,
            self.elastic.next_at,
            self._barred.next_at,
        )
        times = [at for at in ahead if at is not None]
        if times and min(times) != self._wake_at:
            self._wake_at = min(times)
            self._pending.effect(WakeAt(self._wake_at))
        return any(self._task_table.tasks[start.task_id].is_allocation for start in made.starts)

    def woken(self) -> None:
        """It is the time at which the planner wanted to be asked again, or nobody knows what time it is."""
        self._wake_at = None
        self._pending.plan_needed = True

    def _keep(self, made: Plan) -> None:
        """Keep the plan, for whoever asks why something waits, and write down for which tasks room is kept from now on;
        that was told to people, so it outlives the master."""
        self._show_holds(self._last.holds, made.holds)
        self._last = made
        self._waiting.backlog.apart = self.elastic.waiters.union(one.task for one in made.reservations)
        if made.reservations != self.reservations:
            self.reservations = made.reservations
            self._pending.piece(RESERVATIONS, msgspec.Raw(msgspec.json.encode(made.reservations)))

    def _show_holds(self, before: Mapping[str, Hold], after: Mapping[str, Hold]) -> None:
        """Nodes look different where something else is kept than before, or until another minute."""
        for name in {*before, *after}:
            if name in self._nodes.inventory.nodes and _seen_of(before.get(name)) != _seen_of(after.get(name)):
                self._pending.shown(name)

    def _start(self, task: Task, allocations: list[Allocation], now: float) -> None:
        if self._are_waited_for(task, allocations):
            return
        task.attempt += 1
        task.allocation = [self._part(task, allocation) for allocation in allocations]
        task.forced, task.over_quota, task.not_before = False, False, None
        task.time_limit_s = cut(task.time_limit_s, self._tuning.settings.scheduler)
        if task.is_allocation:
            task.started_at = now
        elif any(part.login for attempt in task.attempts for part in attempt.parts):
            # Here, and not by its agent, which belongs to that account and is believed nothing about logs.
            task.log_path = account_log(task, task.allocation[0].login, self._log_folder)
        self._task_table.move(task, TaskState.RUNNING if task.is_allocation else TaskState.STARTING)
        for part in task.allocation:
            self._pending.node(part.node)
            if not task.is_allocation:
                self._pending.effect(Start(part.node, task))

    def _are_waited_for(self, task: Task, allocations: list[Allocation]) -> bool:
        """Over which accounts it is to run is known now, and their agents may have to be begun: what is started, and
        where its claim will lie, is written down before anybody hears of it, so they are needed first. Meanwhile the
        nodes are closed to its owner, and no room is kept for them there. Of an allocation no agent hears."""
        if task.is_allocation:
            return False
        away = []
        for allocation in allocations:
            accounts = self._nodes.inventory.nodes[allocation.node].accounts
            login = accounts.of(task.owner)
            if login is not None and not accounts.is_there(login):
                away.append((allocation.node, login))
        for name, login in away:
            self._nodes.want_account(name, login)
        return bool(away)

    def _part(self, task: Task, allocation: Allocation) -> Part:
        node = self._nodes.inventory.nodes[allocation.node]
        login = OWN if task.is_allocation else node.accounts.of(task.owner)
        if login is None:
            raise ValueError(f"{task.owner} has no account on {node.name}")
        facts = node.facts_of(login)
        if facts is None:
            raise ValueError(f"{node.name} is online and has not said what it is")
        return Part(
            node.name,
            allocation.gpus,
            self._new_launch_id(task.id, task.attempt),
            facts.boot_id,
            facts.state_id,
            node.address_of(login),
            facts.machine,
            gpu_mib=allocation.gpu_mib,
            account=facts.account,
            login=login,
        )

    # -- what people ask --------------------------------------------------------------------------------------

    def kill(self, task: Task, asked: AskedEnd) -> None:
        """Somebody wants the end of its attempt: its node is told once it is on disk why, and will report the end. A
        second wish for the same sends nothing; a node that reconnects is told again."""
        if asked.outranks(task.asked_end):
            task.asked_end = asked
            if asked.why != "resize":
                self._no_resize(task)
            self._task_table.changed(task)
            self._gang.end_others(task)

    def lost(self, task: Task, part: Part, reason: Message, now: float) -> None:
        """Nobody can know what became of a part: it is over."""
        self._over(task, part, PartEnd(TaskState.LOST, now, reason=reason), now)

    def _over(self, task: Task, part: Part, end: PartEnd, now: float) -> None:
        if len(task.allocation) > 1:
            self._gang.part_over(task, part, end, now)
            return
        task.exit_code = end.code
        change = task.resizing if is_resized(task, end.state) else None
        before = task.allocation[0]
        others = [] if change is None else [demand for _, demand in in_order(self._waiting.backlog)]
        self._endings.over(task, end.state, end.at, end.reason, now)
        if change is not None and task.state is TaskState.WAITING:
            place = self.elastic.place_for(task, before, change, others, self.look_around())
            if place is not None:
                self._start(task, [place], now)

    def _no_resize(self, task: Task) -> None:
        """It ends for good: it is not to go on."""
        if task.resizing is not None:
            task.resizing = None
            give_reason(task, None)

    def look_around(self) -> Lab:
        """Return the lab as a plan sees it: waiting tasks, nodes, usage and reservations."""
        backlog, inventory, ledger = self._waiting.backlog, self._nodes.inventory, self._quotas.ledger()
        return Lab(backlog, inventory, self._task_table.tasks, ledger, self.holds, only_its_own)

    def checkpoint_seen(self, launch_id: str, newest: float | None, now: float) -> None:
        """The newest file that matches the `checkpoint` of this attempt's task was written then (see
        `ElasticTasks`)."""
        task = self.attempt(launch_id)
        if task is not None and task.resizing is None:
            self.elastic.checkpoint_seen(task, launch_id, newest, now)

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
        login: str = OWN,
    ) -> None:
        """The attempt runs, as this process; for one that runs as its owner also the account and the place of its log.
        Told again after a reconnect: then nothing changes."""
        task = self.find(node, launch_id, login)
        part = None if task is None else sent_as(task.allocation, launch_id)
        if task is None or part is None:
            self._unknown.started(node, launch_id, at, (pid, pid_start), login)
            return
        if pid and not part.pid:
            task.allocation = with_known(task.allocation, launch_id, pid=pid, pid_start=pid_start)
            self._task_table.changed(task)
        if login == OWN and (run_as or task.earlier):
            self._runs_as(task, launch_id, run_as, log_path)
        if allows(Event.STARTED, task.state):
            task.started_at = self._by_our_clock(task, part, at, task.submitted_at, now)
            self._task_table.move(task, TaskState.RUNNING)
            self._health.started(node, login)

    def _runs_as(self, task: Task, launch_id: str, account: str, log_path: str) -> None:
        """The attempt is one of this account ("": of the agent's own). The node's report of its log is believed if
        that can be one; an earlier attempt may have had another."""
        part = sent_as(task.allocation, launch_id)
        if part is None or (account and not is_account(account)):
            return
        is_owners = is_owners_log(task, account, log_path, self._log_folder)
        log = log_path if is_owners else placed_log(task, self._log_folder)
        if part is not task.allocation[0]:
            log = task.log_path  # that of the first part says where those of the others are
        if (part.run_as, task.log_path) != (account, log):
            task.log_path = log
            task.allocation = with_known(task.allocation, launch_id, run_as=account)
            self._task_table.changed(task)

    def log_grows(self, node: str, launch_id: str, size: int, limit: int, login: str = OWN) -> None:
        """The log of an attempt is near its limit; nothing where there is none. It is shown, and not written down."""
        task = self.find(node, launch_id, login) if limit else None
        if task is not None and self.large_logs.get(task.id) != (launch_id, size, limit):
            self.large_logs[task.id] = (launch_id, size, limit)
            self._pending.seen_anew(task)

    def log_warning(self, task: Task) -> Message | None:
        """Return the warning about a log that is near its limit."""
        large = self.large_logs.get(task.id)
        if large is None or sent_as(task.allocation, large[0]) is None:
            return None
        _, size, limit = large
        return Message("large_log", size=size, limit=limit)

    def was_started(self, node: str, launch_id: str, pid: int, login: str = OWN) -> bool:
        """Tell whether it is known that this attempt runs, so that no agent needs to say it, unless asked to stop it or
        to let it go on; one of unknown origin is told of in an inventory. `pid`: the process that the agent now names,
        0 where it names none."""
        task = self.find(node, launch_id, login)
        part = None if task is None else sent_as(task.allocation, launch_id)
        if task is None or part is None:
            return self._unknown.is_listed(node, launch_id, login)
        if task.pause_asked is not None or launch_id in task.to_resume:
            return False
        return not allows(Event.STARTED, task.state) and bool(part.pid or not pid)

    def exited(self, node: str, exit_: Exit, now: float, login: str = OWN) -> None:
        """The attempt is over and its tree is dead. An unknown one is only acknowledged."""
        task = self.find(node, exit_.launch_id, login)
        part = None if task is None else sent_as(task.allocation, exit_.launch_id)
        if task is None or part is None:
            self._orphaned.ended(node, exit_.launch_id, login)
        elif part.ended_at is not None:
            pass  # it was told before
        elif exit_.is_the_nodes and (allows(Event.NOT_STARTED, task.state) or _may_not_have_begun(task, part)):
            self._not_started(task, part, exit_.error, now)
        else:
            if login == OWN and (exit_.run_as or task.earlier):
                self._runs_as(task, exit_.launch_id, exit_.run_as, exit_.log_path)
            card = self._nodes.card_use(node, task) if exit_.ran_out else None
            has_gpus = any(part.gpus for part in task.allocation)
            state, reason = verdict(
                exit_,
                task.env,
                has_setup=bool(task.setup),
                cancelled=task.cancel_requested,
                has_gpus=has_gpus,
                card=card,
                beyond=kept_reason(task) if task.asked_end == AskedEnd("limit") else None,
            )
            if task.asked_end is not None and task.asked_end.why == "allocation":
                reason = reason or Message("its_allocation_ended", id=task.within)
            if task.first_end is None:  # of several parts it is that of the one which ended them
                task.last_line = exit_.last_line or None
            ended_at = self._ended_at(task, part, exit_, now)
            self._note_peak(task, part)
            if exit_.cause in LIMITS and AskedEnd("limit").outranks(task.asked_end):
                task.asked_end = AskedEnd("limit")
            end = PartEnd(state, ended_at, exit_.code, reason)
            self._over(task, part, end, now)
        self._pending.effect(Ack(node, exit_.launch_id, login))

    def _ended_at(self, task: Task, part: Part, exit_: Exit, now: float) -> float:
        """When it ended; when it began is known now, too, if it was not before. A start that was told stays what it is:
        the node's clock may have been set since."""
        earliest = task.submitted_at if task.started_at is None else task.started_at
        ended_at = self._by_our_clock(task, part, exit_.at, earliest, now)
        if task.started_at is None and exit_.started_at is not None:
            task.started_at = min(self._by_our_clock(task, part, exit_.started_at, earliest, now), ended_at)
        return ended_at

    def _by_our_clock(self, task: Task, part: Part, at: float, earliest: float, now: float) -> float:
        """When something of a part was that its node tells; the part is marked if that had to be corrected."""
        clock = self._nodes.clock_of(part.node)
        if clock.wrong_by:
            offset = round(clock.wrong_by, 1)
            task.allocation = with_known(task.allocation, part.launch_id, clock_offset_s=offset)
        return sane(at, earliest, now, clock)

    def _note_peak(self, task: Task, part: Part) -> None:
        """Return the largest observed GPU use of the task; of several parts the largest one counts."""
        peak, others = self._nodes.peak_mib(part.node, task.id), [one for one in task.allocation if one.ended_at]
        if peak is not None and others:
            peak = max(peak, task.gpu_peak_mib or 0)
        task.gpu_peak_mib = task.gpu_peak_mib if peak is None else peak

    def _not_started(self, task: Task, part: Part, why: str, now: float) -> None:
        """For a fault of the node's own, nothing of the task was done: it is tried elsewhere. Only its number is used
        up; a node that is known to be sick by now is not even counted."""
        name = part.node
        known_sick = self._health.is_sick(name)
        if not known_sick:
            others = [entry for entry in task.unstarted if entry.node != name]
            self._unstarted_tasks.put(task, [*others, Unstarted(name, why)])
        if len(task.allocation) > 1:
            end = PartEnd(TaskState.FAILED, now, reason=Message("not_started", said=why), unbegun=True)
            self._gang.part_over(task, part, end, now)
        elif task.cancel_requested:
            self._task_table.end(task, TaskState.CANCELLED, now, None)
        elif self._health.is_the_tasks_own(task):
            self._endings.over(task, TaskState.FAILED, now, not_started_anywhere(task), now)
        else:
            self._endings.not_begun(task, now, Message("not_started", said=why))
        if not known_sick:
            self._health.failed(name, task.id, why, part.login)

    def discrepancies(self) -> list[str]:
        """Where the attempts that are known differ from those that the active tasks have."""
        active = [task for task in self._task_table.tasks.values() if task.state in ACTIVE]
        wanted = {part.launch_id: task.id for task in active for part in task.allocation}
        ids = sorted(number for _, number in wanted.items() ^ self._by_launch.items())
        found = [f"the attempt of task {number} is not known by its launch id alone" for number in ids]
        return found + self._free.discrepancies(self._pending.to_look_at | self._pending.sampled)


def _may_not_have_begun(task: Task, part: Part) -> bool:
    """Of several parts some run, and of this one nobody has said so."""
    return len(task.allocation) > 1 and not part.pid


def _seen_of(hold: Hold | None) -> object:
    """Return what people see of what is kept on a node."""
    if hold is None:
        return None
    return hold.task, hold.gpus, None if hold.until is None else hold.until // MINUTE_S
