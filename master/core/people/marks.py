"""The marks of a queue that several people use: pieces of the state that the witness also keeps.

Pure. One mark says that the queue is shared: users' tasks then run as their owners where the agent is root. Another
keeps users' tasks away from nodes with the master's own account. The third is the latest time that was seen, by which
rights end. If the two copies differ, the stricter one holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from master.core.people import clock, own_account
from master.core.people.clock import Noted
from master.core.people.own_account import Fence
from master.core.people.people import COUNTER, GROUP, TOKEN, USER, Counter

KEPT = (COUNTER, own_account.PIECE, clock.PIECE)
KINDS: dict[str, type[Counter | Fence | Noted]] = {
    COUNTER: Counter,
    own_account.PIECE: Fence,
    clock.PIECE: Noted,
}
END_ACCESS = "end_access"
"""The piece of state that makes a start end all tokens, log-ins and links. `null` after that was done."""
IDS_SKIPPED = 10_000
"""More than the number of users and groups that the lost records can have held."""

Pieces = Mapping[str, msgspec.Raw]


def tells_of_people(names: Iterable[str]) -> bool:
    """Is a user, a user's token or a group among these pieces?"""
    return any(name.startswith((USER, GROUP, TOKEN)) for name in names)


def of(state: Pieces) -> dict[str, msgspec.Raw]:
    """The marks of a state, also where they are empty: a witness without marks knows nothing."""
    return {name: state.get(name, msgspec.Raw(b"{}")) for name in KEPT}


def readable(pieces: Pieces) -> dict[str, msgspec.Raw]:
    """The pieces without marks that are none: they come from outside of the folder."""
    return {name: piece for name, piece in pieces.items() if name not in KINDS or _is_one(piece, KINDS[name])}


def _is_one(piece: msgspec.Raw, kind: type[Counter | Fence | Noted]) -> bool:
    try:
        msgspec.json.decode(piece, type=kind)
    except msgspec.DecodeError:
        return False
    return True


def of_before(state: Pieces, witness: Pieces) -> dict[str, msgspec.Raw]:
    """The marks that the witness gets before the journal gets the change: a clock that was accepted allows more, so it
    comes behind."""
    accepted = _read(state)[2].accepted > _read(witness)[2].accepted
    kept = {name: piece for name, piece in witness.items() if name == clock.PIECE}
    return {**of(state), **kept} if accepted else of(state)


def merged(state: Pieces, witness: Pieces) -> dict[str, msgspec.Raw]:
    """The marks that its witness has and that a whole state lacks."""
    mine, fence, noted = _read(state)
    theirs, its_fence, its_noted = _read(witness)
    counter = Counter(max(mine.next_id, theirs.next_id), mine.is_shared or theirs.is_shared)
    if own_account.PIECE in witness:
        fence = _stricter(fence, its_fence)
    return _changed(state, counter, fence, clock.later(noted, its_noted))


def after_damage(state: Pieces, witness: Pieces, *, people: bool) -> dict[str, msgspec.Raw]:
    """The marks that a state gets if a part of it is lost. `people`: a readable record told of a user, a token or a
    group. A mark counts as set unless the witness denies it."""
    known = {**state, **merged(state, witness)}
    counter, fence, noted = _read(known)
    # A witness that denies users of whom a record tells is out of date, so it denies nothing.
    is_up_to_date = _read(witness)[0].is_shared or not people
    next_id = counter.next_id + (0 if COUNTER in witness and is_up_to_date else IDS_SKIPPED)
    is_shared = counter.is_shared or people or COUNTER not in witness
    closed = fence.closed or own_account.PIECE not in witness or not is_up_to_date
    return _changed(state, Counter(next_id, is_shared), msgspec.structs.replace(fence, closed=closed), noted)


def _read(pieces: Pieces) -> tuple[Counter, Fence, Noted]:
    nothing = msgspec.Raw(b"{}")
    counter = msgspec.json.decode(pieces.get(COUNTER, nothing), type=Counter)
    fence = msgspec.json.decode(pieces.get(own_account.PIECE, nothing), type=Fence)
    return counter, fence, msgspec.json.decode(pieces.get(clock.PIECE, nothing), type=Noted)


def _stricter(fence: Fence, other: Fence) -> Fence:
    return Fence(fence.closed or other.closed, fence.first or other.first, fence.opened & other.opened)


def _changed(state: Pieces, counter: Counter, fence: Fence, noted: Noted) -> dict[str, msgspec.Raw]:
    found = {COUNTER: counter, own_account.PIECE: fence, clock.PIECE: noted}
    before = dict(zip(found, _read(state), strict=True))
    return {name: msgspec.Raw(msgspec.json.encode(mark)) for name, mark in found.items() if mark != before[name]}
