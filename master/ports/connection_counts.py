"""How many connections each peer has, and how many bytes of unfinished requests and unread answers.

Nobody can keep the others out, nor fill the memory: of one origin only so many may connect, and for it only so much is
kept. Other machines are told apart by address (an IPv6 machine has a whole /64, so that counts as one), the accounts of
this machine by their uids. After a log-in a connection is counted by its user, from any address: the others at the same
address have their own places. The user who runs the master is not counted among the rest: they must be able to connect
to repair things. Nor are agents, once they are identified; the places for new connections are kept apart from those of
the others, so that agents can identify themselves.

Owns the counting. Connections are given up through `cut`, and tell their end through `leave`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from master.callers.peer import Peer
from master.config.settings import Caps
from master.verbs.access import whence_of
from wire.message import Message

KEPT = 8
"""One of so many places is kept, half of them for the user who runs the master, half for who has just come."""
ALL_HELD = 4
"""The bytes that are kept of all strangers together, in shares of one address."""
SHARES = 4
"""Nobody has more than one of so many shares of the places of those that have said who they are."""
FREE_SHARES = 2
"""Nor more than one of so many shares of those that are free then: so those who come later find some, too."""
SPARED, FEW = 8, 8
"""Of so many places one does not count as free: it is spared for those who have fewer connections than `FEW` (where
there are few places: than one in `FEW_OF` of them), and when only such places are left, than half of that."""
FEW_OF = 16
LITTLE = 1024
"""A connection that keeps no more than one of so many parts of its user's share is not given up for the others."""


ALWAYS_OURS = 16
"""So many places the user who runs the master has besides, as far as files can be opened: they must be able to raise a
limit that was set too low."""


class Guest(Protocol):
    """A connection."""

    peer: Peer

    def keeps(self) -> int:
        """Return how many bytes are kept for it now: what it sent and what it has not read."""

    def unread(self) -> int:
        """Return how many of these it has not read."""

    def cut(self, why: str) -> None:
        """Close it at once, saying why in the log."""


class Ceiling:
    """How many bytes may be kept. A limit that falls takes nothing away from who keeps more: it holds once they keep
    less than that."""

    def __init__(self) -> None:
        self._most = 0

    def now(self, kept: int, limit: int) -> int:
        """Return how many there may be. `limit`: that of now."""
        if kept <= limit or limit > self._most:
            self._most = limit
        return self._most


class Account:
    """The connections of one origin, or of one user, in the order in which they came, and the bytes that are kept."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.silent: dict[Guest, None] = {}
        self.known: dict[Guest, None] = {}
        self.held = 0
        self.ceiling = Ceiling()


class ConnectionCounts:
    """All connections that wait to be understood, or speak. `limits` gives those that hold now: one that falls closes
    no connection, and those that come then are refused. `descriptors`: how many connections the process can have open
    at all. `only_root`: the account that runs the master is shared, so only root's connections are not counted."""

    def __init__(self, limits: Callable[[], Caps], descriptors: int, *, only_root: bool = False) -> None:
        self._limits = limits
        self._descriptors = descriptors
        self._only_root = only_root
        self._ceiling = Ceiling()
        self._ours = Account("")
        self._strangers: dict[str, Account] = {}
        self._account_of: dict[Guest, Account] = {}
        self._held: dict[Guest, int] = {}
        self._known = self._all_held = 0
        """Of strangers: connections that have shown what they speak, and what is kept of all."""

    # -- coming and going -------------------------------------------------------------------------------------

    def enter(self, guest: Guest) -> Message | None:
        """Take a place among those that have said nothing yet; the oldest of them may have to make room. Return why the
        connection is refused, None if it is not; even then it has a place until it leaves."""
        peer = guest.peer
        is_ours = peer.is_ours and (peer.uid == 0 or not self._only_root)
        account = self._ours if is_ours else self._account(whence_of(peer))
        self._account_of[guest] = account
        account.silent[guest] = None
        silent = self._limits().connections_unidentified
        if len(account.silent) > silent and account is not self._ours:
            why = f"more than {silent} connections of {peer.address} that have not said who they are"
            self._give_up(next(iter(account.silent)), f"{why} (conf.json: limits.connections_unidentified)")
        return self._make_room(guest)

    def settle(
        self, guest: Guest, user: str = "", *, is_service: bool = False, is_relayed: bool = False
    ) -> Message | None:
        """Count the connection from now on with those of its `user`: it has shown what it speaks. "" for a desktop
        client, which is counted with those of its address. A program around the master is counted with the master's
        own, until the user for whom it calls is known (`is_relayed`). Return why it cannot stay, None if it can."""
        before = self._account_of.get(guest)
        if before is None or (before is self._ours and not is_relayed):
            account = before
        elif is_service:
            account = self._ours
        else:
            account = self._account(f"user {user}") if user else before
        if before is None or account is None:
            return None
        if account is not self._ours and guest not in account.known:
            why = self._why_no_more(account, guest.peer.address, user)
            if why is not None:
                self._drop_if_empty(account)
                return why
            self._known += before is self._ours or guest not in before.known
        self._move(guest, before, account)
        return None

    def _why_no_more(self, account: Account, address: str, user: str) -> Message | None:
        limits, room = self._limits(), self.most - self._kept
        # Where few files may be open, few users alone could take all places.
        most = min(limits.connections_per_user if user else limits.connections_per_address, self._share(room))
        if len(account.known) >= most:
            if user:
                return Message("no_more_of_this_user", user=user, most=most)
            return Message("no_more_of_this_address", address=address)
        return self.full if self._known >= room else None

    def _share(self, room: int) -> int:
        """Return how many of these places an account may have now."""
        free = room - self._known - room // SPARED
        few = min(FEW, room // FEW_OF)
        return max(1, few if free > 0 else few // 2, min(room // SHARES, free // FREE_SHARES))

    def _move(self, guest: Guest, before: Account, account: Account) -> None:
        held = self._held.pop(guest, 0)
        before.held -= held
        if account is self._ours:
            self._all_held -= held
            self._known -= guest in before.known
        elif held:
            account.held += held
            self._held[guest] = held
        before.silent.pop(guest, None)
        before.known.pop(guest, None)
        account.known[guest] = None
        self._account_of[guest] = account
        self._drop_if_empty(before)

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
        self._drop_if_empty(account)

    def _account(self, key: str) -> Account:
        return self._strangers.setdefault(key, Account(key))

    def _drop_if_empty(self, account: Account) -> None:
        if not (account.silent or account.known or account is self._ours):
            self._strangers.pop(account.key, None)

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
        """So many bytes are kept for this connection now. False: that is too much, and it has been given up. One that
        reads does not report that, so all are counted again before one is given up. The unread answer of this
        connection may be longer than what is left, or else nobody could get a long answer."""
        account = self._account_of.get(guest)
        before = self._held.get(guest, 0)
        if account is None or account is self._ours or size == before:
            return True
        limit = self._limits().held_bytes
        most, most_of_all = account.ceiling.now(account.held, limit), self._most_of_all(limit)
        self._note(account, guest, size)
        if size < before:
            return True
        if account.held > most:
            self._count_again(account)
        if account.held - guest.unread() > most and size > most // LITTLE:
            whose = account.key.removeprefix("user ") if account.key.startswith("user ") else guest.peer.address
            self._give_up(guest, f"more than {most} bytes of {whose} would be kept (conf.json: limits.held_bytes)")
        if self._all_held > most_of_all:
            for one in self._strangers.values():
                self._count_again(one)
        while self._all_held > most_of_all and guest in self._account_of:
            self._free_some(account, most_of_all)
        return guest in self._account_of

    def _most_of_all(self, limit: int) -> int:
        return self._ceiling.now(self._all_held, ALL_HELD * limit)

    def _note(self, account: Account, guest: Guest, size: int) -> None:
        grown = size - self._held.get(guest, 0)
        account.held += grown
        self._all_held += grown
        self._held[guest] = size

    def _count_again(self, account: Account) -> None:
        for guest in (*account.known, *account.silent):
            self._note(account, guest, guest.keeps())

    def _free_some(self, asking: Account, most: int) -> None:
        """End the connection that holds most, of the account that holds most: others with little would pay for it else.
        Of two that hold as much, end the one that asks for more."""
        largest = max(self._strangers.values(), key=lambda account: (account.held, account is asking))
        guest = max((*largest.known, *largest.silent), key=lambda one: self._held.get(one, 0))
        self._give_up(guest, f"more than {most} bytes of all together would be kept (conf.json: limits.held_bytes)")

    # -- room -------------------------------------------------------------------------------------------------

    @property
    def full(self) -> Message:
        """Return the reason of a refusal because all places are taken."""
        return Message("no_more_connections", most=self.most)

    @property
    def most(self) -> int:
        """Return how many connections there may be now."""
        return min(self._limits().connections, self._descriptors)

    @property
    def _kept(self) -> int:
        return max(1, self.most // KEPT)

    def _make_room(self, guest: Guest) -> Message | None:
        is_ours = self._account_of[guest] is self._ours
        total = len(self._account_of)
        ours = len(self._ours.silent) + len(self._ours.known)
        if total <= self.most and (is_ours or total - ours <= self.most - self._kept // 2):
            return None
        oldest = self._oldest_silent() or (next(iter(self._ours.silent)) if is_ours else guest)
        if oldest is guest:
            is_spared = is_ours and ours <= ALWAYS_OURS and total <= self._descriptors
            return None if is_spared else self.full
        self._give_up(oldest, "there are too many others (conf.json: limits.connections), and it said nothing")
        return None

    def _oldest_silent(self) -> Guest | None:
        """Return the oldest of the strangers that said nothing, of the origin that has most of them."""
        busiest = max(self._strangers.values(), key=lambda account: len(account.silent), default=None)
        return next(iter(busiest.silent), None) if busiest is not None else None

    def _give_up(self, guest: Guest, why: str) -> None:
        self.leave(guest)
        guest.cut(why)
