"""How often an address may ask for what is dear."""

from __future__ import annotations

import msgspec
import pytest

from master.callers.rates import _PEOPLE_KEPT, RateClass, Rates
from master.config.settings import Caps
from wire.errors import LimitError

LIMITS = msgspec.structs.replace(Caps(), env_requests_per_minute=6, auth_requests_per_minute=2)


class Clock:
    """Seconds, as the test says."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def refused(rates: Rates, kind: RateClass, address: str = "a") -> bool:
    try:
        rates.check(kind, address)
    except LimitError:
        return True
    return False


def test_a_minutes_worth_may_come_at_once_and_comes_back_evenly() -> None:
    clock = Clock()
    rates = Rates(lambda: LIMITS, clock)
    assert [refused(rates, "env") for _ in range(8)] == [False] * 6 + [True] * 2
    clock.now += 9.9
    assert refused(rates, "env")
    clock.now += 0.2
    assert [refused(rates, "env") for _ in range(2)] == [False, True]
    clock.now += 3600
    assert [refused(rates, "env") for _ in range(7)] == [False] * 6 + [True]


def test_addresses_and_kinds_are_counted_apart() -> None:
    rates = Rates(lambda: LIMITS, Clock())
    assert [refused(rates, "auth") for _ in range(3)] == [False, False, True]
    assert not refused(rates, "auth", "b")
    assert not refused(rates, "env")


def test_the_refusal_says_which_limit_and_how_long_to_wait() -> None:
    rates = Rates(lambda: LIMITS, Clock())
    for _ in range(2):
        rates.check("auth", "a")
    with pytest.raises(LimitError, match=r"more than 2 auth\.\* .* of a .*limits\.auth_requests_per_minute.* 30 s"):
        rates.check("auth", "a")


def test_no_more_addresses_are_remembered_than_there_is_room_for() -> None:
    rates = Rates(lambda: LIMITS, Clock())
    for number in range(_PEOPLE_KEPT + 10):
        rates.check("env", str(number))
    assert len(rates._spent) == _PEOPLE_KEPT
