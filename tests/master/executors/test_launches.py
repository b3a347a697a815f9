"""What is to be begun for an effect `Start`, and what may not be, whatever runs attempts."""

from __future__ import annotations

import msgspec
import pytest

from master.core.attempts.exits import NODE
from master.core.attempts.launching import WayBack
from master.core.core import Core
from master.core.effects import Start
from master.core.nodes.inventory import Facts, NodeState
from master.core.people.run_as import RunAs, as_their_owners
from master.core.tasks.task import Task
from master.executors.launches import Launches, Ready, Refused
from tests.master.core.small_core import BOOT, core_with, run, submit
from tests.master.in_process import SETTINGS
from wire.errors import ConfigError
from wire.message import Message

AS_ROOT = msgspec.structs.replace(BOOT, uid=0, can_run_as=True)
ONLY_ROOT = msgspec.structs.replace(BOOT, uid=0)
AS_ANOTHER = msgspec.structs.replace(BOOT, uid=1000)


def way_back(node: str, launch_id: str) -> WayBack:
    return WayBack(f"token of {launch_id}", {"MUSTER_NODE": node})


def no_way_back(_node: str, _launch_id: str) -> WayBack:
    raise ConfigError(Message("unknown_node", node="a", nodes=()))


def sent(core: Core, facts: Facts, **wants: object) -> Start:
    """The effect for a task that was given node `a`."""
    core.node_state("a", NodeState.ONLINE, None, facts)
    task = submit(core, **wants)
    core.plan(0.0)
    assert task.allocation
    outcome = core.take_outcome()
    assert outcome is not None
    [start] = [effect for effect in outcome.effects if isinstance(effect, Start)]
    return start


def kept_apart(owner: str) -> str | None:
    return None if owner == "chief" else owner


@pytest.mark.parametrize(
    ("owner", "facts", "account"),
    [("li", AS_ROOT, "li"), ("chief", AS_ROOT, None), ("li", AS_ANOTHER, None)],
    ids=["as its owner", "as who runs the master", "as the account there"],
)
def test_what_is_to_be_begun_names_the_account_that_it_must_have(owner: str, facts: Facts, account: str | None) -> None:
    core = core_with()
    found = Launches(core, lambda: SETTINGS, way_back, kept_apart).of(sent(core, facts, owner=owner, token=True))
    assert isinstance(found, Ready)
    assert found.launch.get("run_as") == account
    assert found.launch["launch_id"] == found.part.launch_id
    assert found.launch["token"] == f"token of {found.part.launch_id}"
    assert found.launch["env"]["MUSTER_NODE"] == "a"


def test_what_would_be_root_is_refused_for_a_fault_of_the_node() -> None:
    core = core_with()
    found = Launches(core, lambda: SETTINGS, way_back, kept_apart).of(sent(core, ONLY_ROOT, owner="li"))
    assert isinstance(found, Refused)
    why = found.exit(7.0)
    assert (why.launch_id, why.cause, why.at, why.fault) == (found.part.launch_id, "not_started", 7.0, NODE)
    assert "root" in why.error


def test_what_nobody_said_with_an_admins_rights_is_refused_where_it_would_be_root() -> None:
    core = core_with()
    core.people.add("chief", role="admin")
    run_as: RunAs = as_their_owners(core.people, "chief")
    launches = Launches(core, lambda: SETTINGS, way_back, run_as)
    found = launches.of(sent(core, AS_ROOT, owner="chief", by_admin=False))
    assert isinstance(found, Refused)
    assert (found.fault, "chief" in found.why) == ("", True)
    assert isinstance(launches.of(sent(core, AS_ROOT, owner="chief", by_admin=True)), Ready)


def test_what_has_no_way_back_is_refused_and_only_where_it_asks_for_one() -> None:
    core = core_with()
    launches = Launches(core, lambda: SETTINGS, no_way_back, kept_apart)
    found = launches.of(sent(core, AS_ANOTHER, owner="li", token=True))
    assert isinstance(found, Refused)
    assert found.fault == ""
    assert isinstance(launches.of(sent(core, AS_ANOTHER, owner="li")), Ready)


def test_nothing_is_begun_of_what_is_over() -> None:
    core = core_with()
    start = sent(core, AS_ANOTHER, owner="li")
    launches = Launches(core, lambda: SETTINGS, way_back, kept_apart)
    task: Task = start.task
    assert isinstance(launches.of(start), Ready)
    run(core, task)
    assert launches.of(start) is None
    assert launches.of(Start("another", task)) is None
