"""Which nodes there are and which of them take tasks: the registry's changes, draining, giving up. Pure.

Owns the notes on nodes that outlive the master (drained, agent stopped): the piece `nodes` of the state. A node that
leaves the registry while tasks run there stays, without taking new ones, until the last has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from master.core.dispatch import Dispatch
from master.core.gpu_watch import Findings, GpuReport, GpuWatch
from master.core.inventory import TOLD, Node, NodeSpec, NodeState
from master.core.task import Task, TaskState
from wire.errors import ConflictError, NotFoundError

PIECE = "nodes"
RETURNED = "it was returned, and the next sample tells whether it is well"


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a node's agent proves with that it is that node's, when it dials in. The secret is not kept, only its
    SHA-256 in hex. `until`: it opens nothing from then on; None: until it is replaced or revoked. Times in seconds
    since the epoch."""

    id: str
    sha256: str
    by: str
    at: float
    until: float | None = None


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """What people decided about a node. `drained`: why it shall take no tasks; `by`, `at`: who said so, and when
    (seconds since the epoch). `stopped`: who stopped its agent. `aside`: GPUs, by index, that get no tasks until
    somebody returns them, and why. `tokens`: with which its agent may dial in."""

    drained: str | None = None
    by: str = ""
    at: float = 0.0
    stopped: str | None = None
    aside: dict[int, str] = {}
    tokens: tuple[Token, ...] = ()


class Cordon(Dispatch):
    """The ledger and its attempts, with nodes coming, going and being set aside."""

    def __init__(self, specs: tuple[NodeSpec, ...], new_launch_id: Callable[[int, int], str]) -> None:
        super().__init__(specs, new_launch_id)
        self.notes: dict[str, Note] = {}

    def load_notes(self, pieces: Mapping[str, msgspec.Raw]) -> None:
        """Take over what people had decided."""
        piece = pieces.get(PIECE)
        self.notes = msgspec.json.decode(piece, type=dict[str, Note]) if piece else {}
        for name in self.notes:
            if name in self.inventory.nodes:
                self._show_note(name)

    def node(self, name: str) -> Node:
        """The node, or NotFoundError."""
        node = self.inventory.nodes.get(name)
        if node is None:
            known = list(self.inventory.nodes)
            told = ", ".join(known[:TOLD]) + (f" and {len(known) - TOLD} more" if len(known) > TOLD else "")
            raise NotFoundError(f"there is no node {name!r} (nodes: {told or 'none'}); `muster nodes` lists them")
        return node

    # -- the registry -----------------------------------------------------------------------------------------

    def set_nodes(self, specs: tuple[NodeSpec, ...]) -> None:
        """The registry says this now. Nodes come, change, or leave: at once when idle, else after their last task."""
        before = self.inventory.nodes
        wanted = {spec.name: spec for spec in specs}
        for name in [name for name in before if name not in wanted]:
            if before[name].active:
                self.cordon(name, "leaving", "it left the registry: no new tasks, and it goes when its last one ended")
            else:
                self._drop_node(name)
        after = {}
        for name, spec in wanted.items():
            known = name in before
            after[name] = before[name] if known else Node(spec)
            if not known or before[name].spec != spec:
                after[name].respec(spec)
                self._dirty_nodes.add(name)
        # The registry's order is the order of every list; what is leaving comes last.
        self.inventory.nodes = {**after, **{name: node for name, node in before.items() if name not in after}}
        for name in wanted:
            self.cordon(name, "leaving", None)
            self._look_for_twin(name)
            self._show_note(name)
        self.plan_needed = True

    def forget_note(self, name: str) -> None:
        """Forget what was decided about a node: somebody removed it for good. (One that merely left the registry, in
        an edit that went wrong, say, comes back as it was.)"""
        if self.notes.pop(name, None) is not None:
            self._keep_notes()

    def _look_for_twin(self, name: str) -> None:
        """Keep tasks from a node that was renamed while tasks run under its old name: it has the same GPUs."""
        nodes = self.inventory.nodes
        address = nodes[name].spec.address
        twins = [
            twin.name
            for twin in nodes.values()
            if address and twin.spec.address == address and twin.name != name and "leaving" in twin.cordons
        ]
        text = f"it is the machine that {twins[0]} was, whose last tasks must end first" if twins else None
        self.cordon(name, "twin", text if "leaving" not in nodes[name].cordons else None)

    def _drop_node(self, name: str) -> None:
        del self.inventory.nodes[name]
        self._dirty_nodes.add(name)
        for other in self.inventory.nodes:
            self._look_for_twin(other)

    def _end(self, task: Task, state: TaskState, now: float, reason: str | None) -> None:
        places = [part.node for part in task.allocation]
        super()._end(task, state, now, reason)
        for name in places:
            node = self.inventory.nodes.get(name)
            if node is not None and "leaving" in node.cordons and not node.active:
                self._drop_node(name)

    # -- people -----------------------------------------------------------------------------------------------

    def drain(self, name: str, reason: str, by: str, now: float) -> None:
        """Let a node finish what it has and take nothing new, until `resume`."""
        self.node(name)
        note = self.notes.get(name, Note())
        self._note(name, msgspec.structs.replace(note, drained=reason or "drained", by=by, at=now))

    def resume(self, name: str) -> None:
        """Undo `drain`."""
        self.node(name)
        note = self.notes.get(name, Note())
        if note.drained is None:
            raise ConflictError(f"node {name} is not drained")
        self._note(name, msgspec.structs.replace(note, drained=None, by="", at=0.0))

    def set_stopped(self, name: str, by: str | None) -> None:
        """Remember that somebody stopped the node's agent, or with None that it may run again."""
        self.node(name)
        self._note(name, msgspec.structs.replace(self.notes.get(name, Note()), stopped=by))

    def set_tokens(self, name: str, tokens: tuple[Token, ...]) -> None:
        """With these, and no others, the node's agent may dial in from now on."""
        self.node(name)
        self._note(name, msgspec.structs.replace(self.notes.get(name, Note()), tokens=tokens))

    def give_up(self, name: str, by: str, now: float) -> list[int]:
        """End what runs on a node that will not come back: its tasks are lost, their GPUs free. Should it come back,
        whatever is left of them is killed before it takes a task."""
        node = self.node(name)
        if node.state is NodeState.ONLINE:
            raise ConflictError(f"node {name} is online: cancel its tasks instead, or drain it")
        lost = sorted(node.active)
        for task_id in lost:
            self._end(self.tasks[task_id], TaskState.LOST, now, f"node {name} was given up by {by}")
        return lost

    # -- GPUs -------------------------------------------------------------------------------------------------

    def gpus_seen(self, name: str, reports: list[GpuReport], now: float, fault: str = "") -> None:
        """A sample of a node's GPUs came. What is broken is set aside, durably; what is in use by others is kept back
        while it is; a task that runs there goes on. `fault`: what is wrong with the driver as a whole."""
        node = self.inventory.nodes.get(name)
        if node is None:
            return
        count = len(node.spec.gpu_models)
        if fault:
            findings = Findings(dict.fromkeys(range(count), fault), {})
        else:
            findings = node.watch.look(reports, count, node.gpu_holder, now, self._alive_on(node))
        for gpu, reason in findings.broken.items():
            if gpu not in node.aside:
                self.set_aside(name, gpu, reason)
        if findings.kept_back != node.kept_back:
            node.kept_back = findings.kept_back
            node.count_free()
            self._dirty_nodes.add(name)
            self.plan_needed = True

    def _alive_on(self, node: Node) -> dict[str, int]:
        """The tasks that may be alive on a node, by launch id."""
        launches = ((self.tasks[task_id].launch, task_id) for task_id in node.active)
        return {launch.launch_id: task_id for launch, task_id in launches if launch is not None}

    def gpus_expected(self, name: str) -> None:
        """Its agent is about to say how its GPUs are: until then, none is given out. What was seen before the
        connection broke may be over, and somebody else there."""
        node = self.inventory.nodes.get(name)
        if node is not None and node.spec.gpu_models:
            unseen = dict.fromkeys(range(len(node.spec.gpu_models)), "no sample has told of it yet")
            node.kept_back = {**unseen, **node.kept_back}
            node.count_free()
            self._dirty_nodes.add(name)

    def gpus_unseen(self, name: str) -> None:
        """Its samples tell nothing of GPUs (any more): the registry is believed."""
        node = self.inventory.nodes.get(name)
        if node is not None and (node.kept_back or node.watch.newest):
            node.watch = GpuWatch()
            node.kept_back = {}
            node.count_free()
            self._dirty_nodes.add(name)
            self.plan_needed = True

    def set_aside(self, name: str, gpu: int, reason: str) -> None:
        """Give a GPU to nobody until it is returned. Raises NotFoundError."""
        self._check_gpu(name, gpu)
        note = self.notes.get(name, Note())
        self._note(name, msgspec.structs.replace(note, aside={**note.aside, gpu: reason}))

    def return_gpu(self, name: str, gpu: int) -> None:
        """Undo `set_aside`. Where its last sample told a fault, it gets no task before the next one has told whether
        that is still so, and then sets it aside again. Raises NotFoundError, ConflictError."""
        note = self.notes.get(name, Note())
        if gpu not in note.aside:
            self._check_gpu(name, gpu)
            raise ConflictError(f"GPU {gpu} of node {name} is not set aside")
        node = self.inventory.nodes[name]
        report = node.watch.newest.get(gpu)
        if report is not None and report.fault:
            node.kept_back = {**node.kept_back, gpu: RETURNED}
        self._note(name, msgspec.structs.replace(note, aside={g: why for g, why in note.aside.items() if g != gpu}))

    def _check_gpu(self, name: str, gpu: int) -> None:
        count = len(self.node(name).spec.gpu_models)
        if not 0 <= gpu < count:
            raise NotFoundError(f"node {name} has no GPU {gpu} (the registry counts {count})")

    # -- notes ------------------------------------------------------------------------------------------------

    def _note(self, name: str, note: Note) -> None:
        if note == Note():
            self.notes.pop(name, None)
        else:
            self.notes[name] = note
        self._show_note(name)
        self._keep_notes()

    def _keep_notes(self) -> None:
        self._pieces[PIECE] = msgspec.Raw(msgspec.json.encode(self.notes))

    def _show_note(self, name: str) -> None:
        note = self.notes.get(name, Note())
        drained = None if note.drained is None else f"drained by {note.by or 'somebody'}: {note.drained}"
        stopped = None if note.stopped is None else f"its agent was stopped by {note.stopped}"
        self.cordon(name, "drained", drained)
        self.cordon(name, "stopped", stopped)
        node = self.inventory.nodes[name]
        if node.aside != note.aside:
            node.aside = note.aside
            node.count_free()
            self._dirty_nodes.add(name)
            self.plan_needed = True
