"""Who is heard in a turn of the loop: a few, the known before strangers, those in no hurry together, and in the end
everybody."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from selectors import EVENT_READ, EVENT_WRITE

import pytest

from master.loop import selector as selector_module
from master.loop.selector import HEARD, MOST, SLOW, STRANGERS, UNHURRIED, TurnSelector
from tests.leaps import Leap

MOMENT_S = 3600.0
"""So long that none passes by itself, however long this machine stands still."""


class Place:
    """A selector, and connections over which something has come that nobody has read yet."""

    def __init__(self, stack: ExitStack) -> None:
        self.selector = TurnSelector()
        stack.callback(self.selector.close)
        self._stack = stack

    def connections(self, count: int, *, behind: bool = False) -> list[socket.socket]:
        pairs = [socket.socketpair() for _ in range(count)]
        for ours, theirs in pairs:
            self._stack.enter_context(ours)
            self._stack.enter_context(theirs)
            if behind:
                self.selector.behind(ours.fileno())
            self.selector.register(ours, EVENT_READ, "data")
            theirs.send(b"x")
        return [ours for ours, _ in pairs]

    def unhurried(self, count: int) -> list[socket.socket]:
        ours = self.connections(count)
        for one in ours:
            self.selector.unhurried(one.fileno())
        return ours

    def heard(self, timeout: float | None = 0.0) -> list[object]:
        return [key.fileobj for key, _ in self.selector.select(timeout)]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(selector_module, "MOMENT_S", MOMENT_S)
    with ExitStack() as stack:
        yield Place(stack)


def test_all_are_heard_in_turn_however_many_there_are(place: Place) -> None:
    all_of_them = place.connections(3 * MOST)
    turns = [place.heard() for _ in range(3)]
    assert [len(turn) for turn in turns] == [MOST] * 3
    assert {*turns[0], *turns[1], *turns[2]} == set(all_of_them)


def test_strangers_come_last_and_few_at_a_time_and_all_in_the_end(place: Place) -> None:
    strangers = place.connections(4 * STRANGERS, behind=True)
    known = place.connections(5)
    turns = [place.heard() for _ in range(4)]
    assert [set(turn[:5]) for turn in turns] == [set(known)] * 4
    assert [len(turn) for turn in turns] == [5 + STRANGERS] * 4
    assert {one for turn in turns for one in turn[5:]} == set(strangers)


def test_who_comes_later_is_heard_before_strangers_that_say_little_again_and_again(place: Place) -> None:
    slow = place.connections(8 * STRANGERS, behind=True)
    for _ in range(16 * HEARD):
        place.heard()  # nobody reads what they said, so all of them are ready again at once
    late = place.connections(2, behind=True)
    turn = place.heard()
    assert turn[:2] == late
    assert len({*turn}) == len(turn) == STRANGERS, "those that are slow have the rest"
    heard = {*turn}
    crowd = place.connections(8 * STRANGERS, behind=True)
    for _ in range(2 * len(slow) // SLOW):
        turn = place.heard()
        assert len(turn) <= STRANGERS
        heard |= {*turn}
    assert heard >= {*slow, *crowd}, "nobody is forgotten"


def test_a_slow_stranger_is_heard_like_all_others_once_it_is_known(place: Place) -> None:
    [slow] = place.connections(1, behind=True)
    for _ in range(2 * HEARD):
        assert place.heard() == [slow]
    place.selector.before(slow.fileno())
    strangers = place.connections(3, behind=True)
    assert place.heard() == [slow, *strangers]
    place.selector.unregister(slow)
    assert place.heard() == strangers


def test_who_is_known_does_not_stand_behind_strangers_any_more(place: Place) -> None:
    strangers = place.connections(3 * STRANGERS, behind=True)
    last = strangers[-1]
    place.selector.before(last.fileno())
    assert [place.heard()[0] for _ in range(3)] == [last] * 3
    last.recv(1)
    assert last not in place.heard()


def test_where_a_connection_stands_outlasts_that_nobody_listens_to_it_for_a_moment(place: Place) -> None:
    *others, one = place.connections(STRANGERS + 1, behind=True)
    place.selector.unregister(one)
    place.selector.register(one, EVENT_READ)
    known = place.connections(1)
    assert place.heard()[0] is known[0]
    assert len(place.heard()) == 1 + STRANGERS
    assert len(others) == STRANGERS


def test_a_descriptor_that_was_a_strangers_is_not_behind_for_the_next(place: Place) -> None:
    strangers = place.connections(STRANGERS, behind=True)
    gone = place.connections(1, behind=True)[0]
    place.selector.unregister(gone)
    place.selector.before(gone.fileno())
    place.selector.register(gone, EVENT_READ)
    assert place.heard()[0] is gone
    assert len(strangers) == STRANGERS


def test_it_tells_what_was_asked_for_and_nothing_else(place: Place) -> None:
    [one] = place.connections(1)
    key = place.selector.modify(one, EVENT_READ | EVENT_WRITE, "both")
    assert place.selector.select(0) == [(key, EVENT_READ | EVENT_WRITE)]
    key = place.selector.modify(one, EVENT_WRITE, "one")
    assert place.selector.select(0) == [(key, EVENT_WRITE)]
    assert place.selector.get_key(one).data == "one"
    assert place.selector.get_map()[one.fileno()] is key
    assert (len(place.selector.get_map()), list(place.selector.get_map())) == (1, [one])
    with pytest.raises(KeyError):
        place.selector.register(one, EVENT_READ)
    assert place.selector.unregister(one) is key
    assert place.heard() == []
    with pytest.raises(KeyError):
        place.selector.unregister(one)
    with pytest.raises(KeyError):
        place.selector.modify(one, EVENT_READ)


@pytest.mark.parametrize("behind", [True, False])
def test_that_the_other_end_is_gone_is_told(place: Place, *, behind: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if behind:
            place.selector.behind(ours.fileno())
        place.selector.register(ours, EVENT_READ)
        theirs.close()
        assert place.heard(None) == [ours]


def test_what_was_closed_can_still_be_taken_out_by_its_number(place: Place) -> None:
    [one] = place.connections(1)
    number = one.fileno()
    one.close()
    place.selector.unregister(number)
    assert len(place.selector.get_map()) == 0


def test_one_is_alone_that_is_ready_with_no_other_and_is_not_what_wakes_the_loop(place: Place) -> None:
    waker, first, second = place.connections(3)  # a loop registers its own first
    assert len(place.heard()) == 3
    assert not place.selector.is_alone()
    waker.recv(1)
    assert set(place.heard()) == {first, second}
    assert not place.selector.is_alone()
    first.recv(1)
    assert place.heard() == [second]
    assert place.selector.is_alone()
    second.recv(1)
    assert place.heard() == []
    assert not place.selector.is_alone()


def test_what_wakes_the_loop_may_stand_for_many(place: Place) -> None:
    (waker,) = place.connections(1)
    assert place.heard() == [waker]
    assert not place.selector.is_alone()


def test_those_in_no_hurry_are_heard_together_a_moment_after_the_first_of_them(place: Place, leap: Leap) -> None:
    first = place.unhurried(1)
    assert place.heard() == place.heard() == []
    others = place.unhurried(2)
    assert place.heard() == []
    leap(MOMENT_S)
    assert set(place.heard()) == {*first, *others}
    for one in (*first, *others):
        one.recv(1)
    assert place.heard() == []
    again = place.unhurried(1)
    assert place.heard() == []
    leap(MOMENT_S)
    assert place.heard() == again


def test_everybody_else_is_heard_at_once_and_before_them(place: Place, leap: Leap) -> None:
    patient = place.unhurried(3 * UNHURRIED)
    assert place.heard() == []
    [known] = place.connections(1)
    assert place.heard() == [known]
    leap(MOMENT_S)
    turns = [place.heard() for _ in range(3)]
    assert [turn[0] for turn in turns] == [known] * 3
    assert [len(turn) for turn in turns] == [1 + UNHURRIED] * 3
    assert {one for turn in turns for one in turn[1:]} == set(patient)


def test_a_loop_that_sleeps_wakes_in_time_for_those_in_no_hurry(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector_module, "MOMENT_S", 0.01)
    [one] = place.unhurried(1)
    assert place.heard(None) == []
    assert place.heard(None) == [one]


def test_who_is_hurried_again_is_heard_at_once(place: Place, leap: Leap) -> None:
    one, other = place.unhurried(2)
    assert place.heard() == []
    place.selector.hurried(one.fileno())
    place.selector.hurried(one.fileno())
    assert place.heard() == [one]
    leap(MOMENT_S)
    assert set(place.heard()) == {one, other}


def test_who_is_taken_out_and_comes_again_is_in_a_hurry(place: Place) -> None:
    one, gone = place.unhurried(2)
    place.selector.unregister(one)
    place.selector.register(one, EVENT_READ)
    assert place.heard() == [one]
    number = gone.fileno()
    gone.close()
    place.selector.unregister(number)
    place.selector.hurried(number)
    place.selector.unhurried(number)
    assert place.heard() == [one]


def test_of_those_in_no_hurry_it_is_told_what_was_asked_for(place: Place, leap: Leap) -> None:
    [one] = place.unhurried(1)
    key = place.selector.modify(one, EVENT_READ | EVENT_WRITE, "both")
    assert place.heard() == []
    leap(MOMENT_S)
    assert place.selector.select(0) == [(key, EVENT_READ | EVENT_WRITE)]


def test_a_stranger_is_nobody_who_has_no_hurry(place: Place) -> None:
    [stranger] = place.connections(1, behind=True)
    place.selector.unhurried(stranger.fileno())
    assert place.heard() == [stranger]


def test_of_a_connection_is_told_whether_anything_of_it_was_not_heard(place: Place) -> None:
    [one] = place.connections(1)
    assert place.selector.has_said(one.fileno())
    one.recv(1)
    assert not place.selector.has_said(one.fileno())
