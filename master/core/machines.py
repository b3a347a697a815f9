"""Which machine answers in a node's name, and of which attempts it can know.

Pure. A machine is known by its own id and its boot's, by the address where it was, and by the state folder of its
agent; names are what people change.
"""

from __future__ import annotations

import msgspec

from master.core.attempt import Seen
from master.core.book import Book
from master.core.inventory import LEAVING, TOLD, Facts, Node, NodeState
from master.core.nodes import SAME, Nodes
from master.core.task import Launch
from wire.message import Message

ADOPTS = 2
"""Agents from this protocol on can be told of attempts that they have not claimed."""


class Machines:
    """The machines behind the nodes' names."""

    def __init__(self, book: Book, nodes: Nodes) -> None:
        self._book = book
        self._nodes = nodes

    # -- one machine under two names --------------------------------------------------------------------------

    def same(self, name: str, facts: Facts) -> tuple[str, str] | None:
        """What answers in this node's name is another entry's machine: that entry, and what to say. It was entered
        twice, or renamed while no master was there to see it; its GPUs would be given out under both names. None where
        it is not, or where tasks of this entry run there: then it is served, and takes no new ones."""
        node = self._nodes.get(name)
        others = [other for other in self._nodes.inventory.nodes.values() if other.name != name]
        other = next((other for other in others if node and self._is_same(node, other, facts)), None)
        if node is None or other is None:
            self._nodes.cordon(name, SAME, None)
            return None
        if LEAVING in other.cordons:
            twice = Message("machine_was", node=other.name)
        else:
            twice = Message("machine_is", node=other.name, name=name)
        self._nodes.cordon(name, SAME, twice if node.active else None)
        return None if node.active else (other.name, str(twice))

    def _is_same(self, node: Node, other: Node, facts: Facts) -> bool:
        """Entries of the master's own machine, and agents that dial in, are as many as somebody wants."""
        launches = self._launches_on(other).values()
        by_ssh = [node.spec.address, other.spec.address, *(launch.address for launch in launches)]
        if not facts.identity or not any(by_ssh):
            return False
        known = other.facts if other.state in (NodeState.ONLINE, NodeState.CONNECTING) else None
        if known is not None and (known.identity, known.boot_id) == (facts.identity, facts.boot_id):
            return True
        here = (facts.boot_id, node.spec.address)
        return any(launch.machine == facts.machine != "" and _was_at(launch, *here) for launch in launches)

    # -- another machine, or another folder, under one name ---------------------------------------------------

    def stranger(self, name: str, facts: Facts) -> str | None:
        """Why what answers in a node's name cannot speak for the attempts that were started there; None if it can.

        Another state folder knows nothing of them. They are over if the machine restarted; if it did not, or if it is
        another machine (the address was changed in the registry), they may be alive and would be given up for nothing.
        """
        node = self._nodes.get(name)
        alive = self._unspoken_for(node, facts) if node is not None else {}
        if node is None or not alive:
            return None
        ids = ", ".join(map(str, list(alive)[:TOLD])) + ("…" if len(alive) > TOLD else "")
        address = next(iter(alive.values())).address
        cure = f"or give them up with `muster node lost {name}`"
        if address and address != node.spec.address:
            return (
                f"{node.spec.address} is not where tasks {ids} were started ({address}): put that back until they have "
                f"ended, {cure}"
            )
        return (
            f"its agent has another state folder than that in which tasks {ids} were started, and the machine has not "
            f"restarted since: put the folder back, {cure}"
        )

    def adoptable(self, name: str, facts: Facts) -> list[Seen]:
        """What to tell an agent whose state folder is another than that in which its tasks were started, so that it can
        look after them; nothing where it is another machine, or has restarted, or does not know the word."""
        node = self._nodes.get(name)
        if node is None or facts.protocol < ADOPTS:
            return []
        alive = self._unspoken_for(node, facts)
        if not all(_is_same_run(launch, facts, node.spec.address) for launch in alive.values()):
            return []
        tasks = self._book.tasks
        return [
            Seen(launch.launch_id, tasks[task_id].started_at, pid=launch.pid, pid_start=launch.pid_start)
            for task_id, launch in alive.items()
        ]

    def adopted(self, name: str, facts: Facts, seen: list[Seen]) -> None:
        """The agent was told, and has these: from now on their claims are in its folder."""
        node = self._nodes.get(name)
        known = {attempt.launch_id for attempt in seen}
        for task_id, launch in self._unspoken_for(node, facts).items() if node is not None else ():
            if launch.launch_id in known:
                task = self._book.tasks[task_id]
                task.launch = msgspec.structs.replace(launch, state_id=facts.state_id)
                self._book.changed(task)

    def _unspoken_for(self, node: Node, facts: Facts) -> dict[int, Launch]:
        """The attempts, by task, that may be alive and of which an agent with these facts cannot know."""
        launches = self._launches_on(node).items()
        return {number: launch for number, launch in launches if _may_be_alive(launch, facts, node.spec.address)}

    def _launches_on(self, node: Node) -> dict[int, Launch]:
        launches = ((task_id, self._book.tasks[task_id].launch) for task_id in sorted(node.active))
        return {task_id: launch for task_id, launch in launches if launch is not None}


def _was_at(launch: Launch, boot_id: str, address: str) -> bool:
    """Machines that were copied from one image have one id: was it this one, then?"""
    return launch.boot_id == boot_id or bool(address and launch.address == address)


def _may_be_alive(launch: Launch, facts: Facts, address: str) -> bool:
    """May an attempt run on although the agent that answers cannot know of it?"""
    if launch.state_id == facts.state_id:
        return False
    return launch.boot_id == facts.boot_id or bool(launch.address and launch.address != address)


def _is_same_run(launch: Launch, facts: Facts, address: str) -> bool:
    """Is it the machine on which this was started, and has it not restarted since?"""
    same_machine = not (launch.machine and facts.machine) or launch.machine == facts.machine
    return launch.boot_id == facts.boot_id and same_machine and (launch.address or address) == address
