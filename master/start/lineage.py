"""Which master this is to its agents: the cluster, and the epoch of each start, of which agents obey only descendants.

Owns the piece of state that says so, and that a start is numbered durably before an agent receives anything.
"""

from __future__ import annotations

import logging
import secrets

import msgspec

from master.core.tasks.records import Change
from master.durable.salvage import START_OVER
from master.durable.store import Store
from wire import agent as wire

log = logging.getLogger("muster")

LINEAGE_KEPT = 64
EPOCHS_SKIPPED = 10_000
"""More starts than can have been in what was lost of a journal."""


class Lineage(msgspec.Struct):
    """Which master this is: the piece of state that agents check. `epochs`: [epoch, incarnation], oldest first."""

    cluster: str
    epochs: list[tuple[int, str]] = []

    def next(self) -> None:
        """Begin the epoch of this start."""
        last = self.epochs[-1][0] if self.epochs else 0
        self.epochs = [*self.epochs, (last + 1, secrets.token_hex(8))][-LINEAGE_KEPT:]

    def start_over(self) -> None:
        """Begin an epoch after some that nobody knows any more: far beyond them, and without ancestors, so that agents
        which obeyed one of them obey this."""
        last = self.epochs[-1][0] if self.epochs else 0
        self.epochs = [(last + EPOCHS_SKIPPED, secrets.token_hex(8))]

    def hello(self) -> wire.Hello:
        """Return the first message to every agent."""
        epoch, incarnation = self.epochs[-1]
        return wire.Hello(
            op="hello",
            protocol=wire.PROTOCOL,
            cluster=self.cluster,
            epoch=epoch,
            incarnation=incarnation,
            lineage=[list(entry) for entry in self.epochs],
            sampling=wire.Sampling(gpus="auto", folders=[]),
        )


def begin_epoch(store: Store, state: dict[str, msgspec.Raw]) -> Lineage:
    """Number this start, durably. No agent is contacted before."""
    piece = state.get("lineage")
    lineage = msgspec.json.decode(piece, type=Lineage) if piece else Lineage(secrets.token_hex(6))
    pieces: dict[str, msgspec.Raw] = {}
    is_over = bytes(state.get(START_OVER, b"null")) == b"true"
    if is_over:
        lineage.start_over()
        pieces[START_OVER] = msgspec.Raw(b"null")
    else:
        lineage.next()
    pieces["lineage"] = msgspec.Raw(msgspec.json.encode(lineage))
    store.append(Change(state=pieces))
    store.commit()
    # Under another cluster's name agents would be left behind, with what runs there; so would they by an epoch that is
    # begun a second time.
    store.anchor(pieces, anew=is_over)
    for note in store.notes:
        log.info("%s", note)
    if store.ids_fault is not None:
        log.warning("%s", store.ids_fault)
    return lineage
