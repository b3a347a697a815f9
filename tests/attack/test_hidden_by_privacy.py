"""With `privacy` `own`: what of another's task lists do not show is not told by a filter, an error or a wait either.

ann has an array and an allocation, mia looks after her group, bob has nothing to do with her.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from master.core.nodes.accounts import AccountAgent
from master.core.tasks.task import After
from tests.master.in_process import Peer
from tests.master.verbs.test_privacy import Lab, tell
from tests.waiting import settled
from wire.message import Message

NAME = "secret-name"
Story = Callable[[Lab], Awaitable[None]]


async def told(peer: Peer, verb: str, **params: Any) -> str:
    """All that the answer says, be it an error."""
    return json.dumps(await peer.answer(peer.ask(verb, **params)), ensure_ascii=False)


async def alike(peer: Peer, verb: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    """What is there, and what is not, are answered in the same words but for the id that was asked for."""
    said = [await peer.refusal(verb, **params) for params in (one, other)]
    words = [
        (code, text.replace(str(params["id"]), "ID")) for (code, text), params in zip(said, (one, other), strict=True)
    ]
    assert words[0] == words[1]


def test_which_tasks_are_one_array_is_told_to_who_may_know_it(tmp_path: Path) -> None:
    async def story(here: Lab) -> None:
        ann, mia, bob = [await here.of(name) for name in ("ann", "mia", "bob")]
        made = await ann.call("task.submit_array", command="x {index}", array="0-2", hold=True)
        first = made["first"]
        alone = (await ann.call("task.submit", command="x", hold=True))["id"]
        for peer in (ann, mia, here.here.owner):
            listed = await peer.call("task.list", array=first)
            assert [task["id"] for task in listed["tasks"]] == [first, first + 1, first + 2]
        for verb, rest in (("task.list", {}), ("task.edit_array", {"cap": 1})):
            code, said = await bob.refusal(verb, **{"array" if verb == "task.list" else "id": first}, **rest)
            other = await bob.refusal(verb, **{"array" if verb == "task.list" else "id": alone}, **rest)
            assert (code, said.replace(str(first), "ID")) == (other[0], other[1].replace(str(alone), "ID"))
            assert code == "not_found"
        await alike(bob, "task.diff", {"id": first}, {"id": alone})
        for after in (first, alone):
            code, said = await bob.refusal("task.submit", command="true", after=[{"id": after, "array": True}])
            assert (code, said.replace(str(after), "ID")) == ("not_found", other[1].replace(str(alone), "ID"))
        assert (await mia.call("task.submit", command="true", after=[{"id": first, "array": True}]))["id"]

    tell(tmp_path, story, "own")


def test_the_name_of_anothers_allocation_is_told_by_no_refusal(tmp_path: Path) -> None:
    async def story(here: Lab) -> None:
        ann, bob = await here.of("ann"), await here.of("bob")
        held = (await ann.call("alloc.new", name=NAME, gpus=1, hold=True))["id"]
        ended = (await ann.call("alloc.new", name="secret-old", gpus=1, hold=True))["id"]
        await ann.call("alloc.release", id=ended)
        for number in (held, ended):
            for within in (number, str(number)):
                for more in ({"dry_run": True}, {}):
                    said = await told(bob, "task.submit", command="true", within=within, **more)
                    assert "not_found" in said
                    assert "secret" not in said
                    assert "ann" not in said
        mine = (await bob.call("task.submit", command="true", hold=True))["id"]
        assert "secret" not in await told(bob, "task.edit", id=mine, changes={"within": held})
        for said in (
            await told(bob, "task.submit", command="true", within=NAME),
            await told(bob, "alloc.new", name=NAME, gpus=1),
        ):
            assert str(held) not in said.replace('"id": ', "")[40:]
            assert "ann" not in said.replace("another", "")
        bobs = (await bob.call("alloc.new", name="plain", gpus=1, hold=True))["id"]
        assert "conflict" in await told(bob, "task.edit", id=bobs, changes={"name": NAME})
        assert (await ann.call("task.submit", command="true", within=NAME, hold=True))["id"]

    tell(tmp_path, story, "own")


@pytest.mark.usefixtures("unhurried_look")
def test_for_whom_anothers_task_waits_is_not_told_to_who_would_wait_for_it(tmp_path: Path) -> None:
    async def story(here: Lab) -> None:
        ann, bob = await here.of("ann"), await here.of("bob")
        await ann.call("task.cancel", ids=[2])  # it runs, and is to end
        after = (await ann.call("task.submit", command="x", after=[{"id": 2, "on": "any"}], hold=True))["id"]
        here.master.core.tasks[after].waits_for = [After(2)]
        wish = {"command": "true", "after": [{"id": after}]}
        assert "predecessor_is_doomed" in await told(ann, "task.places", **wish)
        assert "doomed" not in await told(bob, "task.places", **wish)

    tell(tmp_path, story, "own")


def test_why_the_account_of_another_could_start_nothing_is_told_to_nobody_else(tmp_path: Path) -> None:
    async def story(here: Lab) -> None:
        core = here.master.core
        node = core.inventory.nodes["a"]
        rests = AccountAgent(resting=Message("account_rests", account="ann2", task=1, said="secret-why", seconds=9))
        node.accounts.logins = {"ann": "ann2", "bob": "bob2"}
        node.accounts.agents = {"ann2": rests}
        bob, mia = await here.of("bob"), await here.of("mia")
        for peer, is_told in ((bob, False), (here.here.owner, True), (mia, False)):
            page = json.dumps(await peer.call("node.show", name="a"))
            assert ("account_rests" in page, "secret-why" in page) == (True, is_told)

    tell(tmp_path, story, "own")


def test_when_others_are_expected_to_end_is_told_by_no_reservation(tmp_path: Path) -> None:
    async def story(here: Lab) -> None:
        core = here.master.core
        ann, bob = await here.of("ann"), await here.of("bob")
        urgent = (await here.here.owner.call("task.submit", command="x", gpus=8, urgent=True))["id"]
        core.tasks[2].time_limit_s = 3600.0  # it runs, and is ann's
        core.tasks[2].started_at = time.time()
        await settled(lambda: "a" in core.holds and core.holds["a"].task == urgent)
        mine = (await bob.call("task.submit", command="x", gpus=7))["id"]
        await settled(lambda: not core.plan_needed)
        assert core.holds["a"].until is not None
        for peer, is_told in ((bob, False), (ann, False), (here.here.owner, True)):
            seen = [await told(peer, "node.show", name="a"), await told(peer, "node.list")]
            assert [('"expected_at": null' not in text) for text in seen] == [is_told] * 2
        seen = [await told(bob, "task.why", id=mine), await told(bob, "task.show", id=mine)]
        seen.append(await told(bob, "task.submit", command="x", gpus=7, dry_run=True))
        for text in seen:
            assert "kept_for_another_still" in text
            assert not any(word in text for word in ("_until", '"until"', "would_pass", "may last beyond"))
        assert "kept_for_another_until" in await told(here.here.owner, "task.why", id=mine)

    tell(tmp_path, story, "own")


def written(log: str, text: str) -> None:
    Path(log).parent.mkdir(exist_ok=True)
    Path(log).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("privacy", ["open", "own"])
def test_who_waits_for_more_of_a_log_gets_nothing_that_was_written_once_he_may_not_read_it(
    tmp_path: Path, privacy: str
) -> None:
    async def story(here: Lab) -> None:
        mia, core = await here.of("mia"), here.master.core
        log = core.tasks[2].log_path
        written(log, "before\n")
        asked = asyncio.ensure_future(mia.answer(mia.ask("log.read", id=2, offset=7, wait_s=20)))
        await settled(lambda: here.master.place.logs.followed)
        await here.here.owner.call("group.edit", name="vision", remove_mentors=["mia"])
        written(log, "before\nafter\n")
        assert (await asked)["error"]["data"]["code"] == "forbidden"

    tell(tmp_path, story, privacy)
