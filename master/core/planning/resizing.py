"""The elastic tasks that have an attempt: whether there is a checkpoint from which they can go on, and how one goes on
that was ended to have another number of GPUs. Pure.

No attempt is ended for this before a file was seen that matches its task's `checkpoint` and is newer than the attempt.
Somebody is sent to look when the planner wants the resize, and where there is none nobody looks again for a while. None
of that is kept over a restart: the next master looks anew. The decision is kept: it is written down with the reason for
which the attempt is ended, before that is asked of any node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from master.core.effects import SeekCheckpoint
from master.core.nodes.facts import NodeState
from master.core.nodes.inventory import Inventory
from master.core.nodes.leases import Lease
from master.core.nodes.node import Node
from master.core.nodes.resources import Free, FreeNode, rows_of_cluster
from master.core.outcome import Pending
from master.core.planning.elastic import Elastic, Lab, Resize, is_wanted, more_gpus, place_of
from master.core.tasks.attempt import Allocation, AskedEnd, Part, sent_as
from master.core.tasks.request import Demand, request_of
from master.core.tasks.task import ACTIVE, Resizing, Task, give_reason
from master.core.tasks.task_table import TaskTable
from master.core.tasks.transitions import State
from wire.message import Message

EndAttempt = Callable[[Task, AskedEnd], None]
"""Has an attempt ended by its nodes, and writes down why."""
LOOK_AGAIN_S = 60.0
"""Where there was no checkpoint nobody looks again before this time is over."""
SETTLING = "gpu_not_free_yet"
"""Why a GPU is closed that was given back a moment ago: not to who gave it back."""


class ElasticTasks:
    """Those that have an attempt. `lacking`: of those that are not resized, for nobody found a checkpoint that is
    newer than the attempt, what there is to say. `bars`: whether no task of this owner may begin: what runs of theirs
    goes on as it is, for it could not go on after it was ended."""

    def __init__(
        self, task_table: TaskTable, inventory: Inventory, pending: Pending, bars: Callable[[str], bool]
    ) -> None:
        self.lacking: dict[int, Message] = {}
        self._task_table = task_table
        self._inventory = inventory
        self._pending = pending
        self._bars = bars
        self._tasks: set[int] = set()
        self._asked: dict[str, float] = {}
        self._seen: set[str] = set()

    # -- what happens to tasks --------------------------------------------------------------------------------

    def concerns(self, before: State, after: State) -> bool:
        """Attempts that begin or are over."""
        return (before in ACTIVE) is not (after in ACTIVE)

    def moved(self, task: Task, _before: State, after: State) -> None:
        """There is one more, or one less."""
        if not task.elastic:
            return
        if after in ACTIVE:
            self._tasks.add(task.id)
            return
        self._tasks.discard(task.id)
        task.resizing = None
        self.lacking.pop(task.id, None)
        for part in task.allocation:
            self._asked.pop(part.launch_id, None)
            self._seen.discard(part.launch_id)

    # -- looking ----------------------------------------------------------------------------------------------

    def giving(self, waiter: int) -> list[Message]:
        """Which tasks are being ended so that this one can start."""
        return [
            Message("gives_up", id=number, count=change.was - change.gpus)
            for number in sorted(self._tasks)
            if (change := self._task_table.tasks[number].resizing) is not None and change.waiter == waiter
        ]

    @property
    def waiters(self) -> frozenset[int]:
        """For whom tasks are being ended."""
        changes = (self._task_table.tasks[number].resizing for number in self._tasks)
        return frozenset(one.waiter for one in changes if one is not None and one.waiter is not None)

    # -- what the planner decides -----------------------------------------------------------------------------

    def known(self, now: float) -> Elastic:
        """Return what the planner may know of elastic tasks at `now`."""
        if not self._tasks:
            return Elastic()
        # A clock that was put back makes nobody wait for a day.
        late = [launch for launch, at in self._asked.items() if abs(now - at) >= LOOK_AGAIN_S]
        for launch in late:
            del self._asked[launch]
        tasks = tuple(one for one in sorted(self._tasks) if not self._bars(self._task_table.tasks[one].owner))
        launches = {number: self._task_table.tasks[number].allocation[0].launch_id for number in tasks}
        return Elastic(tasks, frozenset(number for number, launch in launches.items() if launch not in self._asked))

    @property
    def next_at(self) -> float | None:
        """When somebody may look again for a checkpoint that was not there."""
        return min((at + LOOK_AGAIN_S for at in self._asked.values()), default=None)

    def resize(self, wanted: Resize, now: float, end_attempt: EndAttempt) -> None:
        """A task is to have another number of GPUs: it is ended for that, if it is known to have a checkpoint; else
        somebody looks for one."""
        task = self._task_table.tasks[wanted.task_id]
        part = task.allocation[0]
        if part.launch_id not in self._seen:
            self._asked[part.launch_id] = now
            self._pending.effect(SeekCheckpoint(part.node, part.launch_id, task, part.login))
            return
        was = len(part.gpus)
        task.resizing = Resizing(wanted.gpus, was, wanted.waiter, now)
        if wanted.waiter is None:
            give_reason(task, Message("to_grow", was=was, gpus=wanted.gpus))
        else:
            give_reason(task, Message("to_shrink", was=was, gpus=wanted.gpus, waiter=wanted.waiter))
        end_attempt(task, AskedEnd("resize"))

    def checkpoint_seen(self, task: Task, launch_id: str, newest: float | None, now: float) -> None:
        """The newest file that matches the task's `checkpoint` was written then, by its node's clock, in seconds since
        the epoch; None: there is none, or nobody can see it."""
        if not task.elastic or task.started_at is None:
            return
        part = sent_as(task.allocation, launch_id)
        ahead = 0.0 if part is None else part.clock_offset_s or 0.0  # as far as `started_at` was corrected
        if newest is not None and newest - ahead > task.started_at:
            self._asked.pop(launch_id, None)
            self._seen.add(launch_id)
            self._pending.plan_needed = True
            if self.lacking.pop(task.id, None) is not None:
                self._task_table.changed(task)
            return
        self._asked[launch_id] = now
        told = Message("no_new_checkpoint", pattern=task.checkpoint)
        if self.lacking.get(task.id) != told:
            self.lacking[task.id] = told
            self._task_table.changed(task)

    # -- going on ---------------------------------------------------------------------------------------------

    def place_for(
        self, task: Task, before: Part, change: Resizing, others: Iterable[Demand], lab: Lab
    ) -> Allocation | None:
        """Return the allocation with which a task goes on whose attempt was just ended for this change, and gave back
        the resources that it held `before`: its own GPUs first, and more if no `others` wait for them by now. None
        where its node cannot begin it: then it waits as any other."""
        node = self._inventory.nodes.get(before.node)
        place = None if node is None else place_of(node, task)
        if node is None or place is None or not self._may_begin(node, task, before):
            return None
        there = place.gpus if isinstance(place, Lease) else range(len(node.spec.gpu_models))
        own = [
            gpu
            for gpu in before.gpus
            if gpu in there
            and gpu not in place.gpu_holders
            and ((closed := place.why_closed(gpu)) is None or closed.key == SETTLING)
        ]
        wanted = change.gpus if change.waiter is None or change.waiter in lab.demands else change.was
        gpus = own[:wanted]
        if change.waiter is None and not is_wanted(lab, task, before, others):
            gpus += more_gpus(lab, task, Part(before.node, own), wanted, counted=0)
        return Allocation(before.node, sorted(gpus)) if len(gpus) >= task.gpus else None

    def _may_begin(self, node: Node, task: Task, before: Part) -> bool:
        """Can the node begin it, as far as is known? One that just said what it has is not online before all of that
        was looked at."""
        if node.state not in (NodeState.ONLINE, NodeState.CONNECTING) or node.cordons or not node.spec.schedulable:
            return False
        is_open = node.is_open_to(task.owner, by_admin=task.by_admin)
        if node.facts_of(before.login) is None or not is_open:
            return False
        request, cluster = request_of(task), self._inventory.cluster
        has_rest = FreeNode(node).fits(request.but_gpus.needs)
        return has_rest and Free(cluster, rows_of_cluster(cluster)).fits(request.shared)
