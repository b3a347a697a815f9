"""When a run is green, and what its report says."""

from __future__ import annotations

from tests.runner.results import MOST_RETRIES, Case, Results


def results(*outcomes: str, **changes: bool) -> Results:
    tests = {f"test_{at}": Case("unit", outcome, seconds=at, **changes) for at, outcome in enumerate(outcomes)}
    return Results(tests, seconds={"A": 65.0})


def test_a_run_without_tests_is_not_green() -> None:
    assert not Results().is_green
    assert "no tests ran" in list(Results().report())[-1]


def test_failed_tests_are_tried_again_unless_they_are_many_or_something_else_is_wrong() -> None:
    assert not results("passed", *["failed"] * MOST_RETRIES).is_broken
    assert results("passed", *["failed"] * (MOST_RETRIES + 1)).is_broken
    wrong = results("passed", "failed")
    wrong.red.append("worker gw0 died")
    assert wrong.is_broken


def test_a_verdict_is_never_tried_again() -> None:
    assert results("failed", final=True).is_broken
    assert "FAILED test_0 (a verdict, not tried again)" in list(results("failed", final=True).report())


def test_what_passed_alone_is_green_and_told() -> None:
    moody = results("passed", "passed")
    moody.alone.append("test_1")
    assert moody.is_green
    assert "passes alone: test_1 (write cause and fix into tests/FLAKY.md)" in list(moody.report())


def test_the_last_line_has_the_form_of_pytests_own() -> None:
    last = list(results("passed", "passed", "failed", "skipped", "").report())[-1]
    assert last.strip("=") == " 1 failed, 2 passed, 1 skipped, 1 unreported in 65.00s (0:01:05) "


def test_the_slowest_tests_come_first() -> None:
    lines = list(results(*["passed"] * 40).report())
    assert lines[0] == "the 30 slowest tests:"
    assert lines[1].split() == ["39.0", "s", "test_39"]
