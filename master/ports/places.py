"""Who holds how many connections, and how much of what he has not said to the end or has not taken yet.

Nobody can keep the others out, nor fill the memory: of one address only so many may connect, and for it only so much is
kept. An IPv6 machine has a whole /64 of addresses, so that counts as one, and so do the other users of this machine.
The user who runs the master is not counted among the rest: he must get in to mend things. Nor are agents, once they
have shown who they are; the places in which newcomers are listened to are kept apart from those of the others, so they
get to show it.

Owns the counting. Connections are given up through `cut`, and tell their end through `leave`.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from master.addresses import origin
from master.peer import Peer
from wire.message import Message

KEPT = 8
"""One of so many places is kept, half of them for the user who runs the master, half for who has just come."""
ALL_HELD = 4
"""What is kept of all strangers together, in shares of one address."""


class Guest(Protocol):
    """A connection."""

    peer: Peer

    def cut(self, why: str) -> None:
        """Close it at once, saying why in the log."""


class PlaceLimits(msgspec.Struct, frozen=True):
    """Numbers of connections, and bytes. `silent`: of one address, that have not shown yet what they speak; `known`:
    of one address, that have; `held`: for one address."""

    most: int
    silent: int = 64
    known: int = 128
    held: int = 64 << 20


class Account:
    """What one origin has. Connections in the order in which they came."""

    def __init__(self) -> None:
        self.silent: dict[Guest, None] = {}
        self.known: dict[Guest, None] = {}
        self.held = 0


class Places:
    """All connections that wait to be understood, or speak."""

    def __init__(self, limits: PlaceLimits) -> None:
        self.limits = limits
        self._ours = Account()
        self._strangers: dict[str, Account] = {}
        self._account_of: dict[Guest, Account] = {}
        self._held: dict[Guest, int] = {}
        self._known = self._all_held = 0
        """Of strangers: connections that have shown what they speak, and what is kept of all."""

    # -- coming and going -------------------------------------------------------------------------------------

    def enter(self, guest: Guest) -> Message | None:
        """Take a place among those that have said nothing yet; the oldest of them may have to make room. Gives why it
        is not let in, if it is not; it is here all the same, until it leaves."""
        peer = guest.peer
        account = self._ours if peer.is_ours else self._strangers.setdefault(_origin(peer), Account())
        self._account_of[guest] = account
        account.silent[guest] = None
        if len(account.silent) > self.limits.silent and account is not self._ours:
            why = f"more than {self.limits.silent} connections of {peer.address} that have not said who they are"
            self._give_up(next(iter(account.silent)), f"{why} (conf.json: limits.connections_unidentified)")
        return self._make_room(guest)

    def settle(self, guest: Guest) -> Message | None:
        """It has shown what it speaks; gives why it cannot stay, if it cannot."""
        account = self._account_of.get(guest)
        if account is None:
            return None
        if account is not self._ours:
            if len(account.known) >= self.limits.known:
                return Message("no_more_of_this_address", address=guest.peer.address)
            if self._known >= self.limits.most - self._kept:
                return self.full
        account.silent.pop(guest, None)
        self._known += account is not self._ours and guest not in account.known
        account.known[guest] = None
        return None

    def leave(self, guest: Guest) -> None:
        """It is gone, or is counted elsewhere from now on."""
        account = self._account_of.pop(guest, None)
        if account is None:
            return
        account.silent.pop(guest, None)
        self._known -= account is not self._ours and guest in account.known
        account.known.pop(guest, None)
        held = self._held.pop(guest, 0)
        account.held -= held
        self._all_held -= held
        if not (account.silent or account.known or account is self._ours):
            del self._strangers[_origin(guest.peer)]

    @property
    def taken(self) -> int:
        """How many have a place."""
        return len(self._account_of)

    @property
    def is_empty(self) -> bool:
        """Nobody has a place, nothing is held, and nothing is kept of anybody."""
        counted = self._known or self._all_held
        return not (
            counted or self._account_of or self._strangers or self._held or self._ours.silent or self._ours.known
        )

    # -- bytes ------------------------------------------------------------------------------------------------

    def hold(self, guest: Guest, size: int) -> bool:
        """So many bytes are kept for this connection now. False: that is too much, and it has been given up."""
        account = self._account_of.get(guest)
        before = self._held.get(guest, 0)
        if account is None or account is self._ours or size == before:
            return True
        account.held += size - before
        self._all_held += size - before
        self._held[guest] = size
        most = self.limits.held
        if size < before or (account.held <= most and self._all_held <= ALL_HELD * most):
            return True
        self._give_up(
            guest,
            f"more than {most} bytes of {guest.peer.address} would be kept, or {ALL_HELD} times as many of all "
            "together (conf.json: limits.held_bytes)",
        )
        return False

    # -- room -------------------------------------------------------------------------------------------------

    @property
    def full(self) -> Message:
        """What somebody is told for whom there is no place."""
        return Message("no_more_connections", most=self.limits.most)

    @property
    def _kept(self) -> int:
        return max(1, self.limits.most // KEPT)

    def _make_room(self, guest: Guest) -> Message | None:
        is_ours = guest.peer.is_ours
        total = len(self._account_of)
        strangers = total - len(self._ours.silent) - len(self._ours.known)
        if total <= self.limits.most and (is_ours or strangers <= self.limits.most - self._kept // 2):
            return None
        oldest = self._oldest_silent() or (next(iter(self._ours.silent)) if is_ours else guest)
        if oldest is guest:
            return self.full
        self._give_up(oldest, "there are too many others (conf.json: limits.connections), and it said nothing")
        return None

    def _oldest_silent(self) -> Guest | None:
        """Of the strangers that said nothing, the oldest of whoever has most of them."""
        busiest = max(self._strangers.values(), key=lambda account: len(account.silent), default=None)
        return next(iter(busiest.silent), None) if busiest is not None else None

    def _give_up(self, guest: Guest, why: str) -> None:
        self.leave(guest)
        guest.cut(why)


def _origin(peer: Peer) -> str:
    """Whose connections are counted together. Anybody on this machine has all of 127.0.0.0/8 to come from."""
    if peer.is_here:
        return "here"
    return origin(peer.address)
