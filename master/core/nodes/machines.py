"""Which machine answers in a node's name, and of which attempts it can know.

Pure. A machine is known by its own id and its boot's (whose they are, the `identities` know), by the address where it
was, and by the state folder of its agent; names are what people change.
"""

from __future__ import annotations

from master.core.attempts.exits import Seen
from master.core.nodes.accounts import OWN
from master.core.nodes.identities import Identities
from master.core.nodes.inventory import LEAVING, TOLD, Facts, Node, NodeState
from master.core.nodes.nodes import SAME, Nodes
from master.core.tasks.attempt import Part, part_on, with_known
from master.core.tasks.task import Task
from master.core.tasks.task_table import TaskTable
from wire.message import Message, Several

ADOPTS = 2
"""Agents from this protocol on can be told of attempts that they have not claimed."""


class Machines:
    """The machines behind the nodes' names."""

    def __init__(self, task_table: TaskTable, nodes: Nodes, identities: Identities) -> None:
        self._task_table = task_table
        self._nodes = nodes
        self._identities = identities

    # -- one machine under two names --------------------------------------------------------------------------

    def same(self, name: str, facts: Facts) -> tuple[str, Message] | None:
        """Find out whether the agent that answers in this node's name tells the ids of another entry's machine; return
        that entry, and what to say. The machine was entered twice, or renamed while no master was there to see it, and
        its GPUs would be given out under both names; or it lies. The entry that had the ids first keeps them, also
        while it is away. None where it is not, or where tasks of this entry run there: then it is served, and takes no
        new ones."""
        node = self._nodes.get(name)
        if node is None:
            return None
        others = self._same_as(node, facts)
        before = next((other for other in others if not self._yields(other, name, facts)), None)
        if before is not None:
            return self._refuse(node, before, facts)
        for other in others:
            self._identities.lose(other.name, name, facts)
            self._nodes.cordon(other.name, SAME, _twice(other, node))
        self._nodes.cordon(name, SAME, None)
        if facts.identity:
            self._identities.serve(node, facts, self._nodes.inventory.nodes)
        return None

    def late(self, name: str) -> Message | None:
        """That this entry had a machine id of its own and says now that of another entry, which had it first: it was
        set up from a copy of that machine, or lies. It is served, and gives way to the other. None where it is not so.
        """
        node, nodes = self._nodes.get(name), self._nodes.inventory.nodes
        others = (nodes[other] for other in self._identities.late(name) if other in nodes)
        other = next((one for one in others if node is not None and not _are_several(node, one)), None)
        return None if other is None else Message("machine_changed", node=other.name, name=name)

    def _yields(self, other: Node, name: str, facts: Facts) -> bool:
        return LEAVING not in other.cordons and self._identities.precedes(name, other.name, facts)

    def _refuse(self, node: Node, other: Node, facts: Facts) -> tuple[str, Message] | None:
        if LEAVING in other.cordons:
            twice = Message("machine_was", node=other.name)
        else:
            twice = _twice(node, other)
            self._identities.refuse(node.name, other.name, facts)
        self._nodes.cordon(node.name, SAME, twice if node.active else None)
        return None if node.active else (other.name, twice)

    def _same_as(self, node: Node, facts: Facts) -> list[Node]:
        if not facts.identity:
            return []
        holders = self._identities.holders(node.name, facts)
        # An entry that had this machine's id is no other one, whatever tasks were started under that id elsewhere.
        by_tasks = facts.machine and not self._identities.owned(node.name, facts.identity)
        return [
            other
            for other in self._nodes.inventory.nodes.values()
            if (other.name in holders or _is_there(other, facts) or (by_tasks and other.active))
            and other is not node
            and self._is_same(node, other, facts, is_there=other.name in holders or _is_there(other, facts))
        ]

    def _is_same(self, node: Node, other: Node, facts: Facts, *, is_there: bool) -> bool:
        """Entries of the master's own machine, agents that dial in, and entries that declare their GPUs are as many as
        somebody wants. One that left while its tasks run was renamed if its address is this one's, or if no other
        entry may be the new one."""
        parts = self._parts_on(other).values()
        if _are_several(node, other, *(part.address for part in parts)) and not (
            LEAVING in other.cordons and (any(_was_sent_to(part, node) for part in parts) or self._is_only(node, facts))
        ):
            return False
        return is_there or any(
            part.machine == facts.machine and _was_at(part, facts.boot_id, node.address_of(part.login))
            for part in parts
        )

    def elsewhere(self, name: str, facts: Facts) -> Message | None:
        """Why what an account's agent says cannot be of this node: it is in another machine, or in another run of it,
        than the node's own; None where it is in the same, or that one is away."""
        node = self._nodes.get(name)
        own = node.facts if node is not None and node.state is NodeState.ONLINE else None
        if own is None or (own.identity, own.boot_id) == (facts.identity, facts.boot_id):
            return None
        return Message("account_elsewhere", node=name)

    def _is_only(self, node: Node, facts: Facts) -> bool:
        """Is it the only one that may be of this machine and stays, of the entries that may be several?"""
        nodes = self._nodes.inventory.nodes.values()
        several = (one for one in nodes if not one.spec.address or one.spec.is_declared)
        stay = [one for one in several if LEAVING not in one.cordons and one is not node]
        return all(one.facts is not None and one.facts.identity not in ("", facts.identity) for one in stay)

    # -- another machine, or another folder, under one name ---------------------------------------------------

    def stranger(self, name: str, facts: Facts, login: str = OWN) -> Message | None:
        """Why what answers in a node's name cannot speak for the attempts that were started there; None if it can.

        Another state folder knows nothing of them. They are over if the machine restarted; if it did not, or if it is
        another machine (the address was changed in the registry), they may be alive and would be given up for nothing.
        """
        node = self._nodes.get(name)
        alive = self._unspoken_for(node, facts, login) if node is not None else {}
        if node is None or not alive:
            return None
        tasks = Several(tuple(map(str, list(alive)[:TOLD])), len(alive), max(0, len(alive) - TOLD))
        before, address = next(iter(alive.values())).address, node.address_of(login)
        if before and before != address:
            return Message("tasks_elsewhere", tasks=tasks, before=before, address=address, name=name)
        return Message("tasks_in_other_folder", tasks=tasks, name=name)

    def adoptable(self, name: str, facts: Facts, login: str = OWN) -> list[Seen]:
        """Return what to tell an agent whose state folder is another than that in which its tasks were started, so that
        it can look after them; nothing where it is another machine, or has restarted, or does not know this message."""
        node = self._nodes.get(name)
        if node is None or facts.protocol < ADOPTS:
            return []
        alive = self._unspoken_for(node, facts, login)
        if not all(_is_same_run(part, facts, node.address_of(login)) for part in alive.values()):
            return []
        return [_as_known(part, self._task_table.tasks[task_id]) for task_id, part in alive.items()]

    def unaccounted(self, name: str, facts: Facts, seen: list[Seen], login: str = OWN) -> list[Seen]:
        """Return what to tell an agent that says it has these, and whose state folder is that in which its tasks were
        started: those that ran and are not among them, and those that it is in doubt of. Their records may have been
        lost, and what they are of may live. Nothing where it does not know this message."""
        node, known = self._nodes.get(name), {one.launch_id: one for one in seen}
        if node is None or facts.protocol < ADOPTS:
            return []
        return [
            _as_known(part, self._task_table.tasks[task_id])
            for task_id, part in self._parts_on(node).items()
            if part.login == login and not part.ended_at and _is_unaccounted(part, facts, known.get(part.launch_id))
        ]

    def adopted(self, name: str, facts: Facts, seen: list[Seen], login: str = OWN) -> None:
        """The agent was told, and has these: from now on their claims are in its folder."""
        node = self._nodes.get(name)
        known = {one.launch_id for one in seen}
        for task_id, part in self._unspoken_for(node, facts, login).items() if node is not None else ():
            if part.launch_id in known:
                task = self._task_table.tasks[task_id]
                task.allocation = with_known(task.allocation, part.launch_id, state_id=facts.state_id)
                self._task_table.changed(task)

    def _unspoken_for(self, node: Node, facts: Facts, login: str) -> dict[int, Part]:
        """The attempts of this account, by task, that may be alive and of which an agent with these facts cannot
        know."""
        parts = [(number, part) for number, part in self._parts_on(node).items() if part.login == login]
        return {number: part for number, part in parts if _may_be_alive(part, facts, node.address_of(login))}

    def _parts_on(self, node: Node) -> dict[int, Part]:
        """The parts of attempts that were sent to a node, by task."""
        tasks = ((task_id, self._task_table.tasks[task_id]) for task_id in sorted(node.active))
        parts = ((task_id, part_on(task.allocation, node.name)) for task_id, task in tasks)
        return {task_id: part for task_id, part in parts if part is not None}


def _are_several(node: Node, other: Node, *addresses: str) -> bool:
    """May these be two entries of one machine? `addresses`: where tasks of theirs were started, too."""
    if node.spec.is_declared or other.spec.is_declared:
        return True
    return not any((node.spec.address, other.spec.address, *addresses))


def _twice(node: Node, other: Node) -> Message:
    """Why an entry is not served that is the machine of another one."""
    ours, theirs = (one.spec.address.rpartition("@")[0] for one in (node, other))
    if ours and theirs and ours != theirs:
        return Message("machine_is_over", node=other.name, name=node.name, user=ours, other=theirs)
    return Message("machine_is", node=other.name, name=node.name)


def _is_there(node: Node, facts: Facts) -> bool:
    """Does another entry's agent say that it is this machine, as far as can be known now?"""
    known = node.facts if node.state in (NodeState.ONLINE, NodeState.CONNECTING) else None
    return known is not None and (known.identity, known.boot_id) == (facts.identity, facts.boot_id)


def _was_at(part: Part, boot_id: str, address: str) -> bool:
    """Machines that were copied from one image have one id: was it this one, then?"""
    return part.boot_id == boot_id or bool(address and part.address == address)


def _was_sent_to(part: Part, node: Node) -> bool:
    return bool(part.address) and part.address == node.address_of(part.login)


def _as_known(part: Part, task: Task) -> Seen:
    """Return what was written down of it."""
    return Seen(
        part.launch_id,
        _by_its_clock(part, task.started_at),
        pid=part.pid,
        pid_start=part.pid_start,
        run_as=part.run_as,
        log_path=task.log_path,
    )


def _is_unaccounted(part: Part, facts: Facts, found: Seen | None) -> bool:
    """Of what was sent and never heard of the launch is sent again, so an agent need not have it."""
    if found is not None:
        return found.doubt
    return bool(part.pid) and (part.boot_id, part.state_id) == (facts.boot_id, facts.state_id)


def _by_its_clock(part: Part, at: float | None) -> float | None:
    """A time as the node would tell it."""
    return None if at is None else at + (part.clock_offset_s or 0.0)


def _may_be_alive(part: Part, facts: Facts, address: str) -> bool:
    """May an attempt run on although the agent that answers cannot know of it?"""
    if part.state_id == facts.state_id:
        return False
    return part.boot_id == facts.boot_id or bool(part.address and part.address != address)


def _is_same_run(part: Part, facts: Facts, address: str) -> bool:
    """Is it the machine on which this was started, and has it not restarted since?"""
    same_machine = not (part.machine and facts.machine) or part.machine == facts.machine
    return part.boot_id == facts.boot_id and same_machine and (part.address or address) == address
