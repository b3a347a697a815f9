"""Decisions of people about nodes, and findings about nodes that outlive the master: the piece `nodes` of the state.

Pure. A note of a node that is not there is kept: one that merely left the registry, in an edit that went wrong, say,
comes back as it was.
"""

from collections.abc import Mapping
from math import inf
from typing import Any, Literal

import msgspec

from master.core.nodes.nodes import Nodes
from master.core.outcome import Pending
from master.core.people.clock import Clock
from wire.message import Message

PIECE = "nodes"
DRAINED, STOPPED, SICK = "drained", "stopped", "sick"
"""The kinds of the cordons that a note puts up. Sick is a node that could start nothing."""


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of the token with which a node's agent proves, when it dials in, that it is that node's agent. The
    secret is not kept, only its SHA-256 in hex. `until`: it opens nothing from then on; None: until it is replaced or
    revoked. Times in seconds since the epoch."""

    id: str
    sha256: str
    by: str
    at: float
    until: float | None = None


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """Decisions of people about a node, and findings about it. `drained`: why it shall take no tasks; `by`, `at`: who
    said so, and when (seconds since the epoch). `stopped`: who stopped its agent. `aside`: GPUs, by index, that get no
    tasks until somebody returns them, and why. `tokens`: with which its agent may dial in. `sick`: what kept the whole
    node from starting anything. `as_owners`: tasks ran as their owners there when its agent last said so; `here`: on
    the master's own machine. `account_here`: its agent's, as which all tasks ran on the master's own machine then; ""
    where they ran as others, or elsewhere."""

    drained: str | None = None
    by: str = ""
    at: float = 0.0
    stopped: str | None = None
    aside: dict[int, str] = {}
    tokens: tuple[Token, ...] = ()
    sick: str | None = None
    as_owners: Literal["", "there", "here"] = ""
    account_here: str = ""


class Notes:
    """`of`: the notes by the name of the node; of a node of which there is nothing to say there is none."""

    def __init__(self, nodes: Nodes, pending: Pending, clock: Clock) -> None:
        self.of: dict[str, Note] = {}
        self._clock = clock
        self._nodes = nodes
        self._pending = pending

    def load(self, pieces: Mapping[str, msgspec.Raw]) -> None:
        """Take over what was written down."""
        piece = pieces.get(PIECE)
        if piece:
            self.of.update(msgspec.json.decode(piece, type=dict[str, Note]))
        self.show()

    def show(self) -> None:
        """Let every node be as its note says: some may have come."""
        for name in list(self._nodes.inventory.nodes):
            self._show(name)

    def get(self, name: str) -> Note:
        """Return the note of a node, even if it is empty."""
        return self.of.get(name, Note())

    def change(self, name: str, **changes: Any) -> None:
        """Write these fields of a node's note anew. Raises NotFoundError for a node that is not there."""
        self._nodes.find(name)
        note = msgspec.structs.replace(self.get(name), **changes)
        if note == Note():
            self.of.pop(name, None)
        else:
            self.of[name] = note
        self._show(name)
        self._keep()

    def forget(self, name: str) -> None:
        """Forget what was decided about a node: somebody removed it for good."""
        if self.of.pop(name, None) is not None:
            self._keep()

    def drain(self, name: str, reason: str, by: str, now: float) -> None:
        """Let a node finish what it has and take nothing new, until it is resumed."""
        self.change(name, drained=reason or "drained", by=by, at=now)

    def set_stopped(self, name: str, by: str | None) -> None:
        """Remember that somebody stopped the node's agent, or with None that it may run again."""
        self.change(name, stopped=by)

    def set_tokens(self, name: str, tokens: tuple[Token, ...]) -> None:
        """With these, and no others, the node's agent may dial in from now on."""
        self.change(name, tokens=tokens)
        for token in tokens:
            self._clock.ends(token.until)

    def end_tokens(self, now: float) -> float:
        """Forget the tokens that open nothing any more since their time is over; when the next one ends (seconds since
        the epoch), infinite: none does."""
        ends = {one.until for note in self.of.values() for one in note.tokens if one.until is not None}
        if ends and min(ends) <= now:
            for name, note in list(self.of.items()):
                left = tuple(one for one in note.tokens if one.until is None or now < one.until)
                self.of[name] = msgspec.structs.replace(note, tokens=left)
                if self.of[name] == Note():
                    del self.of[name]
            self._keep()
        return min((end for end in ends if end > now), default=inf)

    def set_as_owners(self, name: str, where: Literal["", "there", "here"], account_here: str = "") -> None:
        """Remember whether tasks run as their owners there, or all as one account of the master's machine."""
        note = self.get(name)
        if (note.as_owners, note.account_here) != (where, account_here):
            self.change(name, as_owners=where, account_here=account_here)

    def _keep(self) -> None:
        self._pending.piece(PIECE, msgspec.Raw(msgspec.json.encode(self.of)))

    def _show(self, name: str) -> None:
        note = self.get(name)
        drained = None if note.drained is None else Message("drained", by=note.by or "somebody", said=note.drained)
        stopped = None if note.stopped is None else Message("agent_stopped", by=note.stopped)
        sick = None if note.sick is None else Message("set_aside", said=note.sick, name=name)
        self._nodes.cordon(name, DRAINED, drained)
        self._nodes.cordon(name, STOPPED, stopped)
        self._nodes.cordon(name, SICK, sick)
        node = self._nodes.find(name)
        if node.aside != note.aside:
            node.aside = note.aside
            node.count_free()
            self._pending.node_for_plan(name)
