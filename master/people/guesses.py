"""How often an address may guess a password before it must wait, and for how long.

Failures are counted for a name that is tried from an address, and for the address. Each count, once it is full, makes
the callers from there wait for a minute, the next time for two, up to fifteen. A name is never locked for other
addresses: else anybody could lock anybody out. Unknown names count like all others, so that nobody learns which names
exist. A log-in that succeeds costs nothing, and clears the failures for that name there. Memory is limited: the names
and addresses that were quiet longest are forgotten. Time is an argument.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from master.callers.addresses import origin
from master.config.settings import Caps
from wire.errors import LimitError
from wire.message import Message

MINUTE_S = 60.0
LONGEST_S = 15 * MINUTE_S
ADDRESS_FACTOR = 10
"""An address may be that of a whole lab, whose people all mistype now and then."""
PAIRS_KEPT, ADDRESSES_KEPT = 10_000, 10_000
UNDER_WAY_S = 30.0
"""After so long nobody waits any more to hear how a log-in ended."""


class _Count:
    """The failures of one key. `failed`: of the last minute, which run off evenly; `at`: when that was so; `locks`: how
    often it was locked without LONGEST_S of quiet between, counted from the `last` failure; `under_way`: when those
    began of which nobody knows yet."""

    __slots__ = ("at", "failed", "last", "locked_until", "locks", "under_way")

    def __init__(self, now: float) -> None:
        self.at = self.last = now
        self.failed = 0.0
        self.locks = 0
        self.locked_until = now
        self.under_way: list[float] = []


class _Counts:
    """Failures by key: `most` gives how many a minute; of more than `kept` keys the one that was quiet longest is
    forgotten."""

    def __init__(self, most: Callable[[], int], kept: int) -> None:
        self._most = most
        self._kept = kept
        self._counts: OrderedDict[bytes, _Count] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def wait_s(self, key: bytes, now: float) -> float:
        """For how long this key has to wait; 0: it need not."""
        count = self._counts.get(key)
        if count is None:
            return 0.0
        self._run_off(count, now)
        if now < count.locked_until:
            return count.locked_until - now
        # Those that run at the same time count as if they failed, else all of them would be tried at once.
        return 1.0 if count.failed + len(count.under_way) + 1 > self._most() else 0.0

    def begin(self, key: bytes, now: float) -> None:
        self._of(key, now).under_way.append(now)

    def end(self, key: bytes, now: float) -> None:
        """One that began has ended without a word about the password, or well."""
        count = self._counts.get(key)
        if count is None:
            return
        self._run_off(count, now)
        if count.under_way:
            del count.under_way[0]
        if not count.under_way and not count.failed and not count.locks:
            del self._counts[key]

    def fail(self, key: bytes, now: float) -> None:
        count = self._of(key, now)
        if count.under_way:
            del count.under_way[0]
        count.last = now
        count.failed += 1
        if count.failed > self._most() - 1 and now >= count.locked_until:
            count.locked_until = now + min(MINUTE_S * 2**count.locks, LONGEST_S)
            count.locks += 1
            count.failed = 0.0

    def forgive(self, key: bytes) -> None:
        self._counts.pop(key, None)

    def _of(self, key: bytes, now: float) -> _Count:
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = _Count(now)
            if len(self._counts) > self._kept:
                self._counts.popitem(last=False)
        self._counts.move_to_end(key)
        self._run_off(count, now)
        return count

    def _run_off(self, count: _Count, now: float) -> None:
        passed = max(0.0, now - count.at)
        count.failed = max(0.0, count.failed - passed * self._most() / MINUTE_S)
        if now - max(count.last, count.locked_until) >= LONGEST_S:
            count.locks = 0
        count.at = now
        count.under_way = [began for began in count.under_way if now - began < UNDER_WAY_S]


class _Keys(msgspec.Struct, frozen=True):
    """Of an attempt, of a fixed size: names may be as long as a frame."""

    pair: bytes
    address: bytes


class Guesses:
    """Failed log-ins, by `limits.failed_logins_per_minute` as it holds now. All times are seconds of one monotonic
    clock."""

    def __init__(self, limits: Callable[[], Caps]) -> None:
        self._pairs = _Counts(lambda: limits().failed_logins_per_minute, PAIRS_KEPT)
        self._addresses = _Counts(lambda: limits().failed_logins_per_minute * ADDRESS_FACTOR, ADDRESSES_KEPT)

    def __len__(self) -> int:
        return len(self._pairs) + len(self._addresses)

    def check(self, name: str, address: str, now: float) -> None:
        """Begin an attempt; one of `failed`, `came_in` and `let_go` ends it. Raises LimitError, with the seconds to
        wait, where too many have failed; no password is to be looked at then."""
        keys = _keys(name, address)
        wait_s = max(self._pairs.wait_s(keys.pair, now), self._addresses.wait_s(keys.address, now))
        if wait_s > 0:
            raise LimitError(Message("log_ins_failed", seconds=math.ceil(wait_s)))
        self._pairs.begin(keys.pair, now)
        self._addresses.begin(keys.address, now)

    def failed(self, name: str, address: str, now: float) -> None:
        """The password was wrong, or there is nobody of this name."""
        keys = _keys(name, address)
        self._pairs.fail(keys.pair, now)
        self._addresses.fail(keys.address, now)

    def came_in(self, name: str, address: str, now: float) -> None:
        """Record a right password. It forgives nothing to the address, which is shared with others: one of them may be
        guessing and have a password of their own."""
        keys = _keys(name, address)
        self._pairs.forgive(keys.pair)
        self._addresses.end(keys.address, now)

    def let_go(self, name: str, address: str, now: float) -> None:
        """Nobody knows whether the password was right: it could not be looked at, or who asked has left."""
        keys = _keys(name, address)
        self._pairs.end(keys.pair, now)
        self._addresses.end(keys.address, now)


def _keys(name: str, address: str) -> _Keys:
    whence = hashlib.sha256(origin(address).encode("utf-8", "surrogatepass"))
    pair = whence.copy()
    pair.update(b"\0" + name.encode("utf-8", "surrogatepass"))
    return _Keys(pair.digest(), whence.digest())
