"""Which GPUs may be given out, by what samples show and by what people set aside.

Pure. A broken GPU is set aside, durably, in the node's note; one that others use is kept back while they do. How a
sample is read is `gpu_watch`'s.
"""

from __future__ import annotations

from msgspec.structs import replace

from master.core.nodes.cards import OUTGROWN, Card
from master.core.nodes.gpu_watch import RETURNED, UNSEEN, Findings, GpuReport, GpuWatch, Holder
from master.core.nodes.inventory import Node
from master.core.nodes.nodes import Nodes
from master.core.nodes.notes import Notes
from master.core.nodes.outgrown import OutgrownShares
from master.core.nodes.strays import StrayTasks
from master.core.outcome import Pending
from master.core.tasks.attempt import part_on
from master.core.tasks.backlog import Backlog
from master.core.tasks.task_table import TaskTable
from wire.errors import ConflictError, NotFoundError
from wire.message import Message

MORE_MIB, MORE_PERCENT = 64, 5.0
"""So much more of a GPU's memory, or of its time, is worth another look at who waits for it."""


class Gpus:
    """The GPUs of all nodes. `outgrown`: looks after tasks that use more of one than they were given; `strays`: after
    tasks that use one which they were not given."""

    def __init__(
        self,
        task_table: TaskTable,
        nodes: Nodes,
        notes: Notes,
        pending: Pending,
        backlog: Backlog,
        *,
        outgrown: OutgrownShares,
        strays: StrayTasks,
    ) -> None:
        self.outgrown = outgrown
        self.strays = strays
        self._backlog = backlog
        self._planned_with: dict[str, list[tuple[int, float]]] = {}
        self._kinds: dict[str, tuple[GpuWatch, list[tuple[str, int | None]]]] = {}
        self._task_table = task_table
        self._nodes = nodes
        self._notes = notes
        self._pending = pending

    def seen(self, name: str, reports: list[GpuReport], now: float, fault: str = "") -> None:
        """A sample of a node's GPUs came. A broken GPU is set aside, durably; one that others use is kept back while
        they do; a task that runs there goes on. `fault`: what is wrong with the driver as a whole."""
        node = self._nodes.get(name)
        if node is None:
            return
        count = len(node.spec.gpu_models)
        if fault:
            findings = Findings(dict.fromkeys(range(count), Message("gpu_fault", said=fault)), {})
        else:
            told = self._of_accounts(node, reports)
            findings = node.watch.look(told, count, node.used_gpus, now, self._alive_on(node))
            self.outgrown.look(node, now)
            self.strays.look(node)
        findings.kept_back.update(_used_by_unknown(node, reports))
        for gpu, reason in findings.broken.items():
            if gpu not in node.aside:
                self.set_aside(name, gpu, reason)
        self._pending.sampled.add(name)
        if findings.kept_back != node.kept_back:
            node.kept_back = findings.kept_back
            node.count_free()
            self._pending.node_for_plan(name)
        elif self._backlog.looks and self._has_more(node):
            self._pending.plan_needed = True

    def _has_more(self, node: Node) -> bool:
        """Is there notably more of a GPU for those that would share it than when the planner was last asked for
        that? Or is it known by now what it is? Of samples before a time without any nothing is known any more."""
        cards = [Card(node, gpu) for gpu in range(len(node.spec.gpu_models))]
        kinds = [(card.shown, card.total_mib) for card in cards]
        watch, before_that = self._kinds.get(node.name, (None, None))
        if watch is not node.watch or kinds != before_that:
            self._kinds[node.name] = (node.watch, kinds)
            self._planned_with.pop(node.name, None)
        now = [(0 if card.closed == OUTGROWN else card.left_mib or 0, card.free_util) for card in cards]
        before = self._planned_with.get(node.name, [])
        less = [(min(mib, was), min(util, idle)) for (mib, util), (was, idle) in zip(now, before, strict=False)]
        if len(now) == len(before) and not any(
            mib - was >= MORE_MIB or util - idle >= MORE_PERCENT
            for (mib, util), (was, idle) in zip(now, before, strict=True)
        ):
            self._planned_with[node.name] = less
            return False
        self._planned_with[node.name] = now
        return True

    def expected(self, name: str) -> None:
        """Its agent is about to say how its GPUs are: until then, none is given out. A use that was seen before the
        connection broke may be over, and another one may have begun."""
        node = self._nodes.get(name)
        if node is not None and node.spec.gpu_models:
            unseen = dict.fromkeys(range(len(node.spec.gpu_models)), UNSEEN)
            node.kept_back = {**unseen, **node.kept_back}
            node.count_free()
            self._pending.node(name)

    def unseen(self, name: str) -> None:
        """Its samples tell nothing of GPUs (any more): the registry is believed."""
        node = self._nodes.get(name)
        if node is not None and (node.kept_back or node.watch.newest):
            node.watch = GpuWatch()
            self.strays.look(node)
            node.kept_back = {}
            node.count_free()
            self._pending.node_for_plan(name)

    def set_aside(self, name: str, gpu: int, reason: str) -> None:
        """Give a GPU to nobody until it is returned. Raises NotFoundError."""
        self._check(name, gpu)
        self._notes.change(name, aside={**self._notes.get(name).aside, gpu: reason})

    def give_back(self, name: str, gpu: int) -> None:
        """Undo `set_aside`. Where its last sample told a fault, it gets no task before the next one has told whether
        that is still so, and then sets it aside again. Raises NotFoundError, ConflictError."""
        aside = self._notes.get(name).aside
        if gpu not in aside:
            self._check(name, gpu)
            raise ConflictError(Message("gpu_not_aside", gpu=gpu, node=name))
        node = self._nodes.find(name)
        report = node.watch.newest.get(gpu)
        if report is not None and report.fault:
            node.kept_back = {**node.kept_back, gpu: RETURNED}
        self._notes.change(name, aside={other: why for other, why in aside.items() if other != gpu})

    def _of_accounts(self, node: Node, reports: list[GpuReport]) -> list[GpuReport]:
        """The node's own agent may not look into the processes of other accounts, so it cannot tell whether they are
        tasks' of ours: on a GPU that a task of an account holds, those of the account are taken for the task's."""
        if not node.accounts.are_used:
            return reports
        parts = [part_on(self._task_table.tasks[task_id].allocation, node.name) for task_id in node.active]
        ours = {(gpu, part.login): part.launch_id for part in parts if part and part.login for gpu in part.gpus}
        return [
            replace(
                report, processes=tuple(_as_of(one, ours.get((report.index, one.user))) for one in report.processes)
            )
            for report in reports
        ]

    def _alive_on(self, node: Node) -> dict[str, int]:
        """The tasks that may be alive on a node, by launch id."""
        parts = ((task_id, part_on(self._task_table.tasks[task_id].allocation, node.name)) for task_id in node.active)
        return {part.launch_id: task_id for task_id, part in parts if part is not None}

    def _check(self, name: str, gpu: int) -> None:
        count = len(self._nodes.find(name).spec.gpu_models)
        if not 0 <= gpu < count:
            raise NotFoundError(Message("no_gpu", node=name, gpu=gpu, count=count))


def _used_by_unknown(node: Node, reports: list[GpuReport]) -> dict[int, Message]:
    """The GPUs on which attempts of unknown origin compute, whatever their launch said, and why nobody gets them."""
    if not node.unknown:
        return {}
    unknown = {launch for launch, _ in node.unknown}
    seen = [(report.index, one.launch_id) for report in reports for one in report.processes]
    used = ((gpu, launch) for gpu, launch in seen if launch in unknown and gpu not in node.gpu_holders)
    return {gpu: Message("gpu_unknown_attempt", launch=launch, node=node.name) for gpu, launch in used}


def _as_of(holder: Holder, launch_id: str | None) -> Holder:
    return holder if holder.launch_id or launch_id is None else replace(holder, launch_id=launch_id)
