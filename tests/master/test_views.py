"""What tasks look like to whoever looks: all that they hold, under its own name."""

from __future__ import annotations

from typing import Any

from master.core.attempt import AskedEnd
from master.core.task import Task, TaskFields
from master.views.sight import EVERYTHING
from master.views.tasks import as_filed, task_page
from tests.master.core.small_core import core_with, submit


def test_a_view_has_each_value_of_its_task_under_its_name() -> None:
    told: dict[str, Any] = {name: f"the {name}" for name in TaskFields.__struct_fields__}
    for asked_end in (None, AskedEnd("limit"), AskedEnd("cancel", "ann")):
        task = Task(**{**told, "asked_end": asked_end})
        seen = as_filed(task)
        assert {name: getattr(seen, name) for name in told} == {**told, "asked_end": asked_end}
        assert seen.cancel_requested == (asked_end is not None and asked_end.why == "cancel")
        assert (seen.warning, seen.warning_key, seen.warning_args, seen.unsaved) == (None, None, None, False)


def test_a_page_is_the_view_with_the_attempts() -> None:
    core = core_with()
    task = submit(core, gpus=1, name="digits")
    core.plan()
    page = task_page(core, task, EVERYTHING)
    assert (page.id, page.name, page.state, page.gpus) == (1, "digits", "starting", 1)
    assert page.attempts == task.attempts
    assert [part.node for attempt in page.attempts for part in attempt.parts] == ["a"]
