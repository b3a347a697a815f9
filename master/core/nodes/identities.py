"""Which machine each entry of the registry was: an entry keeps its machine from another that repeats its ids.

Pure. A machine says its own id and the id of its boot. Tasks of one account can read both and, where they share the
agent's account, speak as its node; so an id proves nothing, and whoever had it first keeps it: also while away, over
a restart of the master, after it was another machine for a while, and after it was removed and written back in. Each
entry is a piece of the state of its own: what one reboot changes is one short record.

Owns what was seen; `machines` decides which machine counts as the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from master.core.nodes.facts import Facts, NodeState
from master.core.nodes.identity import Claim, Identity, IdPeriod, comes_before
from master.core.nodes.left_entries import PIECE as LEFT
from master.core.nodes.left_entries import LeftEntries
from master.core.nodes.node import LEAVING, Node
from master.core.outcome import Pending

PIECE = "machine:"
BESIDE_KEPT = 64
"""With so many other entries of one image an entry is known to be another machine; the first that were seen count."""

UNSEEN = Identity()
NONE: Mapping[str, str] = MappingProxyType({})


class Identities:
    """`of`: the identities by the name of the entry."""

    def __init__(self, pending: Pending) -> None:
        self.of: dict[str, Identity] = {}
        self._named: dict[str, set[str]] = {}
        """The names of the entries that had a machine's id last."""
        self._left = LeftEntries(pending)
        self._unheard: dict[str, dict[str, str]] = {}
        """By the name of an entry: those that came in another boot, and in which, since it was last heard. Whether it
        still is in its own is not known before it says something: it may be booting."""
        self._count = 0
        self._pending = pending

    # -- the registry -----------------------------------------------------------------------------------------

    def load(self, pieces: Mapping[str, msgspec.Raw], nodes: Mapping[str, Node]) -> None:
        """Take over what was written down. The registry has these entries now."""
        for name, piece in pieces.items():
            if name.startswith(PIECE):
                one = msgspec.json.decode(piece, type=Identity)
                self._set(name.removeprefix(PIECE), one)
                self._count = max(self._count, one.newest)
            elif name.startswith(LEFT):
                self._count = max(self._count, self._left.load(name.removeprefix(LEFT), piece))
        self._left.loaded()
        self.follow(nodes)
        for name, one in list(self.of.items()):
            node = nodes[name]
            if one.machine and one.address != node.spec.address and LEAVING not in node.cordons:
                self.leads_elsewhere(node)

    def follow(self, nodes: Mapping[str, Node]) -> None:
        """The registry has these entries now. One that was renamed is known by its address, and so is one that is
        there again."""
        gone = {name: one for name, one in self.of.items() if name not in nodes}
        by_address = {one.address: name for name, one in gone.items() if one.address}
        for name in gone:
            self._forget(name)
        for name, node in nodes.items():
            if name not in self.of:
                before = by_address.pop(node.spec.address, None)
                if before is None:
                    self._come_back(node)
                else:
                    self._keep(name, gone.pop(before))
        for name, one in gone.items():
            if one.machine or one.earlier:
                self._left.add(name, one, self._next())

    def leads_elsewhere(self, node: Node) -> None:
        """The address of this entry is another one now: it is the machine that was there, if one was known; else of
        the boot nothing is known until it answers."""
        name, one = node.name, self.of.get(node.name)
        self.lost_link(name)
        moved = one is None or one.address != node.spec.address
        if moved and self._come_back(node):
            if one is not None:
                self._left.add(name, one, self._next())
        elif one is not None:
            self._keep(name, msgspec.structs.replace(one, boot_id=""))

    def _come_back(self, node: Node) -> bool:
        """This entry left the registry and is there again: is anything known of it?"""
        left = self._left.take(node.name, node.spec.address)
        if left is not None:
            was = left.was
            if self._is_taken(was.machine, node.name, left.at):
                was = was.unsettled(left.at)  # whose the boot is, it must show itself
            self._keep(node.name, was)
        return left is not None

    # -- what was seen ----------------------------------------------------------------------------------------

    def get(self, name: str) -> Identity:
        """Return what is known of an entry, even if that is nothing."""
        return self.of.get(name, UNSEEN)

    def owned(self, name: str, machine: str) -> bool:
        """Has or had an entry this machine's id, and was it no other's when it took it?"""
        period = self._period(name, machine)
        return period is not None and not period.is_late

    def holders(self, name: str, facts: Facts) -> set[str]:
        """The other entries whose machine, in this boot, these ids are."""
        others, mine = self._named.get(facts.identity, set()) - {name}, self.get(name)
        claim = None if (mine.machine, mine.boot_id) == (facts.identity, facts.boot_id) else mine.claim
        return {
            other
            for other in others
            if (boot_id := self.get(other).boot_id) == facts.boot_id
            # It was refused for these ids, and the other was not seen in another boot since: after a reboot of a
            # machine with two entries either may be the first to come.
            or claim == Claim(other, facts.identity, boot_id)
        }

    def precedes(self, name: str, other: str, facts: Facts) -> bool:
        """Had `name` this machine's id before `other` had it? Then `other` took the new boot's id while `name` was
        away, or says the ids without being served for them."""
        mine, its = self._period(name, facts.identity), self.get(other)
        if mine is None:
            return False
        if its.machine != facts.identity:
            return True
        if mine.since in its.beside or self._unheard.get(name, NONE).get(other) == its.boot_id:
            return False  # this boot is not that of its machine
        return comes_before(mine, its.present)

    def late(self, name: str) -> list[str]:
        """The other entries whose machine's id this one took, although it had one of its own, the first of them first;
        none if it did not."""
        one = self.get(name)
        others = self._named.get(one.machine, set()) - {name} if one.is_late else ()
        return sorted(others, key=lambda other: self.of[other].since)

    # -- what happens -----------------------------------------------------------------------------------------

    def serve(self, node: Node, facts: Facts, nodes: Mapping[str, Node]) -> None:
        """This entry is served as this machine from now on."""
        name, machine, before = node.name, facts.identity, self.get(node.name)
        period = self._period(name, machine) or self._new(name, machine)
        is_same = (before.machine, before.boot_id) == (machine, facts.boot_id)
        served = Identity(
            machine,
            facts.boot_id,
            period.since,
            period.began_so,
            period.is_late,
            period.gap,
            before.beside if is_same else (),
            node.spec.address,
            earlier=before.earlier if before.machine == machine else before.before(machine, self._next()),
        )
        self._keep(name, served)
        for other in self._named[machine] - {name}:
            if other not in nodes:
                self._left.add(other, self._forget(other), self._next())
            elif _is_there_in_another_boot(nodes[other], facts):
                self._meet(name, other)

    def heard(self, name: str) -> None:
        """An entry's agent said something: its machine is still in the boot that is known."""
        for other, boot_id in self._unheard.pop(name, {}).items():
            one, its = self.get(name), self.get(other)
            if its.boot_id == boot_id != one.boot_id and its.machine == one.machine:
                self._saw(other, one.since)

    def lost_link(self, name: str) -> None:
        """Nobody hears this entry's agent any more."""
        self._unheard.pop(name, None)

    def refuse(self, name: str, other: str, facts: Facts) -> None:
        """This entry repeats the ids of another one, which keeps them."""
        claim = Claim(other, facts.identity, self.get(other).boot_id)
        self._keep(name, msgspec.structs.replace(self.get(name), claim=claim))

    def lose(self, name: str, other: str, facts: Facts) -> None:
        """These ids belong to another entry, whatever this one was served as."""
        mine = self.get(name)
        if mine.machine == facts.identity:
            mine = msgspec.structs.replace(mine, began_so=False).unsettled(self._next())
        self._keep(name, msgspec.structs.replace(mine, claim=Claim(other, facts.identity, facts.boot_id)))

    # -- who had an id first ----------------------------------------------------------------------------------

    def _period(self, name: str, machine: str) -> IdPeriod | None:
        period = self.get(name).period(machine)
        if period is None or not period.left:
            return period
        gap = period.gap
        if self._is_taken(machine, name, period.left):
            gap = (gap[0] or period.left, self._count + 1)
        return msgspec.structs.replace(period, gap=gap, left=0)

    def _is_taken(self, machine: str, name: str, since: int) -> bool:
        """Did a new entry get this machine's id after this number?"""
        others = (self.of[other] for other in self._named.get(machine, set()) - {name})
        return any(one.began_so and one.since > since for one in others)

    def _new(self, name: str, machine: str) -> IdPeriod:
        """It never had this machine's id."""
        before = self.get(name)
        began_so = not before.machine and not before.earlier
        others = (one for other, one in self.of.items() if other != name)
        is_late = not began_so and (any(one.period(machine) is not None for one in others) or self._left.knows(machine))
        return IdPeriod(machine, self._next(), began_so, is_late)

    def _meet(self, name: str, other: str) -> None:
        """An entry came just now, while another one with the same machine's id is there in another boot."""
        mine, its = self.of[name].present, self.of[other].present
        if comes_before(mine, its):
            self._saw(other, mine.since)
        elif its.since not in self.of[name].beside:
            self._unheard.setdefault(other, {})[name] = self.of[name].boot_id

    def _saw(self, name: str, since: int) -> None:
        beside = self.of[name].beside
        if since not in beside and len(beside) < BESIDE_KEPT:
            self._keep(name, msgspec.structs.replace(self.of[name], beside=(*beside, since)))

    def _next(self) -> int:
        self._count += 1
        return self._count

    # -- what is written down ---------------------------------------------------------------------------------

    def _keep(self, name: str, one: Identity) -> None:
        if self.of.get(name) != one:
            self._set(name, one)
            self._pending.piece(PIECE + name, msgspec.Raw(msgspec.json.encode(one)))

    def _set(self, name: str, one: Identity) -> None:
        self._drop(name)
        self.of[name] = one
        if one.machine:
            self._named.setdefault(one.machine, set()).add(name)

    def _forget(self, name: str) -> Identity:
        self._unheard.pop(name, None)
        self._pending.piece(PIECE + name, msgspec.Raw(b"null"))
        return self._drop(name)

    def _drop(self, name: str) -> Identity:
        one = self.of.pop(name, UNSEEN)
        if names := self._named.get(one.machine):
            names.discard(name)
            if not names:
                del self._named[one.machine]
        return one


def _is_there_in_another_boot(node: Node, facts: Facts) -> bool:
    known = node.facts if node.state is NodeState.ONLINE else None
    return known is not None and known.identity == facts.identity and known.boot_id != facts.boot_id
