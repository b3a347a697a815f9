"""Guessing: what it costs who guesses, what it does not cost others, and how much is remembered of it."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.config.settings import Caps
from master.people import guesses
from master.people.guesses import ADDRESSES_KEPT, PAIRS_KEPT, Guesses
from tests.faults import said
from wire.errors import LimitError

HERE, THERE = "192.168.36.7", "192.168.36.8"


class VerbDispatcher:
    """Log-ins at a time that the test says."""

    def __init__(self, per_minute: int = 5) -> None:
        self.per_minute = per_minute
        self.guesses = Guesses(lambda: Caps(failed_logins_per_minute=self.per_minute))
        self.now = 1000.0

    def wait_s(self, name: str = "wei", address: str = HERE) -> int:
        """How long he is told to wait; 0: he may try, and his try comes to nothing."""
        try:
            self.guesses.check(name, address, self.now)
        except LimitError as error:
            why = said(error)
            assert why.key == "log_ins_failed"
            return int(str(why.args["seconds"]))
        self.guesses.let_go(name, address, self.now)
        return 0

    def fail(self, name: str = "wei", address: str = HERE, times: int = 1) -> None:
        """So many wrong passwords, each of which is looked at."""
        for _ in range(times):
            self.guesses.check(name, address, self.now)
            self.guesses.failed(name, address, self.now)

    def succeed(self, name: str = "wei", address: str = HERE) -> None:
        self.guesses.check(name, address, self.now)
        self.guesses.came_in(name, address, self.now)


def test_after_five_failures_a_minutes_wait_and_then_five_more() -> None:
    dispatcher = VerbDispatcher()
    dispatcher.fail(times=4)
    assert dispatcher.wait_s() == 0
    dispatcher.fail()
    assert dispatcher.wait_s() == 60
    dispatcher.now += 59.5
    assert dispatcher.wait_s() == 1
    dispatcher.now += 0.5
    assert dispatcher.wait_s() == 0
    dispatcher.fail(times=4)
    assert dispatcher.wait_s() == 0


def test_the_wait_doubles_up_to_a_quarter_of_an_hour() -> None:
    dispatcher, waits = VerbDispatcher(), []
    for _ in range(7):
        dispatcher.fail(times=5)
        waits.append(dispatcher.wait_s())
        dispatcher.now += waits[-1]
    assert waits == [60, 120, 240, 480, 900, 900, 900]


def test_to_knock_while_one_waits_makes_it_no_longer() -> None:
    dispatcher = VerbDispatcher()
    dispatcher.fail(times=5)
    for _ in range(60):
        assert dispatcher.wait_s() > 0
        dispatcher.now += 1
    assert dispatcher.wait_s() == 0


def test_after_a_quarter_of_an_hour_of_quiet_all_is_forgotten() -> None:
    dispatcher = VerbDispatcher()
    for _ in range(2):
        dispatcher.fail(times=5)
        dispatcher.now += dispatcher.wait_s()
    dispatcher.now += 15 * 60 - 1
    dispatcher.fail(times=5)
    assert dispatcher.wait_s() == 240
    dispatcher.now += 240
    for _ in range(15):  # to look whether one may is no guess
        assert dispatcher.wait_s() == 0
        dispatcher.now += 60
    dispatcher.fail(times=5)
    assert dispatcher.wait_s() == 60


def test_failures_run_off_so_that_who_mistypes_now_and_then_never_waits() -> None:
    dispatcher = VerbDispatcher()
    for _ in range(100):
        dispatcher.fail()
        dispatcher.now += 13
    assert dispatcher.wait_s() == 0


def test_a_name_is_never_locked_for_other_addresses() -> None:
    dispatcher = VerbDispatcher()
    dispatcher.fail("wei", HERE, times=5)
    assert dispatcher.wait_s("wei", HERE) == 60
    assert dispatcher.wait_s("wei", THERE) == 0
    assert dispatcher.wait_s("li", HERE) == 0


def test_an_address_has_fifty_whatever_names_it_tries() -> None:
    dispatcher = VerbDispatcher()
    for number in range(49):
        dispatcher.fail(f"name{number}")
    assert dispatcher.wait_s("wei") == 0
    dispatcher.fail("one more")
    assert dispatcher.wait_s("wei") == 60
    assert dispatcher.wait_s("wei", THERE) == 0
    dispatcher.now += 60
    for number in range(50):
        dispatcher.fail(f"other{number}")
    assert dispatcher.wait_s("wei") == 120


def test_log_ins_that_succeed_cost_nothing() -> None:
    dispatcher = VerbDispatcher()
    for _ in range(500):
        dispatcher.succeed()
    assert dispatcher.wait_s() == 0
    assert len(dispatcher.guesses) == 0


def test_who_came_in_is_forgiven_what_he_mistyped_and_nobody_else_is() -> None:
    dispatcher = VerbDispatcher()
    dispatcher.fail("wei", times=4)
    dispatcher.fail("li", times=4)
    dispatcher.succeed("wei")
    dispatcher.fail("wei", times=4)
    assert dispatcher.wait_s("wei") == 0
    dispatcher.fail("li")
    assert dispatcher.wait_s("li") == 60


def test_who_has_a_password_of_his_own_does_not_guess_others_the_cheaper_for_it() -> None:
    dispatcher = VerbDispatcher()
    for number in range(50):
        dispatcher.fail(f"name{number}")
        if number < 49:
            dispatcher.succeed("mallory")
    assert dispatcher.wait_s("mallory") == 60


def test_names_that_are_tried_are_not_told_from_names_that_there_are() -> None:
    """Nothing here knows who there is: what somebody is told depends on what he did alone."""
    one, other = VerbDispatcher(), VerbDispatcher()
    one.fail("wei", times=5)
    other.fail("nobody-of-this-name", times=5)
    assert one.wait_s("wei") == other.wait_s("nobody-of-this-name")


def test_many_at_once_are_not_looked_at_for_the_price_of_none() -> None:
    dispatcher = VerbDispatcher()
    for _ in range(5):
        dispatcher.guesses.check("wei", HERE, dispatcher.now)
    for _ in range(20):
        with pytest.raises(LimitError, match="try again in 1 s"):
            dispatcher.guesses.check("wei", HERE, dispatcher.now)
    for _ in range(5):
        dispatcher.guesses.failed("wei", HERE, dispatcher.now)
    assert dispatcher.wait_s() == 60


def test_what_came_to_nothing_is_not_counted() -> None:
    dispatcher = VerbDispatcher()
    for _ in range(100):
        assert dispatcher.wait_s() == 0
    assert len(dispatcher.guesses) == 0


def test_one_of_which_nobody_ever_hears_does_not_count_for_ever() -> None:
    dispatcher = VerbDispatcher()
    for _ in range(5):
        dispatcher.guesses.check("wei", HERE, dispatcher.now)
    assert dispatcher.wait_s() == 1
    dispatcher.now += 30
    assert dispatcher.wait_s() == 0


def test_a_machine_with_a_network_of_ipv6_is_one_address() -> None:
    dispatcher = VerbDispatcher(per_minute=1)
    for number in range(10):
        dispatcher.fail(f"name{number}", f"2001:db8:0:1::{number:x}")
    assert dispatcher.wait_s("wei", "2001:db8:0:1:ffff::1") == 60
    assert dispatcher.wait_s("wei", "2001:db8:0:2::1") == 0
    dispatcher.fail("wei", HERE)
    assert dispatcher.wait_s("wei", f"::ffff:{HERE}") == 60


def test_the_cap_is_that_of_conf_json() -> None:
    dispatcher = VerbDispatcher(per_minute=2)
    dispatcher.fail(times=2)
    assert dispatcher.wait_s() == 60
    for number in range(18):
        dispatcher.fail(f"name{number}")
    assert dispatcher.wait_s("another") == 60


def test_no_more_is_remembered_than_there_is_room_for_however_long_the_names_are() -> None:
    dispatcher = VerbDispatcher()
    for number in range(PAIRS_KEPT + 50):
        # A day between, for an address would be locked; a hundred names for each.
        dispatcher.guesses.failed(
            "x" * 60_000 + str(number), f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", dispatcher.now
        )
    assert len(dispatcher.guesses) == PAIRS_KEPT + ADDRESSES_KEPT
    keys = [*dispatcher.guesses._pairs._counts, *dispatcher.guesses._addresses._counts]
    assert {sys.getsizeof(key) for key in keys} == {sys.getsizeof(b"x" * 32)}


def test_who_was_quiet_longest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guesses, "PAIRS_KEPT", 3)
    dispatcher = VerbDispatcher()
    dispatcher.fail("a", times=4)
    for name in ("b", "c"):
        dispatcher.fail(name)
    dispatcher.fail("a")
    dispatcher.fail("d")
    assert dispatcher.wait_s("a") == 60
    dispatcher.fail("b", times=4)
    assert dispatcher.wait_s("b") == 0


@pytest.mark.parametrize("address", ["", "unix", "fe80::1%eth0", "\ud800", "999.1.1.1"])
def test_what_is_no_address_is_counted_as_it_is(address: str) -> None:
    dispatcher = VerbDispatcher()
    dispatcher.fail("wei", address, times=5)
    assert dispatcher.wait_s("wei", address) == 60
    assert dispatcher.wait_s("wei", HERE) == 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["check", "failed", "came_in", "let_go"]),
        st.sampled_from("abc"),
        st.sampled_from([HERE, THERE, "::1"]),
        st.floats(0, 400, allow_nan=False),
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_comes_in_whatever_order_nobody_waits_longer_than_a_quarter_of_an_hour(
    steps: list[tuple[str, str, str, float]],
) -> None:
    dispatcher = VerbDispatcher(per_minute=1)
    for what, name, address, pause in steps:
        dispatcher.now += pause
        with suppress(LimitError):
            getattr(dispatcher.guesses, what)(name, address, dispatcher.now)
        assert 0 <= dispatcher.wait_s(name, address) <= 900
    dispatcher.now += 900
    for name, address in (("a", HERE), ("b", THERE), ("c", "::1")):
        assert dispatcher.wait_s(name, address) == 0
