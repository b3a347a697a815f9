"""What is measured of a node's clock, over slow links and while clocks are set, and what becomes of its times."""

from __future__ import annotations

import pytest

from master.core.nodes.node_clock import CLOCK_S, OFF_S, UNKNOWN, NodeClock, sane

DAY = 86400.0
NOW = 1.7e9
SECOND = 2.0
"""Between two samples."""


def measured(ahead: float, there: float = 0.0, back: float = 0.0) -> NodeClock:
    """That of a clock which is so far ahead, by an answer that took so long there and back."""
    clock = NodeClock()
    clock.answered(NOW + ahead, NOW - there, NOW + back)
    return clock


def test_of_a_slow_link_half_of_the_round_trip_is_in_doubt() -> None:
    clock = measured(DAY, there=8.0, back=2.0)
    assert (clock.ahead, clock.doubt) == (DAY + 3.0, 5.0)
    assert clock.wrong_by == DAY + 3.0
    clock = measured(-DAY, there=2.0, back=8.0)
    assert (clock.ahead, clock.doubt, clock.wrong_by) == (-DAY - 3.0, 5.0, -DAY - 3.0)


def test_a_sample_that_came_sooner_than_the_answer_narrows_it() -> None:
    clock = measured(DAY, back=8.0)
    clock.said(NOW + DAY + 10.0, NOW + 10.0)
    assert (clock.ahead, clock.doubt) == (DAY, 0.0)
    clock.said(NOW + DAY + 20.0 + 1.0, NOW + 20.0)
    assert (clock.ahead, clock.doubt) == (DAY, 0.0), "more than the answer allows for is not believed at once"


@pytest.mark.parametrize("back", [0.0, 60.0])
def test_a_clock_that_may_be_right_corrects_nothing(back: float) -> None:
    for ahead in (0.0, OFF_S, -OFF_S):
        assert measured(ahead, there=back, back=back).wrong_by == 0.0
    assert measured(-OFF_S - 30.0, there=back, back=back).wrong_by == (0.0 if back else -OFF_S - 30.0)


def test_an_answer_that_was_heard_before_the_question_is_taken_for_one_at_once() -> None:
    clock = NodeClock()
    clock.answered(NOW + DAY, NOW + 5.0, NOW)
    assert (clock.ahead, clock.doubt) == (DAY, 0.0)


@pytest.mark.parametrize("to", [DAY, -DAY, 10.0, -10.0])
def test_that_a_clock_was_set_is_believed_of_two_samples(to: float) -> None:
    clock = measured(0.0, there=0.5, back=0.5)
    clock.said(NOW + to + SECOND, NOW + SECOND)
    assert clock.wrong_by == 0.0
    clock.said(NOW + to + 2 * SECOND, NOW + 2 * SECOND)
    assert clock.wrong_by == to + 0.5
    assert clock.doubt == 0.5


def test_samples_that_were_held_up_in_a_line_do_not_make_a_clock_wrong() -> None:
    clock = measured(0.0)
    for number in range(30):
        clock.said(NOW + number * SECOND, NOW + 60.0)
        assert clock.wrong_by == 0.0, number


def test_one_that_was_held_up_is_forgotten_with_the_next_that_was_not() -> None:
    clock = measured(0.0)
    for number in range(4):
        late = 30.0 * (number % 2)
        clock.said(NOW + number * SECOND, NOW + number * SECOND + late)
        assert clock.wrong_by == 0.0


def test_without_an_answer_two_samples_tell() -> None:
    clock = NodeClock()
    assert (clock.ahead, clock.doubt, clock.wrong_by) == (None, 0.0, 0.0)
    clock.said(NOW + DAY, NOW)
    assert clock.ahead is None
    clock.said(NOW + DAY + SECOND, NOW + SECOND)
    assert (clock.ahead, clock.wrong_by) == (DAY, DAY)


def test_times_of_a_wrong_clock_are_put_where_they_were() -> None:
    for ahead in (DAY, -DAY, 40 * DAY, -NOW):
        assert sane(NOW + ahead - 60.0, NOW - 90.0, NOW, measured(ahead)) == NOW - 60.0


def test_a_corrected_time_is_neither_before_its_cause_nor_yet_to_come() -> None:
    clock = measured(DAY, there=3.0, back=3.0)
    assert sane(NOW + DAY - 92.0, NOW - 90.0, NOW, clock) == NOW - 90.0
    assert sane(NOW + DAY + 4.0, NOW - 90.0, NOW, clock) == NOW
    for at in (NOW - DAY, NOW + DAY - 96.0, NOW + DAY + 6.0, NOW + 3 * DAY, None):
        assert sane(at, NOW - 90.0, NOW, clock) == NOW


def test_times_of_a_clock_that_may_be_right_are_left_as_they_were_told() -> None:
    for at in (NOW - 91.0, NOW - 90.0, NOW + 1.0):
        assert sane(at, NOW - 90.0, NOW, measured(0.0)) == at
    for at in (NOW - 93.0, NOW + 3.0, NOW + DAY):
        assert sane(at, NOW - 90.0, NOW, measured(0.0)) == NOW


def test_what_was_submitted_while_the_masters_clock_was_ahead_can_have_begun_since() -> None:
    assert sane(NOW - 60.0, NOW + DAY, NOW, measured(0.0)) == NOW - 60.0


def test_of_a_clock_of_which_nothing_was_measured_much_is_believed() -> None:
    for at in (NOW - CLOCK_S, NOW + CLOCK_S):
        assert sane(at, NOW, NOW) == sane(at, NOW + DAY, NOW) == at
    for at in (NOW - CLOCK_S - 1.0, NOW + CLOCK_S + 1.0):
        assert sane(at, NOW, NOW) == NOW
    assert UNKNOWN.ahead is None
