"""The time limits of the lab: what tasks get that ask for none, and what none may ask for."""

from __future__ import annotations

import pytest

from master.config.settings import Scheduling
from master.core.tasks.time_limit import limit_of
from tests.master.core.small_core import core_with, submit
from wire.errors import BadRequestError


@pytest.mark.parametrize(
    ("asked", "usual", "most", "has"),
    [
        (None, 0.0, 0.0, None),
        (60.0, 0.0, 0.0, 60.0),
        (None, 3600.0, 0.0, 3600.0),
        (7200.0, 3600.0, 0.0, 7200.0),
        (None, 0.0, 600.0, 600.0),
        (None, 3600.0, 600.0, 600.0),
        (600.0, 3600.0, 600.0, 600.0),
    ],
)
def test_a_task_has_the_limit_that_it_asks_for_or_that_of_the_lab(
    asked: float | None, usual: float, most: float, has: float | None
) -> None:
    assert limit_of(asked, Scheduling(time_limit=usual, time_limit_max=most)) == has


def test_who_asks_for_more_than_is_allowed_is_told_how_much_that_is() -> None:
    with pytest.raises(BadRequestError, match=r"601 seconds, and 600 are allowed \(scheduler.time_limit_max\)"):
        limit_of(601.0, Scheduling(time_limit_max=600.0))


@pytest.mark.parametrize("limit", [None, 7200.0])
def test_what_was_submitted_before_the_lab_had_a_longest_limit_starts_with_that(limit: float | None) -> None:
    core = core_with()
    task = submit(core, time_limit_s=limit)
    core.tuning.set("scheduler.time_limit_max", 600.0, "ada", 1.0)
    core.plan(0.0)
    assert task.time_limit_s == 600.0
    outcome = core.take_outcome()
    assert outcome is not None
    assert task in outcome.change.tasks, "it is on disk with the intent to start, so a launch that is sent again has it"
