"""Settings: what holds, who said so, and that nothing which was written down by another version ends a start."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import msgspec
import pytest

from master.config.settings import ROWS, Caps, Scheduling, Settings
from master.core.core import Core
from master.core.tuning import PIECE
from master.verbs import documents
from tests.master.core.small_core import core_with, submit
from wire.errors import BadRequestError, LimitError, NotFoundError

NAME = "scheduler.reserve_after"


def a_core(conf: Settings | None = None, **pieces: Any) -> Core:
    numbers = itertools.count()
    core = Core((), lambda task, no: f"{task}.{no}.{next(numbers)}", conf or Settings())
    raw = {
        f"{PIECE}{name.replace('__', '.')}": msgspec.Raw(json.dumps(value).encode()) for name, value in pieces.items()
    }
    core.load({}, {}, 1, raw)
    return core


def after_a_restart(core: Core, conf: Settings | None = None) -> Core:
    outcome = core.take_outcome()
    assert outcome is not None
    again = Core((), lambda task, no: f"{task}.{no}", conf or Settings())
    again.load({}, {}, 1, {name: raw for name, raw in outcome.change.state.items() if bytes(raw) != b"null"})
    return again


def test_what_was_set_outranks_conf_json_over_restarts_until_it_is_taken_back() -> None:
    conf = Settings(Scheduling(reserve_after=60.0))
    core = a_core(conf)
    assert (core.tuning.value(NAME), core.tuning.default(NAME)) == (60.0, 60.0)
    core.tuning.set(NAME, 7200, "chen", 5.0)
    core = after_a_restart(core, conf)
    assert (core.settings.scheduler.reserve_after, core.tuning.default(NAME)) == (7200.0, 60.0)
    assert (core.tuning.said[NAME].by, core.tuning.said[NAME].at) == ("chen", 5.0)
    core.tuning.forget(NAME)
    assert core.settings == conf
    assert after_a_restart(core, conf).settings == conf


def test_a_change_is_planned_with_at_once_and_a_refused_one_changes_nothing() -> None:
    core = a_core()
    core.plan(0.0)
    with pytest.raises(BadRequestError):
        core.tuning.set(NAME, -1, "chen", 5.0)
    assert (core.plan_needed, core.has_outcome(), core.settings) == (False, False, Settings())
    core.tuning.set(NAME, 1, "chen", 5.0)
    assert core.plan_needed


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (NAME, -1, f"{NAME} is a number (seconds) of 0 or more"),
        (NAME, "6h", f"{NAME} is a number"),
        (NAME, True, f"{NAME} is a number"),
        (NAME, float("nan"), f"{NAME} is a number"),
        (NAME, float("inf"), f"{NAME} is a number"),
        (NAME, 10**400, f"{NAME} is a number"),
        (NAME, None, f"{NAME} is a number"),
        (NAME, [1], f"{NAME} is a number"),
        ("scheduler.reservations", 1.5, "scheduler.reservations is a whole number from 0 to 1,000"),
        ("scheduler.keep_memory", 1.0, "scheduler.keep_memory is a number (share) from 0 to 0.99"),
        ("scheduler.max_tasks_per_gpu", 0, "is a whole number of 1 or more, or none"),
        ("scheduler.urgent", "everybody", "scheduler.urgent is one of all, mentors"),
        ("limits.task_bytes", 0, "limits.task_bytes is a number (bytes) of 1 MiB or more"),
        ("limits.frame_bytes_unidentified", 0, "is a number (bytes) of 1 KiB or more"),
        ("scheduler.grace_s", 86_401, "scheduler.grace_s is a number (seconds) from 0 to 86,400"),
        ("limits.waiting_tasks", 0, "limits.waiting_tasks is a whole number of 1 or more"),
    ],
)
def test_what_a_setting_cannot_be_is_refused_with_what_it_can(name: str, value: object, said: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        a_core().tuning.set(name, value, "chen", 1.0)
    assert said in str(refused.value)


def test_a_name_that_is_none_is_refused_with_where_they_are_listed() -> None:
    for name in ("scheduler", "scheduler.policy", "limits.buffer", "", "x" * 1000):
        with pytest.raises(NotFoundError, match="muster set"):
            a_core().tuning.set(name, 1, "chen", 1.0)


def test_no_range_and_no_default_is_told_in_scientific_form() -> None:
    scientific = re.compile(r"\de[+-]?\d")
    told = {row.name: f"{row.allowed} {documents.settings_table()}" for row in ROWS.values()}
    assert [name for name, text in told.items() if scientific.search(text)] == []


def test_none_is_zero_where_zero_means_none() -> None:
    core = a_core(Settings(Scheduling(log_bytes=5)))
    core.tuning.set("scheduler.log_bytes", None, "chen", 1.0)
    assert core.settings.scheduler.log_bytes == 0


@pytest.mark.parametrize("piece", [7, "x", {}, {"value": -5, "by": "x", "at": 1.0}, {"value": 1, "by": 2, "at": "now"}])
def test_what_is_damaged_or_refused_by_this_version_does_not_hold_and_ends_no_start(piece: object) -> None:
    core = a_core(scheduler__reserve_after=piece, scheduler__of_a_later_version={"value": 1, "by": "x", "at": 1.0})
    assert core.settings == Settings()
    assert core.tuning.refused.keys() == {NAME, "scheduler.of_a_later_version"}
    assert not core.has_outcome()  # it lies as it was, for whoever knows it
    core.tuning.set(NAME, 5, "chen", 1.0)
    core.tuning.forget("scheduler.of_a_later_version")
    assert core.tuning.refused == {}
    assert after_a_restart(core).settings.scheduler.reserve_after == 5.0


def test_of_two_admins_at_once_the_last_one_holds_and_neither_loses_another_setting() -> None:
    core = a_core()
    core.tuning.set(NAME, 5, "ann", 1.0)
    core.tuning.set("scheduler.reservations", 2, "bob", 1.0)
    core.tuning.set(NAME, 6, "bob", 1.0)
    core = after_a_restart(core)
    assert (core.settings.scheduler.reserve_after, core.settings.scheduler.reservations) == (6.0, 2)
    assert core.tuning.said[NAME].by == "bob"


def test_how_many_may_wait_changes_at_once() -> None:
    core = core_with(waiting_limit=1)
    submit(core)
    with pytest.raises(LimitError):
        submit(core)
    core.tuning.set("limits.waiting_tasks", 2, "chen", 1.0)
    submit(core)


def test_the_table_says_of_each_what_it_means_and_its_own_default_is_allowed() -> None:
    assert len({row.field for row in ROWS.values()}) == len(ROWS)
    for row in ROWS.values():
        assert row.meaning
        assert row.words or (row.least is not None and row.most is not None)
        a_core().tuning.set(row.name, row.default, "chen", 1.0)
    assert {row.section for row in ROWS.values()} == set(Settings.__struct_fields__) == {"scheduler", "limits"}
    assert issubclass(type(Settings().limits), Caps)
