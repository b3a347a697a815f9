"""Which machine each entry of the registry was: an entry keeps its machine from another that repeats its ids.

Pure. A machine says its own id and the id of its boot. Tasks of one account can read both and, where they share the
agent's account, speak as its node; so an id proves nothing, and whoever had it first keeps it, also while away and over
a restart of the master. Each entry is a piece of the state of its own: what one reboot changes is one short record.

Owns what was seen. What counts as the same machine is decided in `machines`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from master.core.facts import Facts, NodeState
from master.core.node import Node
from master.core.outcome import Pending

PIECE = "machine:"


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """That an entry said the ids of another one, `of`, which kept them."""

    of: str
    machine: str
    boot_id: str


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which machine an entry was when it was last served. `since`: it has had this machine's id for longer than entries
    with a larger number. `began_so`: it never had another. `is_settled`: an older entry with the same id was there at
    the same time in another boot, so these are two machines of one image. `address`: the entry's then. `claim`: what it
    was refused for, if anything since."""

    machine: str = ""
    boot_id: str = ""
    since: int = 0
    began_so: bool = False
    is_settled: bool = False
    address: str = ""
    claim: Claim | None = None


UNSEEN = Identity()


class Identities:
    """`of`: the identities by the name of the entry."""

    def __init__(self, pending: Pending) -> None:
        self.of: dict[str, Identity] = {}
        self._named: dict[str, set[str]] = {}
        """The names of the entries that had a machine's id."""
        self._pending = pending

    def load(self, pieces: Mapping[str, msgspec.Raw]) -> None:
        """Take over what was written down."""
        for name, piece in pieces.items():
            if name.startswith(PIECE):
                self._set(name.removeprefix(PIECE), msgspec.json.decode(piece, type=Identity))

    def follow(self, nodes: Mapping[str, Node]) -> None:
        """The registry has these entries now. One that was renamed is known by its address; what is gone is
        forgotten."""
        gone = {name: one for name, one in self.of.items() if name not in nodes}
        by_address = {one.address: one for one in gone.values() if one.address}
        for name in gone:
            self._forget(name)
        for name, node in nodes.items() if by_address else ():
            if name not in self.of and (before := by_address.pop(node.spec.address, None)) is not None:
                self._keep(name, before)

    def get(self, name: str) -> Identity:
        """What is known of an entry, be it nothing."""
        return self.of.get(name, UNSEEN)

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
        mine, its = self.get(name), self.get(other)
        if mine.machine != facts.identity:
            return False
        return its.machine != facts.identity or (mine.since < its.since and not its.is_settled)

    def serve(self, node: Node, facts: Facts, nodes: Mapping[str, Node]) -> None:
        """This entry is served as this machine from now on."""
        before = self.get(node.name)
        is_same = before.machine == facts.identity
        served = Identity(
            facts.identity,
            facts.boot_id,
            before.since if is_same else self._next(),
            before.began_so if is_same else not before.machine,
            before.is_settled and is_same,
            node.spec.address,
        )
        self._keep(node.name, served)
        for other in self._named[facts.identity] - {node.name}:
            if other not in nodes:
                self._forget(other)
            elif _is_there_in_another_boot(nodes[other], facts):
                self._settle(max(node.name, other, key=lambda one: self.of[one].since))

    def refuse(self, name: str, other: str, facts: Facts) -> None:
        """This entry repeats the ids of another one, which keeps them."""
        claim = Claim(other, facts.identity, self.get(other).boot_id)
        self._keep(name, msgspec.structs.replace(self.get(name), claim=claim))

    def lose(self, name: str, other: str, facts: Facts) -> None:
        """These ids belong to another entry, whatever this one was served as."""
        mine = self.get(name) if self.get(name).machine != facts.identity else UNSEEN
        self._keep(name, msgspec.structs.replace(mine, claim=Claim(other, facts.identity, facts.boot_id)))

    def leads_elsewhere(self, name: str) -> None:
        """Its address is another one now: of the boot nothing is known until it answers."""
        if name in self.of:
            self._keep(name, msgspec.structs.replace(self.of[name], boot_id=""))

    def _next(self) -> int:
        return 1 + max((one.since for one in self.of.values()), default=0)

    def _settle(self, name: str) -> None:
        """These are machines of one image. An entry that had another id before may be lying, and stays behind the
        older one."""
        if self.of[name].began_so:
            self._keep(name, msgspec.structs.replace(self.of[name], is_settled=True))

    def _keep(self, name: str, one: Identity) -> None:
        if self.of.get(name) != one:
            self._set(name, one)
            self._pending.piece(PIECE + name, msgspec.Raw(msgspec.json.encode(one)))

    def _set(self, name: str, one: Identity) -> None:
        self._drop(name)
        self.of[name] = one
        if one.machine:
            self._named.setdefault(one.machine, set()).add(name)

    def _forget(self, name: str) -> None:
        self._drop(name)
        self._pending.piece(PIECE + name, msgspec.Raw(b"null"))

    def _drop(self, name: str) -> None:
        machine = self.of.pop(name, UNSEEN).machine
        if names := self._named.get(machine):
            names.discard(name)
            if not names:
                del self._named[machine]


def _is_there_in_another_boot(node: Node, facts: Facts) -> bool:
    known = node.facts if node.state is NodeState.ONLINE else None
    return known is not None and known.identity == facts.identity and known.boot_id != facts.boot_id
