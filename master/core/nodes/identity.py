"""The record of the machine that an entry of the registry was, and which of two entries had an id before.

Pure values. `identities` keeps which machine is served under which entry, and says why an id proves nothing.
"""

from __future__ import annotations

import msgspec

NO_GAP = (0, 0)
EARLIER_KEPT = 8
"""How many ids are remembered of an entry besides its present one: the first that it had, and the latest."""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """That an entry said the ids of another one, `of`, which kept them."""

    of: str
    machine: str
    boot_id: str


class IdPeriod(msgspec.Struct, frozen=True, omit_defaults=True):
    """The time in which an entry has, or had, a machine's id. `since`: it had the id before entries with a larger
    number. `began_so`: it had no other before. `is_late`: it had another before, and took this one when it was known as
    another entry's. `gap`: between these numbers it had it not, and entries that began then with this id may have the
    machine. `left`: the number when it had it no longer."""

    machine: str
    since: int
    began_so: bool = False
    is_late: bool = False
    gap: tuple[int, int] = NO_GAP
    left: int = 0


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which machine an entry was when it was last served; for `since`, `began_so`, `is_late` and `gap` see `IdPeriod`.
    `beside`: the `since` of entries with the same id that were in another boot while this one was in its present boot,
    so these are two machines of one image. `address`: the entry's then. `claim`: what it was refused for, if anything
    since. `earlier`: the ids that it had before."""

    machine: str = ""
    boot_id: str = ""
    since: int = 0
    began_so: bool = False
    is_late: bool = False
    gap: tuple[int, int] = NO_GAP
    beside: tuple[int, ...] = ()
    address: str = ""
    claim: Claim | None = None
    earlier: tuple[IdPeriod, ...] = ()

    @property
    def present(self) -> IdPeriod:
        """The id that it has."""
        return IdPeriod(self.machine, self.since, self.began_so, self.is_late, self.gap)

    @property
    def newest(self) -> int:
        """The largest number in it."""
        earlier = (max(one.since, one.left, *one.gap) for one in self.earlier)
        return max(self.since, *self.gap, *self.beside, *earlier)

    def period(self, machine: str) -> IdPeriod | None:
        """How it has or had this machine's id; None if it never did."""
        if self.machine == machine:
            return self.present
        return next((one for one in self.earlier if one.machine == machine), None)

    def before(self, machine: str, left: int) -> tuple[IdPeriod, ...]:
        """The ids that it had, once it is this machine from number `left` on."""
        earlier = tuple(one for one in self.earlier if one.machine != machine)
        if self.machine not in ("", machine):
            earlier = (*earlier, msgspec.structs.replace(self.present, left=left))
        if len(earlier) <= EARLIER_KEPT:
            return earlier
        first = min(earlier, key=lambda one: one.since)
        return (first, *[one for one in earlier if one is not first][1 - EARLIER_KEPT :])

    def unsettled(self, left: int) -> Identity:
        """The same entry without a machine: what it was is an earlier id of it."""
        return Identity(address=self.address, claim=self.claim, earlier=self.before("", left))


def comes_before(mine: IdPeriod, its: IdPeriod) -> bool:
    """Of two entries that had the same id: did `mine` have it before `its`, as far as this can be known?"""
    if mine.is_late is not its.is_late:
        return its.is_late
    if its.began_so and (not mine.began_so or mine.gap[0] < its.since < mine.gap[1]):
        return False  # which of them lies cannot be told: each keeps the boot that it said first
    return mine.since < its.since
