"""What a screen on a wall shows, over real connections: an overview, to whoever passes, of everybody's tasks and of the
nodes; nothing that is not for everybody, whosever the token is and whatever is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.core.attempts.agent_messages import EncodedSample, as_sample
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeState
from master.ports.port_server import NODES, TASKS
from master.views.sight import HIDDEN
from tests.master.in_process import DATA, FACTS, Peer
from tests.master.verbs.test_people import cut_off
from tests.master.verbs.test_privacy import PRIVACY, QUOTED, Lab, tell
from wire.message import Message

NEVER = ("secret-command", "secret-cwd", "secret-env", "secret-setup", "secret-reason", "confidential", "TOKEN", QUOTED)
NEVER_OF_NODES = ("carol", "987654321", "127.0.0.1", "secret-host", "secret-said", "/secret", "secret-fan")
WHOSE = pytest.mark.parametrize("whose", ["ann", "mia", "chief"])
"""Whose the token is: of who owns the tasks, of her mentor, of an admin."""
LISTS: list[dict[str, Any]] = [
    {},
    {"ended": True},
    {"sparse": True, "ended": True},
    {"ids": [1, 2, 3]},
    {"sort": "name"},
]


async def screen(here: Lab, whose: str, port: str = DATA) -> Peer:
    """A screen that shows a token of this user's."""
    if here.master.core.people.named(whose) is None:
        await here.here.owner.call("user.add", name=whose, role="admin")
    made = await here.here.owner.call("token.new", name=whose, scopes=["wall"])
    assert made["scopes"] == ["wall"]
    assert made["expires_at"] is None
    peer = await here.here.stranger(port)
    who = await peer.call("auth.token", token=made["token"])
    assert (who["role"], who["scopes"], who["until"], who["groups"]) == ("viewer", ["wall"], None, [])
    return peer


def check(answer: Any, privacy: str, folder: Path) -> None:
    """Nothing is in it that is not for everybody."""
    text = json.dumps(answer, ensure_ascii=False)
    assert not [word for word in (*NEVER, *NEVER_OF_NODES, str(folder)) if word in text], text
    assert privacy == "open" or "secret" not in text, text


@PRIVACY
@WHOSE
def test_a_list_has_everybody_s_tasks_and_of_each_what_is_for_everybody(
    tmp_path: Path, privacy: str, whose: str
) -> None:
    async def story(here: Lab) -> None:
        peer, stream = await screen(here, whose), await screen(here, whose, TASKS)
        for params in LISTS:
            answer = await peer.call("task.list", **params)
            check(answer, privacy, tmp_path)
            assert {1, 2} <= {task["id"] for task in answer["tasks"]}
        tasks = (await stream.call("subscribe"))["tasks"]
        check(tasks, privacy, tmp_path)
        running = next(task for task in tasks if task["id"] == 2)
        assert (running["owner"], running["state"], running["reason"]) == ("ann", "running", None)
        assert [part["node"] for part in running["allocation"]] == ["a"]
        assert (running["name"], running["priority"]) == (("secret-name", -3) if privacy == "open" else ("", 0))

    tell(tmp_path, story, privacy)


@PRIVACY
@WHOSE
def test_what_changes_is_told_as_the_list_tells_it(tmp_path: Path, privacy: str, whose: str) -> None:
    async def story(here: Lab) -> None:
        stream, ann = await screen(here, whose, TASKS), await here.of("ann", TASKS)
        for peer in (stream, ann):
            await peer.call("subscribe", snapshot="none")
        await (await here.of("ann")).call("task.edit", id=1, changes={"cwd": "/secret-cwd/2", "name": "new"})
        seen, hers = [(await peer.notification())["params"]["task"] for peer in (stream, ann)]
        check(seen, privacy, tmp_path)
        assert (seen["id"], seen["name"]) == (1, "new" if privacy == "open" else "")
        assert hers["cwd"] == "/secret-cwd/2"

    tell(tmp_path, story, privacy)


@WHOSE
def test_a_search_goes_by_what_hangs_on_the_wall(tmp_path: Path, whose: str) -> None:
    async def story(here: Lab) -> None:
        peer = await screen(here, whose)

        async def found(search: str) -> int:
            answer = await peer.call("task.list", ended=True, search=search)
            return int(answer["total"])

        assert [await found(word) for word in ("secret-name", "secret-command", "secret-cwd")] == [3, 0, 0]

    tell(tmp_path, story, "open")


@PRIVACY
def test_of_nodes_it_tells_how_they_are_and_not_where_nor_what_anybody_wrote(tmp_path: Path, privacy: str) -> None:
    async def story(here: Lab) -> None:
        core, engine = here.master.core, here.master.engine
        facts = msgspec.structs.replace(FACTS, hostname="secret-host", python="/secret/python")
        engine.event(lambda: core.node_state("a", NodeState.ONLINE, None, facts))
        core.inventory.nodes["a"].spec = msgspec.structs.replace(core.inventory.nodes["a"].spec, address="127.0.0.1")
        reports = [GpuReport(0, processes=(Holder(pid=987654321, user="carol", memory_mib=5),))]
        engine.event(lambda: core.gpus_seen("a", reports, 1.0))
        engine.event(lambda: core.cordon("a", "resting", Message("resting", task=2, said="secret-said", seconds=5)))
        await here.here.owner.call("node.drain", name="a", reason="secret-fan at 127.0.0.1")
        peer, stream = await screen(here, "ann"), await screen(here, "ann", NODES)
        (node,) = await peer.call("node.list")
        check(node, privacy, tmp_path)
        assert (node["name"], node["state"], node["schedulable"], node["drained"]) == ("a", "online", False, HIDDEN)
        assert node["gpus"][0]["condition"] == "busy"
        check(await stream.call("subscribe"), privacy, tmp_path)
        told = {"op": "sample", "at": 1, "cpu_percent": 7, "gpus": msgspec.to_builtins(reports), "gpu_fault": "/secret"}
        told["disks"] = [{"path": "/secret", "total_mib": 1, "free_mib": 1}]
        here.master.port_server.sample("a", EncodedSample(as_sample(msgspec.json.encode(told))))
        sampled = await stream.notification()
        check(sampled, privacy, tmp_path)
        assert sampled["params"]["cpu_percent"] == 7
        await here.here.owner.call("node.resume", name="a")
        check(await stream.notification(), privacy, tmp_path)

    tell(tmp_path, story, privacy)


@PRIVACY
def test_the_status_counts_tasks_and_nodes_and_names_no_path_and_no_way_in(tmp_path: Path, privacy: str) -> None:
    async def story(here: Lab) -> None:
        here.master.engine.compacting.fault = Message("journal_unwritable", path=str(tmp_path), detail="")
        status = await (await screen(here, "chief")).call("server.info")
        check(status, privacy, tmp_path)
        assert status["tasks"]["running"] == 1
        assert (status["ports"], status["bind"], status["conf"], status["warned"]) == ({}, "", "", [])
        assert status["compaction_fault"] == HIDDEN
        assert "loop" not in status

    tell(tmp_path, story, privacy)


@pytest.mark.parametrize("others", [["read"], ["read", "submit", "files", "account", "nodes", "admin"]])
def test_its_scope_goes_with_no_other(tmp_path: Path, others: list[str]) -> None:
    async def story(here: Lab) -> None:
        refused = await here.here.owner.refusal("token.new", name="ann", scopes=["wall", *others])
        assert refused[0] == "bad_request"
        assert "wall" in refused[1]
        assert not [one for one in here.master.core.people.tokens.values() if one.scopes and "wall" in one.scopes]

    tell(tmp_path, story, "open")


def test_it_goes_dark_when_its_token_or_its_user_does(tmp_path: Path) -> None:
    async def story(here: Lab) -> None:
        one, other = await screen(here, "ann", TASKS), await screen(here, "chief", TASKS)
        for peer in (one, other):
            await peer.call("subscribe", snapshot="none")
        await here.here.owner.call("token.revoke", name="ann", all=True)
        await cut_off(one)
        assert (await other.call("auth.whoami"))["user"] == "chief"
        await here.here.owner.call("user.disable", name="chief")
        await cut_off(other)

    tell(tmp_path, story, "open")
