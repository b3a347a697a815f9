"""Which GPUs may be given out, by what samples show and by what people set aside.

Pure. What is broken is set aside, durably, in the node's note; what others use is kept back while they do. How a sample
is read is `gpu_watch`'s.
"""

from __future__ import annotations

from master.core.attempt import part_on
from master.core.book import Book
from master.core.gpu_watch import RETURNED, UNSEEN, Findings, GpuReport, GpuWatch
from master.core.inventory import Node
from master.core.nodes import Nodes
from master.core.notes import Notes
from master.core.outcome import Pending
from wire.errors import ConflictError, NotFoundError
from wire.message import Message


class Gpus:
    """The GPUs of all nodes."""

    def __init__(self, book: Book, nodes: Nodes, notes: Notes, pending: Pending) -> None:
        self._book = book
        self._nodes = nodes
        self._notes = notes
        self._pending = pending

    def seen(self, name: str, reports: list[GpuReport], now: float, fault: str = "") -> None:
        """A sample of a node's GPUs came. What is broken is set aside, durably; what is in use by others is kept back
        while it is; a task that runs there goes on. `fault`: what is wrong with the driver as a whole."""
        node = self._nodes.get(name)
        if node is None:
            return
        count = len(node.spec.gpu_models)
        if fault:
            findings = Findings(dict.fromkeys(range(count), Message("gpu_fault", said=fault)), {})
        else:
            findings = node.watch.look(reports, count, node.gpu_holder, now, self._alive_on(node))
        for gpu, reason in findings.broken.items():
            if gpu not in node.aside:
                self.set_aside(name, gpu, reason)
        if findings.kept_back != node.kept_back:
            node.kept_back = findings.kept_back
            node.count_free()
            self._pending.node_for_plan(name)

    def expected(self, name: str) -> None:
        """Its agent is about to say how its GPUs are: until then, none is given out. What was seen before the
        connection broke may be over, and somebody else there."""
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

    def _alive_on(self, node: Node) -> dict[str, int]:
        """The tasks that may be alive on a node, by launch id."""
        parts = ((task_id, part_on(self._book.tasks[task_id].allocation, node.name)) for task_id in node.active)
        return {part.launch_id: task_id for task_id, part in parts if part is not None}

    def _check(self, name: str, gpu: int) -> None:
        count = len(self._nodes.find(name).spec.gpu_models)
        if not 0 <= gpu < count:
            raise NotFoundError(Message("no_gpu", node=name, gpu=gpu, count=count))
