"""Once a second user existed, only an admin's command lets users' tasks run as the master's own account again."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import msgspec
import pytest

from master.core.core import Core
from master.core.nodes.facts import NodeState
from master.core.nodes.inventory import NodeSpec
from master.core.tasks.task import TaskState
from master.durable import upgrade
from master.durable.disk import OsDisk
from master.durable.store import Store
from master.edited_files.ownership import user_name
from master.engine.engine import Engine
from master.nodes.registry import NodeConfig
from master.watchers.own_account import OwnAccount
from tests import landed
from tests.cases import each_case
from tests.master.core.small_core import core_with, submit
from tests.master.executor import played
from tests.master.in_process import FACTS
from tests.master.verbs.test_people import Lab, People, lab

__all__ = ["lab"]

NODE = NodeConfig(name="a", driver="local", gpu_count=8)
SPEC = NodeSpec(name="a", gpu_models=("GPU",) * 8)
END = time.time() + 3600.0
OURS = user_name(os.geteuid())


HERE = msgspec.structs.replace(FACTS, runs_as="us")


class Up:
    """The link to the node."""

    node = "a"


class Start:
    """A start of the master on `folder/queue`: the store, the core, and the watcher with a local node."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "queue", OsDisk(), witness=folder / "log.queue")
        image = self.store.open()
        self.core = Core((SPEC,), lambda task, attempt: f"{task}.{attempt}")
        self.core.load(image.tasks, image.answered, image.next_id, image.state)
        self.engine = Engine(self.core, self.store)
        self.engine.executor_of = played(lambda _effects: None)
        self.store.anchor({}, anew=False)
        self._watcher = OwnAccount(self.engine, "desktop")
        self.node_up()

    def node_up(self) -> None:
        """The local node gets a link, and its agent says who it is."""
        self._watcher.link_made(Up(), NODE)  # type: ignore[arg-type]
        self.engine.event(lambda: self.core.node_state("a", NodeState.ONLINE, None, HERE))
        self._watcher.link_up(Up(), NODE)  # type: ignore[arg-type]

    @property
    def owners(self) -> set[str] | None:
        """Whose tasks the node runs; None: everybody's."""
        restriction = self.core.node("a").restriction
        return None if restriction is None else set(restriction.owners)

    def change(self, change: Callable[[], Any]) -> None:
        """As a client changes something."""
        self.engine.client_change(change)


def started(folder: Path, story: Callable[[Start], None]) -> set[str] | None:
    """Start, tell the story, end in order; whose tasks the node runs then."""

    async def whole() -> set[str] | None:
        start = Start(folder)
        story(start)
        await start.engine.settled()
        owners = start.owners
        await start.engine.close()
        return owners

    return asyncio.run(whole())


@contextmanager
def later() -> Iterator[None]:
    """It is after `END`."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "time", lambda: END + 1.0)
        yield


def add_two(start: Start) -> None:
    start.change(lambda: start.core.people.add("ann", {"lab", "desktop"}, role="admin"))
    start.change(lambda: start.core.people.add("bob", expires_at=END))


def nothing(_start: Start) -> None:
    """Only the start and the end."""


def test_the_fence_stands_when_the_second_user_expires_or_is_gone_and_after_a_restart(tmp_path: Path) -> None:
    assert started(tmp_path, add_two) == {"ann", OURS}

    def change(start: Start) -> None:
        start.change(lambda: start.core.people.edit("ann", display="Ann"))

    with later():
        assert started(tmp_path, change) == {"ann", OURS}
        assert started(tmp_path, lambda start: start.change(lambda: start.core.remove_user("bob"))) == {"ann", OURS}
        assert started(tmp_path, nothing) == {"ann", OURS}


def test_a_copy_from_before_the_second_user_does_not_take_the_fence_down(tmp_path: Path) -> None:
    started(tmp_path, lambda start: start.change(lambda: start.core.people.add("ann", role="admin")))
    shutil.copytree(tmp_path / "queue", tmp_path / "backup")
    started(tmp_path, lambda start: start.change(lambda: start.core.people.add("bob")))
    shutil.rmtree(tmp_path / "queue")
    shutil.copytree(tmp_path / "backup", tmp_path / "queue")
    assert started(tmp_path, nothing) == {"ann", OURS}
    (tmp_path / "log.queue").unlink()
    assert started(tmp_path, nothing) == {"ann", OURS}, "it is in the folder, too"


def test_what_uses_up_ids_and_is_no_second_user_closes_nothing(tmp_path: Path) -> None:
    def story(start: Start) -> None:
        people = start.core.people
        start.change(lambda: people.add("ann", {"lab", "desktop", "root"}, role="admin"))
        start.change(lambda: people.add_group("vision"))
        start.change(lambda: people.add("desktop"))
        start.change(lambda: people.edit("ann", disabled="lab"))

    assert started(tmp_path, story) is None
    assert started(tmp_path, nothing) is None


def test_a_first_admin_who_is_none_any_more_closes_it(tmp_path: Path) -> None:
    def story(start: Start) -> None:
        start.change(lambda: start.core.people.add("ann", role="admin"))
        start.change(lambda: start.core.people.edit("ann", role="user"))

    assert started(tmp_path, story) == {OURS}


@pytest.mark.parametrize("when", ["while it runs", "while it is down"])
def test_an_opened_node_that_left_the_registry_and_came_back_is_closed(tmp_path: Path, when: str) -> None:
    def opened(start: Start) -> None:
        add_two(start)
        start.change(lambda: start.core.people.edit("bob", disabled="ann"))
        start.change(lambda: start.core.own_account.open("a", time.time()))
        start.change(start.core.people.look_again)
        assert start.owners is None

    def gone(start: Start) -> None:
        start.change(lambda: start.core.set_nodes(()))
        start.change(lambda: start.core.set_nodes((SPEC,)))
        start.node_up()

    def both(start: Start) -> None:
        opened(start)
        gone(start)

    if when == "while it runs":
        assert started(tmp_path, both) == {"ann", OURS}
    else:
        assert started(tmp_path, opened) is None
        assert started(tmp_path, lambda start: start.change(lambda: start.core.set_nodes((SPEC,)))) is None
        assert started(tmp_path, gone) == {"ann", OURS}
    assert started(tmp_path, nothing) == {"ann", OURS}


MADE_BY_LANDED = """
import sys
from pathlib import Path
from master.core.outcome import Pending
from master.core.people import People
from master.durable.disk import OsDisk
from master.durable.store import Store
store = Store(Path(sys.argv[1]), OsDisk())
image = store.open()
pending = Pending()
people = People(pending)
people.load(image.state)
people.add("ann", {"lab"}, role="admin")
if sys.argv[2] == "two":
    people.add("bob", disabled="ann", expires_at=1.0)
store.append(pending.take().change)
store.commit()
store.close()
"""
OPENED_BY_LANDED = """
import sys
from pathlib import Path
from master.durable.disk import OsDisk
from master.durable.store import Store
Store(Path(sys.argv[1]), OsDisk()).open()
"""


def test_a_folder_of_the_landed_version_with_a_user_who_is_expired_and_disabled_is_closed(tmp_path: Path) -> None:
    code = landed.unpack("users", tmp_path / "code")
    for number, owners in (("one", None), ("two", {"ann", OURS})):
        folder = tmp_path / number
        folder.mkdir()
        landed.run(code, "-c", MADE_BY_LANDED, str(folder / "queue"), number)
        assert started(folder, nothing) == owners
        assert started(folder, nothing) == owners
        with pytest.raises(CalledProcessError) as refusal:
            landed.run(code, "-c", OPENED_BY_LANDED, str(folder / "queue"))
        assert "a later version of Muster wrote this folder" in refusal.value.stderr
        kept = json.loads((folder / "queue" / upgrade.KEPT / "state.json").read_text("utf-8"))
        assert kept["format"] == 2


def test_waiting_tasks_of_an_expired_user_are_held_until_the_end_is_lifted() -> None:
    core = core_with()
    core.people.add("bob", expires_at=100.0)
    running, waiting, kept = (submit(core, owner="bob", gpus=8) for _ in range(3))
    core.hold(kept.id)
    core.plan(1.0)
    assert (running.state, waiting.state) == (TaskState.STARTING, TaskState.WAITING)
    core.plan(100.0)
    assert (running.state, waiting.state, waiting.reason_key) == (TaskState.STARTING, TaskState.HELD, "owner_expired")
    assert "muster users edit bob" in str(core.why_it_waits(waiting))
    core.edit_user("bob", 101.0, expires_at=200.0)
    assert (waiting.state, kept.state) == (TaskState.WAITING, TaskState.HELD)
    core.plan(102.0)
    assert (waiting.state, waiting.reason_key) == (TaskState.WAITING, None)


def test_the_planner_is_woken_when_a_user_expires() -> None:
    core = core_with()
    core.take_outcome()
    core.people.add("bob", expires_at=100.0)
    core.plan(1.0)
    outcome = core.take_outcome()
    assert outcome is not None
    assert [effect.at for effect in outcome.effects if hasattr(effect, "at")] == [100.0]


@pytest.mark.parametrize("barred", ["owner_disabled", "owner_expired"])
@pytest.mark.parametrize("way", ["submit", "release", "force", "give"])
def test_nothing_of_a_barred_user_begins_however_it_comes_to_wait(barred: str, way: str) -> None:
    core = core_with()
    core.people.add("bob")
    core.people.add("cy")
    task = submit(
        core, owner="cy" if way == "give" else "bob", state=TaskState.HELD if way == "release" else TaskState.WAITING
    )
    if barred == "owner_disabled":
        core.disable_user("bob", "ann")
    else:
        core.edit_user("bob", 1.0, expires_at=2.0)
        if way != "give":
            core.plan(3.0)
    if way == "give":
        core.give_to(task.id, "bob")
    elif way == "submit":
        task = submit(core, owner="bob")
    else:
        getattr(core, way)(task.id)
    core.plan(4.0)
    assert (task.state, task.reason_key) == (TaskState.HELD, barred)
    core.give_to(task.id, "cy")
    core.plan(5.0)
    assert task.state is TaskState.STARTING, "it was their end, not the task's"


@pytest.mark.parametrize("barred", ["owner_disabled", "owner_expired"])
def test_nobody_is_told_that_a_task_of_a_barred_user_may_begin(lab: Lab, barred: str) -> None:
    async def story(here: People) -> None:
        core, owner = here.master.core, here.owner
        bob = await here.user("bob")
        held = (await bob.call("task.submit", command="id", hold=True))["id"]
        ended = (await bob.call("task.submit", command="id", hold=True))["id"]
        await bob.call("task.cancel", ids=[ended])
        if barred == "owner_disabled":
            await owner.call("user.disable", name="bob")
        else:
            here.master.engine.client_change(lambda: core.edit_user("bob", time.time(), expires_at=time.time() - 1.0))
        with each_case() as cases:
            for verb, task_id in (("task.release", held), ("task.start", held), ("task.retry", ended)):
                with cases.case(verb):
                    before = core.find(task_id).state
                    code, why = (await owner.refusal(verb, id=task_id))[:2]
                    assert (code, "bob" in why) == ("conflict", True)
                    assert core.find(task_id).state is before
                    assert not core.find(task_id).forced

    lab(story)


def fenced(here: People, *, is_online: bool = True) -> Core:
    """A watcher with a local node is in this lab; the core."""
    core, watcher = here.master.core, OwnAccount(here.master.engine, "desktop")
    watcher.link_made(Up(), NODE)  # type: ignore[arg-type]
    if is_online:
        here.master.engine.event(lambda: core.node_state("a", NodeState.ONLINE, None, HERE))
        watcher.link_up(Up(), NODE)  # type: ignore[arg-type]
    return core


@pytest.mark.parametrize("state", [NodeState.CONNECTING, NodeState.UNREACHABLE])
def test_a_node_of_which_nobody_knows_yet_as_whom_it_runs_tasks_is_not_opened(lab: Lab, state: NodeState) -> None:
    async def story(here: People) -> None:
        core = fenced(here, is_online=state is not NodeState.CONNECTING)
        here.master.engine.event(lambda: core.node_state("a", state, None))
        await here.user("ann", "admin")
        await here.user("bob")
        await here.owner.call("user.disable", name="bob")
        code, why = (await here.owner.refusal("node.resume", name="a", own_account=True))[:2]
        assert (code, "online" in why) == ("conflict", True)
        assert not core.own_account.is_opened("a")

    lab(story)


def test_the_way_back_is_an_admins_and_refused_while_a_user_may_come_in(lab: Lab) -> None:
    async def story(here: People) -> None:
        core, owner = fenced(here), here.owner
        assert (await owner.refusal("node.resume", name="a", own_account=True))[0] == "conflict"
        ann = await here.user("ann", "admin")
        await here.user("bob")
        code, why = await ann.refusal("node.resume", name="a", own_account=True)
        assert (code, "bob" in why) == ("conflict", True)
        confined = await owner.call("token.new", name="ann", scopes=["nodes"])
        stranger = await here.stranger()
        await stranger.call("auth.token", token=confined["token"])
        await owner.call("user.disable", name="bob")
        assert (await stranger.refusal("node.resume", name="a", own_account=True))[0] == "forbidden"
        assert (await owner.refusal("node.resume", name="a", own_account=True, gpus=[0]))[0] == "bad_request"
        view = await ann.call("node.resume", name="a", own_account=True)
        assert "own_account_node" not in [one["key"] for one in view["reason_messages"]]
        assert core.node("a").restriction is None
        audited = (await owner.call("audit.read", verb="node.resume"))["entries"]
        assert ("ann", "a own_account", "ok") in [(one["user"], one["target"], one["result"]) for one in audited]

    lab(story)


@pytest.mark.parametrize("way", ["user.add", "user.enable"])
def test_the_next_user_closes_it_again(lab: Lab, way: str) -> None:
    async def story(here: People) -> None:
        core = fenced(here)
        await here.user("ann", "admin")
        await here.user("bob")
        await here.owner.call("user.disable", name="bob")
        await here.owner.call("node.resume", name="a", own_account=True)
        await here.owner.call("user.edit", name="ann", changes={"display": "Ann"})
        assert core.node("a").restriction is None
        await here.owner.call(way, name="bob" if way == "user.enable" else "cy")
        restriction = core.node("a").restriction
        assert restriction is not None
        assert restriction.owners == {"ann", OURS}
        await here.owner.call("user.disable", name="bob" if way == "user.enable" else "cy")
        assert core.node("a").restriction is not None

    lab(story)


def test_a_user_who_comes_back_with_an_accepted_clock_closes_an_opened_node(tmp_path: Path) -> None:
    started(tmp_path, add_two)
    with later():
        assert (
            started(tmp_path, lambda start: start.change(lambda: start.core.own_account.open("a", END + 1.0))) is None
        )
        assert started(tmp_path, nothing) is None
    back = started(tmp_path, lambda start: start.change(lambda: start.core.accept_clock(time.time())))
    assert back == {"ann", OURS}
