"""What tasks look like to whoever looks: all that they hold, under its own name."""

from __future__ import annotations

from typing import Any

from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.tasks.attempt import AskedEnd
from master.core.tasks.task import Task, TaskFields
from master.views.nodes import NodeReservation, node_view
from master.views.sight import EVERYTHING
from master.views.tasks import as_filed, task_page
from tests.master.core.small_core import core_with, submit
from wire.message import Message


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
    core.plan(0.0)
    page = task_page(core, task, EVERYTHING)
    assert (page.id, page.name, page.state, page.gpus) == (1, "digits", "starting", 1)
    assert page.attempts == task.attempts
    assert [part.node for attempt in page.attempts for part in attempt.parts] == ["a"]


def test_why_there_is_no_way_to_a_node_is_told_to_people_and_to_programs() -> None:
    core = core_with()
    for why, key in ((Message("machine_off", peer="10.0.0.1:22"), "machine_off"), ("no way", "link_said")):
        core.node_state("a", NodeState.UNREACHABLE, why)
        seen = node_view(core, core.node("a"), None, EVERYTHING)
        assert (seen.reason, seen.reason_messages[0].key) == (str(why), key)
    core.node_state("a", NodeState.ONLINE)
    assert node_view(core, core.node("a"), None, EVERYTHING).reason_messages == []


def test_a_node_shows_for_which_task_its_gpus_are_kept_and_when_that_is_expected_to_start() -> None:
    core = core_with()
    submit(core, gpus=1, time_limit_s=60.0)
    core.plan(1.0)
    assert node_view(core, core.node("a"), None, EVERYTHING).reservation is None
    large = submit(core, gpus=8, urgent=True)
    core.take_outcome()
    core.plan(1.0)
    outcome = core.take_outcome()
    assert outcome is not None
    assert outcome.nodes == {"a"}, "who looks at nodes is told"
    seen = node_view(core, core.node("a"), None, EVERYTHING).reservation
    assert seen == NodeReservation(large.id, list(range(8)), 61.0)
    core.plan(2.0)
    outcome = core.take_outcome()
    assert outcome is None or not outcome.nodes, "it is as it was"
    core.cancel(large.id, 3.0)
    core.plan(3.0)
    outcome = core.take_outcome()
    assert outcome is not None
    assert outcome.nodes == {"a"}
    assert node_view(core, core.node("a"), None, EVERYTHING).reservation is None


def test_where_nobody_knows_when_its_gpus_are_free_a_node_shows_no_time_and_a_gang_is_shown_on_each() -> None:
    core = core_with(*(NodeSpec(name=name, gpu_models=("GPU",) * 2) for name in "ab"))
    submit(core, gpus=1)
    core.plan(1.0)
    gang = submit(core, gpus=2, nodes=2, urgent=True)
    core.plan(2.0)
    for name in "ab":
        seen = node_view(core, core.node(name), None, EVERYTHING).reservation
        assert seen == NodeReservation(gang.id, [0, 1], None)
