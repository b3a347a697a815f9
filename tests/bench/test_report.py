"""The report: medians, targets from both sides, and a table that fits."""

from __future__ import annotations

import pytest

from bench.report import WIDTH, Figure, at_least, at_most, number, percentile, table, verdict


def figure(*runs: float, **keys: object) -> Figure:
    return Figure(**{"subject": "s", "name": "n", "unit": "ms", "runs": runs, **keys})  # type: ignore[arg-type]


def test_a_figure_is_the_median_of_its_runs() -> None:
    assert figure(9.0, 1.0, 2.0).median == 2.0


def test_a_bound_counts_as_met_from_its_own_side_only() -> None:
    assert [figure(value, target=at_most(4)).met for value in (3.9, 4, 4.1)] == [True, True, False]
    assert [figure(value, target=at_least(4)).met for value in (3.9, 4, 4.1)] == [False, True, True]


def test_what_has_no_target_is_not_judged() -> None:
    assert figure(1.0).met is None
    assert verdict([figure(1.0), figure(1.0, target=at_most(2)), figure(3.0, target=at_most(2))]) == (
        "1 of 2 targets met"
    )


def test_the_p99_of_a_hundred_is_the_last_but_one() -> None:
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile([5.0], 0.99) == 5.0
    assert percentile([1, 2, 3], 0.5) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1.234, "1.23"), (4, "4"), (12.34, "12.3"), (250, "250"), (120000, "120,000")],
)
def test_numbers_have_three_digits_that_matter(value: float, text: str) -> None:
    assert number(value) == text


def test_the_table_fits_and_names_each_subject_once() -> None:
    wide = figure(123456.0, 999999.0, 100000.0, name="a name that is far too long for its column " * 3)
    text = table([wide, figure(5.0, target=at_most(4)), figure(1.0, subject="other", target=at_least(1))])
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines.count("s") == lines.count("other") == 1
    assert [line.split()[-1] for line in lines[3:]] == ["missed", "other", "met"]


def test_json_has_the_runs_the_target_and_its_direction() -> None:
    assert figure(1.0, 3.0, 2.0, target=at_least(4)).as_json() == {
        "subject": "s",
        "name": "n",
        "at": None,
        "unit": "ms",
        "median": 2.0,
        "runs": [1.0, 3.0, 2.0],
        "target": 4,
        "better": "higher",
        "met": False,
    }
