"""Whole numbers in texts that others wrote."""

from __future__ import annotations

import pytest

from wire.numbers import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", " 7", "-7", "+7", "7.0", "1_000", "٣", "²", "9" * 19, "9" * 5000])
def test_what_is_no_number_or_too_long_is_none(text: str) -> None:
    assert whole_number(text) is None


def test_a_number_may_have_as_many_digits_as_are_asked_for() -> None:
    assert (whole_number("9999", 4), whole_number("10000", 4)) == (9999, None)
