"""What is alive on a node and nobody owns any more: it is ended, and the node takes nothing before it is dead.

Pure. What was given up may run on, on a GPU that is free in the books.
"""

from __future__ import annotations

from master.core.accounts import OWN
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

    def end(self, name: str, unowned: list[Seen], login: str = OWN) -> None:
        """The agent, of this account, has these, and these only, beyond what it should: what runs is killed, what ended
        forgotten."""
        node = self._nodes.get(name)
        if node is None:
            return  # its last task ended just now, and it was leaving
        others = {launch_id: of for launch_id, of in node.remnants.items() if of != login}
        node.remnants = {**others, **{one.launch_id: login for one in unowned if one.exit is None}}
        for one in unowned:
            self._pending.effect((Ack if one.exit else Kill)(name, one.launch_id, login))
        self._show(name, len(node.remnants))

    def ended(self, name: str, launch_id: str, login: str = OWN) -> None:
        """One may have died, as the agent of this account says."""
        node = self._nodes.get(name)
        if node is not None and node.remnants.get(launch_id) == login:
            del node.remnants[launch_id]
            self._show(name, len(node.remnants))

    def give_up(self, name: str, login: str = OWN) -> None:
        """What the agent of this account had is not waited for any more: nobody can tell when it ends. It is told again
        should that agent come back."""
        node = self._nodes.get(name)
        if node is not None and login in node.remnants.values():
            node.remnants = {launch_id: of for launch_id, of in node.remnants.items() if of != login}
            self._show(name, len(node.remnants))

    def _show(self, name: str, left: int) -> None:
        self._nodes.cordon(name, REMNANTS, Message("remnants", count=left) if left else None)
