"""Which machines the entries were that left the registry: one that is written back in is the same as before.

Pure. Without it, an entry that comes back would be younger than another one that repeated its machine's id meanwhile.
An entry is known by its address, or by its name where it has none. The newest are kept; nodes that come and go for
years leave no more than that.
"""

from __future__ import annotations

import msgspec

from master.core.nodes.identity import Identity
from master.core.outcome import Pending

PIECE = "machine_left:"
KEPT = 1000


class Left(msgspec.Struct, frozen=True, omit_defaults=True):
    """The identity of an entry that left, and the number when it left."""

    was: Identity
    at: int


class LeftEntries:
    """The entries that left, by their address or name, the one that left first at the head."""

    def __init__(self, pending: Pending) -> None:
        self._of: dict[str, Left] = {}
        self._pending = pending

    def load(self, key: str, piece: msgspec.Raw) -> int:
        """Take over one that was written down; the largest number in it."""
        left = msgspec.json.decode(piece, type=Left)
        self._of[key] = left
        return max(left.at, left.was.newest)

    def loaded(self) -> None:
        """All that were written down are there."""
        self._of = dict(sorted(self._of.items(), key=lambda item: item[1].at))

    def add(self, name: str, was: Identity, at: int) -> None:
        """This entry left now."""
        key = _key(name, was.address)
        self._of.pop(key, None)
        self._of[key] = Left(was, at)
        self._pending.piece(PIECE + key, msgspec.Raw(msgspec.json.encode(self._of[key])))
        while len(self._of) > KEPT:
            self._forget(next(iter(self._of)))

    def take(self, name: str, address: str) -> Left | None:
        """The entry of this name or address is there again: what it was, None where nothing is known."""
        key = _key(name, address)
        left = self._of.get(key)
        if left is not None:
            self._forget(key)
        return left

    def knows(self, machine: str) -> bool:
        """Had one of them this machine's id?"""
        return any(left.was.period(machine) is not None for left in self._of.values())

    def _forget(self, key: str) -> None:
        del self._of[key]
        self._pending.piece(PIECE + key, msgspec.Raw(b"null"))


def _key(name: str, address: str) -> str:
    return address or f"={name}"
