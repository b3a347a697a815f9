"""Tasks that `users claim` gives to a user: nothing that others have said is done with that user's rights before the
user agrees."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from master.core.attempts.exits import Exit
from master.core.core import Core
from master.core.nodes.facts import NodeState
from master.core.tasks.task import TaskState
from tests.faults import says
from tests.master.core.small_core import BOOT, core_with, launch_of, submit
from tests.master.in_process import run
from tests.master.verbs.test_people import people
from wire.message import Message


def shared_core() -> Core:
    """A lab where tasks run as their owners, but for those of chief."""
    core = core_with()
    core.keep_apart(lambda owner: None if owner == "chief" else owner)
    runs_as_owners(core, can_run_as=True)
    return core


def runs_as_owners(core: Core, *, can_run_as: bool) -> None:
    """The agent can run tasks as their owners, or it cannot."""
    core.node_state("a", NodeState.ONLINE, None, replace(BOOT, can_run_as=can_run_as))


def test_a_claimed_task_does_nothing_with_the_rights_of_its_new_owner_before_they_agree() -> None:
    core = shared_core()
    waits, held = submit(core, owner="lab"), submit(core, owner="lab", state=TaskState.HELD)
    runs = submit(core, owner="lab", max_retries=3)
    core.hold(waits.id)
    core.plan(0.0)
    core.started("a", launch_of(runs), 2.0, 2.0, pid=7)
    core.release(waits.id)
    core.people.add("wang", {"lab"})
    core.claim("lab", "wang")
    core.exited("a", Exit(launch_of(runs), "exited", 3.0, 1), 3.0)
    core.plan(4.0)
    for task in (waits, runs):
        assert (task.owner, task.said_by, task.state) == ("wang", "lab", TaskState.HELD)
        why = str(Message("said_by_other", owner="wang", by="lab"))
        assert says(core.why_it_waits(task), "held_because", id=task.id, why=why)
    assert held.said_by == "lab"
    waits.said_by = ""  # as the verb does, once wang releases it
    core.release(waits.id)
    core.plan(5.0)
    assert waits.state is TaskState.STARTING


def test_where_no_node_runs_tasks_as_their_owners_a_claimed_task_waits_on_until_one_does() -> None:
    core = shared_core()
    runs_as_owners(core, can_run_as=False)
    before, waits = submit(core, owner="lab", gpus=8), submit(core, owner="lab", gpus=8)
    core.plan(0.0)
    core.started("a", launch_of(before), 2.0, 2.0, pid=7)
    core.people.add("wang", {"lab"})
    core.claim("lab", "wang")
    core.plan(3.0)
    assert (waits.owner, waits.state) == ("wang", TaskState.WAITING)
    runs_as_owners(core, can_run_as=True)
    core.plan(4.0)
    assert (waits.state, waits.reason_key) == (TaskState.HELD, "said_by_other")


def test_a_launch_that_is_on_its_way_is_claimed_by_nobody() -> None:
    core = shared_core()
    starts = submit(core, owner="lab")
    core.plan(0.0)
    core.people.add("wang", {"lab"})
    assert core.claim("lab", "wang") == []
    assert starts.owner == "lab"
    core.started("a", launch_of(starts), 2.0, 2.0, pid=7)
    assert core.claim("lab", "wang") == [starts.id]


def test_what_a_barred_owner_got_waits_for_them_also_when_they_are_enabled() -> None:
    core = shared_core()
    waits = submit(core, owner="lab")
    core.people.add("wang", {"lab"})
    core.disable_user("wang", "boss")
    core.claim("lab", "wang")
    core.plan(1.0)
    assert waits.reason_key == "owner_disabled"
    core.enable_user("wang")
    core.plan(2.0)
    assert (waits.state, waits.reason_key) == (TaskState.HELD, "said_by_other")


def test_of_who_has_no_account_of_their_own_and_of_an_allocation_nothing_is_held() -> None:
    core = shared_core()
    waits = submit(core, owner="lab")
    core.people.add("chief", {"lab"})
    core.claim("lab", "chief")
    core.plan(1.0)
    assert waits.state is TaskState.STARTING


def test_only_the_owner_releases_or_starts_what_somebody_else_said(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.MonkeyPatch.context() as patched:
            async with people(tmp_path, patched) as here:
                core = here.master.core
                core.keep_apart(lambda owner: owner)
                runs_as_owners(core, can_run_as=True)
                wang = await here.user("wang")
                boss = await here.user("boss", role="admin")
                numbers = [(await wang.call("task.submit", command="true", hold=True))["id"] for _ in range(2)]
                for number in numbers:
                    core.tasks[number].said_by = "lab"
                for verb in ("task.release", "task.start"):
                    code, text = await boss.refusal(verb, id=numbers[0])
                    assert (code, "said by lab" in text) == ("forbidden", True), verb
                await wang.call("task.release", id=numbers[0])
                assert core.tasks[numbers[0]].said_by == ""
                await here.owner.call("setting.set", name="scheduler.urgent", value="all")
                await wang.call("task.start", id=numbers[1])
                assert core.tasks[numbers[1]].said_by == ""

    run(story())


def test_where_no_node_runs_tasks_as_their_owners_an_admin_lets_a_claimed_task_wait(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.MonkeyPatch.context() as patched:
            async with people(tmp_path, patched) as here:
                core = here.master.core
                wang, boss = await here.user("wang"), await here.user("boss", role="admin")
                core.keep_apart(lambda owner: owner)
                runs_as_owners(core, can_run_as=False)
                number = (await wang.call("task.submit", command="true", hold=True, gpus=0))["id"]
                core.tasks[number].said_by = "lab"
                assert (await boss.call("task.release", id=number))["state"] != "held"
                assert core.tasks[number].said_by == "lab", "it is held once a node comes that runs it as wang"

    run(story())


def test_a_claimed_task_submits_nothing_in_the_name_of_its_new_owner() -> None:
    core = core_with()
    with_token = {"owner": "lab", "token": "submit"}
    waits, ended = submit(core, **with_token), submit(core, **with_token)
    core.cancel(ended.id, 2.0)
    core.people.add("wang", {"lab"})
    core.claim("lab", "wang")
    assert {(task.owner, task.token) for task in (waits, ended)} == {("wang", "")}
