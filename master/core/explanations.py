"""Answers about a task: why it waits, how it ended, what looks wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from master.core.attempts.dispatch import Dispatch
from master.core.attempts.unproven import UnprovenAttempts
from master.core.nodes.idle import IdleTasks
from master.core.nodes.nodes import Nodes
from master.core.nodes.outgrown import OutgrownShares
from master.core.nodes.strays import StrayTasks
from master.core.people.barred import EXPIRED, REASONS
from master.core.people.quotas import Quotas
from master.core.planning.forecast import Forecast
from master.core.planning.learned import Learned
from master.core.planning.obstacles import in_the_way
from master.core.planning.openings import Openings, all_lifted
from master.core.planning.scheduler import Wait
from master.core.tasks.arrays import said_of_rest
from master.core.tasks.request import demand_of
from master.core.tasks.task import After, Task, TaskState
from master.core.tasks.task_table import TaskTable
from master.core.tasks.waiting import Waiting
from wire.message import Message

_AWAITED: dict[tuple[str, bool], Callable[[int], Message]] = {
    ("ok", False): lambda number: Message("to_succeed", id=number),
    ("fail", False): lambda number: Message("to_fail", id=number),
    ("any", False): lambda number: Message("to_end", id=number),
    ("ok", True): lambda number: Message("array_to_succeed", id=number),
    ("fail", True): lambda number: Message("array_to_fail", id=number),
    ("any", True): lambda number: Message("array_to_end", id=number),
}


def _awaited(after: After) -> Message:
    return _AWAITED[after.on, bool(after.array)](after.id)


class Explanations:
    """Answers about single tasks, from what the other parts know at the time."""

    def __init__(
        self,
        task_table: TaskTable,
        nodes: Nodes,
        dispatch: Dispatch,
        waiting: Waiting,
        *,
        learned: Learned,
        quotas: Quotas,
        idle: IdleTasks,
        outgrown: OutgrownShares,
        strays: StrayTasks,
        unproven: UnprovenAttempts,
    ) -> None:
        self._task_table = task_table
        self._nodes = nodes
        self._dispatch = dispatch
        self._waiting = waiting
        self._learned = learned
        self._elastic = dispatch.elastic
        self._quotas = quotas
        self._idle = idle
        self._outgrown = outgrown
        self._strays = strays
        self._unproven = unproven

    def reason(self, task: Task) -> str | None:
        """Why it waits, or what there is to say of its end."""
        waits = self.why_it_waits(task)
        return task.reason if waits is None else str(waits)

    def why_it_waits(self, task: Task) -> Message | None:
        """Why it does not start now, or is held; None for one that is not in the queue."""
        if task.state is TaskState.HELD:
            if task.reason_key in REASONS:  # it is not released, but goes on with its owner
                return _why_barred(task)
            if (why := said_of_rest(task)) is not None:
                return why
            if task.reason:
                return Message("held_because", id=task.id, why=task.reason)
            return Message("held", id=task.id)
        if task.state is not TaskState.WAITING:
            return None
        if task.waits_for:
            return Message("waits_for", tasks=tuple(map(_awaited, task.waits_for)))
        if task.id in self._waiting.later:
            return _until(task)
        return self.wait(task).message()

    def wait(self, task: Task) -> Wait:
        """Why one that could start as far as it is concerned does not, and what stands in its way."""
        found = self._dispatch.why(demand_of(task), task.id)
        giving = self._elastic.giving(task.id)
        return found._replace(obstacles=[*giving, *found.obstacles]) if giving else found

    def holders_of(self, task: Task) -> list[int]:
        """The tasks that have what one lacks which waits for room, by id; of one within an allocation, nobody."""
        waits = task.state is TaskState.WAITING and not task.waits_for and task.id not in self._waiting.later
        if not waits or task.within is not None or self.wait(task).brief.key != "needs":
            return []
        return sorted(in_the_way(demand_of(task), self._nodes.inventory, self._task_table.tasks))

    def ends_of(self, task: Task, now: float) -> list[tuple[int, float | None]]:
        """The tasks that have what a waiting one lacks, and by when each is expected to have ended (None: nobody
        knows), the first one first."""
        forecast = Forecast(self._task_table.tasks, self._learned.at_most, now)
        holders = in_the_way(demand_of(task), self._nodes.inventory, self._task_table.tasks)
        ends = [(number, forecast.ends(number)) for number in sorted(holders)]
        return sorted(ends, key=lambda one: float("inf") if one[1] is None else one[1])

    def would_start(self, task: Task, wait: Wait, now: float, may_tell: Callable[[int], bool]) -> list[Message]:
        """Return what would let a task start that waits for room (`wait`: why), each way by itself, the soonest first.
        `may_tell`: whether the viewer may know when a task ends, by its id."""
        demand = demand_of(task)
        if task.within is not None or wait.brief.key in ("never", "next"):
            return []
        stops = self._quotas.stops(demand)
        if wait.brief.key == "over_quota":
            return all_lifted(stops)
        forecast = Forecast(self._task_table.tasks, self._learned.at_most, now)
        return Openings(self._nodes.inventory, forecast, self._dispatch.holds, may_tell).ways(demand, task.id, stops)

    def warning(self, task: Task) -> str | None:
        """Return what looks wrong with a task that runs, as a sentence."""
        wrong = self.what_looks_wrong(task)
        return None if wrong is None else str(wrong)

    def what_looks_wrong(self, task: Task) -> Message | None:
        """Return what looks wrong with a task that runs. Nothing of it is kept over a restart."""
        unproven = self._unproven.warning(task)
        if unproven is not None or task.state is not TaskState.RUNNING:
            return unproven
        all_of_it = (
            self._dispatch.log_warning(task),
            self._idle.told.get(task.id),
            self._elastic.lacking.get(task.id),
            self._outgrown.warning(task),
            self._strays.warning(task),
        )
        found = tuple(one for one in all_of_it if one is not None)
        return Message("warnings", warnings=found) if len(found) > 1 else next(iter(found), None)

    def some_may_be_warned(self) -> bool:
        """Is there anything that looks wrong with a task? Where not, nobody needs to look at each."""
        return any(self._known_by()) or self._unproven.any

    def _known_by(self) -> tuple[Mapping[int, object], ...]:
        """Of what each part knows something, by task."""
        return (
            self._idle.told, self._dispatch.large_logs, self._elastic.lacking, self._outgrown.told, self._strays.told
        )  # fmt: skip

    def warned(self) -> list[int]:
        """The tasks that there is a warning about."""
        known = set().union(*self._known_by(), self._unproven.tasks())
        marked = sorted(number for number in known if number in self._task_table.tasks)
        return [task_id for task_id in marked if self.warning(self._task_table.tasks[task_id]) is not None]


def _why_barred(task: Task) -> Message:
    args = task.reason_args or {}
    name = args.get("name", task.owner)
    if task.reason_key == EXPIRED:
        return Message("owner_expired", name=name, at=args.get("at", 0.0))
    return Message("owner_disabled", name=name, by=args.get("by", ""))


def _until(task: Task) -> Message:
    """Which time a task waits for."""
    at = task.not_before or 0.0
    if task.not_before == task.begin_at or not task.earlier:
        return Message("begins_at", at=at)
    last = task.earlier[-1]
    why = last.reason or ""
    if task.max_retries == 0:
        return Message("goes_on_at", at=at, no=last.no, why=why)
    return Message("tried_again_at", at=at, no=last.no, why=why, retry=task.retries, most=task.max_retries)
