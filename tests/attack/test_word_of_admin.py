"""A token of an admin's with fewer scopes, or a task of theirs, must not become an admin by what it lets run: nodes
where tasks run as the master's own account, and those where they would be root, take only what was said in full by
admins with the scope `admin`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from master.core.attempts.launching import LaunchSettings
from master.core.nodes.inventory import NodeSpec, NodeState
from master.core.people.run_as import as_their_owners
from master.core.tasks.task import TaskState
from master.executors.agents import Agents
from master.nodes.registry import NodeConfig
from master.watchers.own_account import OwnAccount
from tests.attack.lab_of_many import OWNER
from tests.cases import each_case
from tests.faults import says
from tests.master.in_process import FACTS, Peer
from tests.master.verbs.test_people import Lab, People, lab
from tests.waiting import settled

__all__ = ["lab"]

OURS = NodeConfig(name="a", driver="local", gpu_count=8)
ACTS: dict[str, Any] = {
    "command": "id", "cwd": "data", "env": "x", "log": "a.log", "setup": "id", "variables": {"A": "1"},
    "gpus": 1, "time_limit_s": 60, "name": "n",
}  # fmt: skip


@asynccontextmanager
async def own_node(here: People) -> AsyncIterator[tuple[Peer, Peer]]:
    """A node that runs tasks as the master's account, in a lab with users; an admin, and a token of theirs that may
    submit."""
    core, engine = here.master.core, here.master.engine
    full = await here.user("amy", "admin")
    await here.owner.call("user.add", name="bob")
    link: Any = SimpleNamespace(node="a")
    watcher = OwnAccount(engine, "desktop")
    watcher.link_made(link, OURS)
    here_as_us = msgspec.structs.replace(FACTS, runs_as="us")
    engine.event(lambda: core.node_state("a", NodeState.ONLINE, None, here_as_us))
    watcher.link_up(link, OURS)
    yield full, await token_of(here, "amy", "read", "submit")


async def token_of(here: People, name: str, *scopes: str) -> Peer:
    made = await here.owner.call("token.new", name=name, scopes=list(scopes))
    peer = await here.stranger()
    await peer.call("auth.token", token=made["token"])
    return peer


def is_kept_away(here: People, task_id: int) -> bool:
    """Does it wait, and only for the word of an admin?"""
    core = here.master.core
    task = core.find(task_id)
    return task.state is TaskState.WAITING and any(
        says(one, key)
        for one in core.wait(task).obstacles
        for key in ("needs_word_of_admin", "needs_word_of_admin_as_root")
    )


async def begins(here: People, task_id: int) -> None:
    await settled(lambda: here.master.core.find(task_id).state is TaskState.STARTING)


def test_what_an_admins_token_with_fewer_scopes_submits_waits_and_no_start_forces_it(lab: Lab) -> None:
    async def story(here: People) -> None:
        async with own_node(here) as (full, less):
            first = (await less.call("task.submit_batch", commands=["id", "whoami"]))["first"]
            weak = {
                "submit": (await less.call("task.submit", command="id"))["id"],
                "batch": first,
                "array": (await less.call("task.submit_array", command="id", array="0-1"))["first"],
                "allocation": (await less.call("alloc.new", name="mine", gpus=1))["id"],
            }
            with each_case() as cases:
                for way, task_id in weak.items():
                    with cases.case(way):
                        await full.call("task.start", id=task_id)
                        await here.master.engine.settled()
                        assert is_kept_away(here, task_id)
                        assert not here.master.core.find(task_id).by_admin
            await begins(here, (await full.call("task.submit", command="id"))["id"])
            await begins(here, (await here.owner.call("task.submit", command="id"))["id"])

    lab(story)


def test_what_it_edits_or_queues_again_is_an_admins_no_more_and_stays_so(lab: Lab) -> None:
    async def story(here: People) -> None:
        async with own_node(here) as (full, less):
            core = here.master.core
            with each_case() as cases:
                for key, value in ACTS.items():
                    with cases.case(key):
                        task_id = (await full.call("task.submit", command="true", hold=True))["id"]
                        assert core.find(task_id).by_admin
                        await less.call("task.edit", id=task_id, changes={key: value})
                        assert not core.find(task_id).by_admin
                        await full.call("task.edit", id=task_id, changes={key: value})
                        await full.call("task.release", id=task_id)
                        await here.master.engine.settled()
                        assert is_kept_away(here, task_id)
                with cases.case("priority, by a mentor or a token: it runs the same"):
                    task_id = (await full.call("task.submit", command="true", hold=True))["id"]
                    await less.call("task.edit", id=task_id, changes={"priority": -1})
                    assert core.find(task_id).by_admin
                with cases.case("owner"):
                    await less.call("task.edit", id=task_id, changes={"owner": "amy", "priority": 0})
                    await less.call("task.edit", id=task_id, changes={"owner": "bob"})
                    assert not core.find(task_id).by_admin
            for verb, said in (("task.retry", {}), ("task.edit", {"changes": {"priority": 0}})):
                task_id = (await full.call("task.submit", command="true", hold=True))["id"]
                await full.call("task.cancel", ids=[task_id])
                await less.call(verb, id=task_id, **said)
                await here.master.engine.settled()
                assert is_kept_away(here, task_id), verb

    lab(story)


def test_what_a_task_of_an_admins_submits_is_no_admins(lab: Lab) -> None:
    async def story(here: People) -> None:
        async with own_node(here) as (full, _less):
            task_id = (await full.call("task.submit", command="true", token="submit"))["id"]  # noqa: S106
            task = here.master.core.find(task_id)
            here.master.core.token_holder = lambda launch_id: task if launch_id == "7.1.ab" else None
            peer = await here.stranger()
            await peer.call("auth.token", token=here.master.place.task_tokens.make("7.1.ab"))
            made = (await peer.call("task.submit", command="id"))["id"]
            await here.master.engine.settled()
            assert is_kept_away(here, made)

    lab(story)


def test_no_environment_is_activated_there_for_a_token_with_fewer_scopes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: People) -> None:
        async with own_node(here) as (_full, less):
            asked: list[str] = []

            async def probe(node: str, *_words: Any, **_keys: Any) -> None:
                asked.append(node)

            monkeypatch.setattr(here.master.place.fleet, "probe", probe)
            for verb in ("env.check", "env.python", "env.packages", "env.cuda"):
                for said in ({}, {"node": "a"}):
                    code, why = (await less.refusal(verb, env="base", **said))[:2]
                    assert (code, "with the scope `admin`" in why) == ("forbidden", True), verb
            assert asked == []

    lab(story)


@pytest.mark.parametrize(
    "root",
    [{"uid": 0, "can_run_as": True}, {"uid": 0}, {"can_run_as": True}, {"uid": None, "protocol": 1}],
    ids=["both", "root", "as owners", "an agent that does not say"],
)
def test_nothing_of_who_runs_the_master_is_root_on_a_node_that_was_not_said_in_full_by_them(
    lab: Lab, root: dict[str, Any]
) -> None:
    async def story(here: People) -> None:
        core, engine, sent = here.master.core, here.master.engine, list[Any]()
        OwnAccount(engine, "desktop")
        before = (await here.owner.call("task.submit", command="id", hold=True))["id"]
        core.find(before).by_admin = False  # as an earlier version wrote it down
        await here.user("amy", "admin")
        await here.owner.call("user.add", name=OWNER, role="admin")
        settings = LaunchSettings(conda="/conda", task_env={}, grace_s=1.0)
        run_as = as_their_owners(core.people, OWNER)
        agents = executor(here, lambda: settings, lambda *what: sent.append(what), run_as)
        engine.executor_of = lambda _node: agents
        engine.event(lambda: core.node_state("a", NodeState.ONLINE, None, msgspec.structs.replace(FACTS, **root)))
        await here.owner.call("task.release", id=before)
        weak = (await (await token_of(here, OWNER, "submit")).call("task.submit", command="id"))["id"]
        strong = (await here.owner.call("task.submit", command="id"))["id"]
        await settled(lambda: [one for one in sent if one[1]["op"] == "launch"])
        assert core.find(strong).state is TaskState.STARTING
        for task in map(core.find, (before, weak)):  # nothing is lost: another node may take it
            assert task.state is TaskState.WAITING
            assert says(core.why_it_waits(task), "needs_word_of_admin_as_root")
        assert len([one for one in sent if one[1]["op"] == "launch"]) == 1
        assert core.node("a").cordons == {}
        agents.close()

    lab(story)


def test_what_may_not_be_root_begins_where_it_is_not(lab: Lab) -> None:
    async def story(here: People) -> None:
        core, engine = here.master.core, here.master.engine
        OwnAccount(engine, "desktop")
        await here.owner.call("user.add", name=OWNER, role="admin")
        engine.event(lambda: core.set_nodes((core.node("a").spec, NodeSpec(name="b"))))
        root = msgspec.structs.replace(FACTS, uid=0)
        engine.event(lambda: core.node_state("a", NodeState.ONLINE, None, root))
        less = await token_of(here, OWNER, "read", "submit")
        weak = (await less.call("task.submit", command="id"))["id"]
        await here.master.engine.settled()
        assert core.find(weak).state is TaskState.WAITING
        engine.event(lambda: core.node_state("b", NodeState.ONLINE, None, msgspec.structs.replace(FACTS, uid=1000)))
        await begins(here, weak)
        assert [part.node for part in core.find(weak).allocation] == ["b"]

    lab(story)


def executor(here: People, settings: Callable[[], LaunchSettings], send: Any, run_as: Any) -> Agents:
    def no_way_back(_node: str, _launch_id: str) -> Any:
        raise AssertionError("no task asks for a token here")

    async def ask(*_words: Any, **_keys: Any) -> Any:
        raise AssertionError("nobody is asked here")

    return Agents(here.master.engine, settings, send, no_way_back, run_as, ask=ask)
