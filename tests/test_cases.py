"""A test of many cases names each case that failed, and fails if there was none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cases import Cases, each_case
from tests.rights import CannotHere
from tests.waiting import NeverError


def checked(**works: Callable[[], object]) -> Cases:
    """A test with these cases."""
    with each_case() as cases:
        for name, work in works.items():
            with cases.case(name):
                work()
    return cases


def holds() -> None:
    assert True


def fails() -> None:
    assert 1 == 2, "one is not two"  # noqa: PLR0133  (it fails on purpose)


def raises(error: BaseException) -> None:
    raise error


def raises_nothing() -> None:
    with pytest.raises(KeyError):
        pass


def test_cases_that_hold_raise_nothing() -> None:
    assert (checked(one=holds, two=holds).count, checked(one=holds).failed) == (2, [])


def test_each_failed_case_is_named_with_its_error_and_its_lines() -> None:
    with pytest.raises(AssertionError) as failed:
        checked(one=fails, two=holds, three=fails)
    told = str(failed.value)
    assert told.startswith("2 of 3 cases failed:\none: one is not two")
    assert "\nthree: one is not two" in told
    work, fault = (function.__code__.co_firstlineno for function in (checked, fails))
    assert told.count(f"(tests/test_cases.py:{work + 5}, tests/test_cases.py:{fault + 1})") == 2


def test_an_error_of_another_kind_is_told_with_its_type() -> None:
    with pytest.raises(AssertionError, match=r"^1 of 2 cases failed:\none: KeyError: 'k' \(tests/test_cases\.py:"):
        checked(one=lambda: raises(KeyError("k")), two=holds)


def test_a_case_that_does_not_raise_as_expected_fails_like_others() -> None:
    with pytest.raises(AssertionError, match=r"^2 of 2 cases failed:\none: DID NOT RAISE .*KeyError(.|\n)*\ntwo: "):
        checked(one=raises_nothing, two=fails)


def test_a_test_without_a_case_fails() -> None:
    with pytest.raises(AssertionError, match="no case was checked"):
        checked()


@pytest.mark.parametrize(
    "error", [CannotHere("why", "cure"), NeverError("it did not come"), TimeoutError(), pytest.fail.Exception("late")]
)
def test_an_error_that_ends_the_test_names_its_case_and_those_that_failed_before(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised:
        checked(one=fails, two=lambda: raises(error), three=holds)
    assert raised.value is error
    case, before = error.__notes__
    assert case == "in the case two"
    assert before.startswith("before that, 1 of 2 cases failed:\none: one is not two")


def test_an_error_outside_the_cases_is_raised_as_it_is() -> None:
    error = KeyError("k")
    with pytest.raises(KeyError) as raised, each_case():
        raises(error)
    assert raised.value is error
