"""What is alive on a node and nobody owns any more: it is ended, and the node takes nothing before it is dead.

Pure. What was given up may run on, on a GPU that is free in the books.
"""

from __future__ import annotations

from master.core.effects import Ack, Kill
from master.core.exits import Seen
from master.core.nodes import Nodes
from master.core.outcome import Pending
from wire.message import Message

REMNANTS = "remnants"
"""The kind of the cordon."""


class Remnants:
    """The remnants on all nodes; each node counts its own."""

    def __init__(self, nodes: Nodes, pending: Pending) -> None:
        self._nodes = nodes
        self._pending = pending

    def end(self, name: str, unowned: list[Seen]) -> None:
        """The agent has these, and these only, beyond what it should: what runs is killed, what ended forgotten."""
        node = self._nodes.get(name)
        if node is None:
            return  # its last task ended just now, and it was leaving
        node.remnants = {one.launch_id for one in unowned if one.exit is None}
        for one in unowned:
            self._pending.effect((Ack if one.exit else Kill)(name, one.launch_id))
        self._show(name, len(node.remnants))

    def ended(self, name: str, launch_id: str) -> None:
        """One may have died."""
        node = self._nodes.get(name)
        if node is not None and launch_id in node.remnants:
            node.remnants.discard(launch_id)
            self._show(name, len(node.remnants))

    def _show(self, name: str, left: int) -> None:
        self._nodes.cordon(name, REMNANTS, Message("remnants", count=left) if left else None)
