"""The verbs that change nodes: the file, the fleet and the queue agree afterwards, and the answer says what is still
to come."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeState
from master.nodes.registry import load_registry
from tests.faults import says
from tests.master.in_process import Nowhere, run
from tests.master.verbs.lab import OTHER, SHOWN, SSH, A, Lab
from tests.waiting import settled
from wire.message import Message


def test_an_added_node_is_in_the_file_in_the_fleet_and_in_the_queue_when_the_answer_comes(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            answer = await peer.call("node.add", node={**SSH, "#": "new"})
            assert (answer["node"]["name"], answer["node"]["driver"], answer["needs_trust"]) == ("远", "ssh", True)
            assert lab.in_file() == lab.in_queue() == list(lab.place.fleet.configs) == ["a", "远"]
            assert '"#": "new"' in lab.registry.read_text(encoding="utf-8")
            lab.driver.known = SHOWN.fingerprint
            assert not (await peer.call("node.add", node={**SSH, "name": "b"}))["needs_trust"]
            assert not (await peer.call("node.add", node={**A, "name": "c"}))["needs_trust"]
            assert [node["name"] for node in await peer.call("node.list")] == ["a", "远", "b", "c"]

    run(story())


WRONG_COUNT, WRONG_COUNT_OF_A = (Message("wrong_value", where=where) for where in ("gpu_count", "[0] (a).gpu_count"))


@pytest.mark.parametrize(
    ("verb", "params", "code", "wanted"),
    [
        ("node.add", {"node": {**A, "name": "b", "gpu_count": -1}}, "bad_request", WRONG_COUNT),
        ("node.add", {"node": {**A, "name": "b", "gpus": 1}}, "bad_request", Message("unknown_key_but", key="gpus")),
        ("node.add", {"node": {**SSH, "user_name": ""}}, "bad_request", Message("wrong_value", where="user_name")),
        ("node.add", {"node": {**SSH, "ip": "me@gpu7:22"}}, "bad_request", Message("ip_misspelt")),
        ("node.edit", {"name": "a", "changes": {"ip": "[::1]"}}, "bad_request", Message("ip_misspelt")),
        ("node.add", {"node": A}, "conflict", Message("node_is_there", node="a")),
        ("node.edit", {"name": "a", "changes": {}}, "bad_request", Message("no_changes")),
        ("node.edit", {"name": "a", "changes": {"gpu": 1}}, "bad_request", Message("unknown_key", key="gpu")),
        ("node.edit", {"name": "a", "changes": {"gpu_count": "8"}}, "bad_request", WRONG_COUNT_OF_A),
        ("node.edit", {"name": "a", "changes": {"name": "b"}}, "bad_request", Message("node_keeps_its_name")),
        ("node.edit", {"name": "a", "changes": {"driver": "ssh"}}, "bad_request", Message("entry_for_ssh")),
        ("node.edit", {"name": "x", "changes": {"port": 1}}, "not_found", Message("node_not_in_registry", node="x")),
        ("node.remove", {"name": "x"}, "not_found", Message("node_not_in_registry", node="x")),
        ("node.drain", {"name": "x"}, "not_found", Message("unknown_node", node="x")),
        ("node.drain", {"name": "a", "reason": "x" * 201}, "bad_request", Message("wrong_value", where="reason")),
        ("node.resume", {"name": "a"}, "conflict", Message("not_drained", node="a")),
        ("node.trust", {"name": "a"}, "bad_request", Message("driver_without_key", node="a")),
        ("node.trust", {"name": "x"}, "not_found", Message("unknown_node", node="x")),
        ("node.lost", {"name": "x"}, "not_found", Message("unknown_node", node="x")),
        ("agent.stop", {"nodes": ["a", "x"]}, "not_found", Message("unknown_node", node="x")),
    ],
)  # fmt: skip
def test_a_mistake_is_told_and_nothing_changes(
    tmp_path: Path, verb: str, params: dict[str, Any], code: str, wanted: Message
) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            before = lab.registry.read_bytes()
            refused, why = await (await lab.peer()).told(verb, **params)
            assert (refused, says(why, wanted.key, **wanted.args)) == (code, True), repr(why)
            assert lab.registry.read_bytes() == before
            assert lab.in_queue() == ["a"]
            assert not lab.core.notes

    run(story())


def test_a_broken_file_is_not_changed_and_the_fault_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            lab.registry.write_text("[", encoding="utf-8")
            code, message = await (await lab.peer()).refusal("node.add", node=SSH)
            assert (code, str(lab.registry) in message) == ("config", True)
            assert lab.registry.read_text(encoding="utf-8") == "["

    run(story())


def test_many_changes_at_once_all_take_effect(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peers = [await lab.peer() for _ in range(8)]
            names = [f"n{number}" for number in range(8)]
            await asyncio.gather(*(
                peer.call("node.add", node={**A, "name": name}) for peer, name in zip(peers, names, strict=True)
            ))  # fmt: skip
            assert sorted(lab.in_file()) == ["a", *names]
            assert lab.in_file() == lab.in_queue()
            await asyncio.gather(*(
                peer.call("node.remove", name=name) for peer, name in zip(peers, names, strict=True)
            ))  # fmt: skip
            assert lab.in_file() == lab.in_queue() == ["a"]

    run(story())


def test_an_edit_takes_effect_at_once_where_nothing_is_lost_by_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            await lab.busy(peer, gpus=1)
            changes = {"gpu_count": 9, "labels": {"room": "二楼"}, "slots": 3}
            answer = await peer.call("node.edit", name="a", changes=changes)
            assert (len(answer["node"]["gpus"]), answer["node"]["slots"], answer["deferred"]) == (9, 3, False)
            assert (await peer.call("node.show", name="a"))["labels"] == {"room": "二楼"}
            answer = await peer.call("node.edit", name="a", changes={"slots": None})
            assert (lab.config("a").slots, answer["node"]["slots"]) == (None, 4)
            answer = await peer.call("node.edit", name="a", changes={"tmp_disk": 2000})
            assert (lab.config("a").tmp_disk, answer["node"]["tmp_disk_mib"]) == (2000, 2000)

    run(story())


def test_a_busy_node_is_followed_to_its_new_address_after_its_last_task_and_the_answer_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            task_id = await lab.busy(peer, gpus=1)
            answer = await peer.call("node.edit", name="a", changes={"ip": "10.0.0.2", "port": 2222})
            assert (answer["deferred"], answer["tasks"]) == (True, [task_id])
            assert (answer["node"]["registry"], answer["node"]["schedulable"]) == ("changing", False)
            assert "ip and port changed" in answer["node"]["reason"]

    run(story())


def test_a_busy_node_whose_address_is_put_back_takes_tasks_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            task_id = await lab.busy(peer, gpus=1)
            lab.write({**A, "ip": "10.0.0.2"})
            lab.place.fleet.apply(load_registry(lab.registry))
            assert not lab.core.node("a").takes_tasks
            lab.write(A)
            lab.place.fleet.apply(load_registry(lab.registry))
            assert lab.core.node("a").takes_tasks
            assert list(lab.core.node("a").active) == [task_id]

    run(story())


def test_an_idle_node_is_gone_at_once_and_a_busy_one_after_its_last_task(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            await peer.call("node.add", node={**A, "name": "idle"})
            assert await peer.call("node.remove", name="idle") == {"name": "idle", "leaving": False, "tasks": []}
            task_id = await lab.busy(peer)
            assert await peer.call("node.remove", name="a") == {"name": "a", "leaving": True, "tasks": [task_id]}
            (node,) = await peer.call("node.list")
            assert (node["registry"], node["schedulable"], node["tasks"]) == ("leaving", False, [task_id])
            assert "left the registry" in node["reason"]
            await peer.call("node.add", node=A)
            (node,) = await peer.call("node.list")
            assert (node["registry"], node["schedulable"]) == ("ok", True)

    run(story())


def test_a_gpu_that_left_the_registry_is_shown_while_a_task_holds_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            task_id = await lab.busy(peer)
            node = (await peer.call("node.edit", name="a", changes={"gpu_count": 1}))["node"]
            assert [gpu["held_by"] for gpu in node["gpus"]] == [[task_id]] * 8
            assert [gpu["health"] for gpu in node["gpus"]] == ["ok"] + [str(Message("gpu_not_registered"))] * 7

    run(story())


def test_a_gpu_shows_what_the_last_sample_told_and_why_it_is_not_given_out(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            stranger = Holder(pid=7, user="alice", memory_mib=500)
            report = GpuReport(
                index=0, memory_total_mib=24576, memory_used_mib=500, utilization=97.0, processes=(stranger,)
            )
            node = lab.core.inventory.nodes["a"]
            node.kept_back = node.watch.look([report], 1, {}, 0.0).kept_back
            first, second = (await peer.call("node.show", name="a"))["gpus"][:2]
            assert (first["memory_mib"], first["memory_used_mib"], first["utilization"]) == (24576, 500, 97.0)
            assert (first["condition"], first["health"]) == ("busy", "used by alice (pid 7)")
            assert first["foreign"] == [{"pid": 7, "user": "alice", "memory_mib": 500}]
            assert (second["health"], second["utilization"], second["foreign"]) == ("ok", None, [])

    run(story())


def test_a_drained_node_says_who_and_why_until_it_is_resumed(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            lab.online()
            node = await peer.call("node.drain", name="a", reason="new\n\tfan  please")
            assert (node["drained"], node["schedulable"], node["state"]) == ("new fan please", False, "online")
            assert "new fan please" in node["reason"]
            shown = await peer.call("node.show", name="a")
            assert shown["drained_by"]
            assert shown["drained_at"] > 0
            node = await peer.call("node.resume", name="a")
            assert (node["drained"], node["schedulable"], node["reason"]) == (None, True, None)

    run(story())


def test_a_node_that_the_registry_keeps_closed_is_not_opened_by_resume(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            await peer.call("node.edit", name="a", changes={"schedulable": False})
            code, message = await peer.refusal("node.resume", name="a")
            assert code == "conflict"
            assert "`muster node edit a schedulable=`" in message

    run(story())


def test_a_node_is_given_up_only_when_it_is_away(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            task_id = await lab.busy(peer)
            code, message = await peer.refusal("node.lost", name="a")
            assert (code, "is online" in message) == ("conflict", True)
            lab.engine.event(lambda: lab.core.node_state("a", NodeState.UNREACHABLE, "gone"))
            assert await peer.call("node.lost", name="a") == {"lost": [task_id]}
            assert (await peer.call("task.show", id=task_id))["state"] == "lost"

    run(story())


def test_one_account_of_a_node_is_given_up_by_its_name_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            code, message = await peer.refusal("node.lost", name="a", account="li2")
            assert (code, "over an account 'li2'" in message) == ("not_found", True)
            assert (await peer.refusal("node.lost", name="a", account=""))[0] == "bad_request"

    run(story())


def test_trust_shows_both_fingerprints_and_pins_only_the_one_that_was_looked_at(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            lab.driver.known = OTHER
            peer = await lab.peer()
            await peer.call("node.add", node=SSH)
            told = {"name": "远", "offered": {"type": "ssh-ed25519", "fingerprint": SHOWN.fingerprint}, "known": OTHER}
            assert await peer.call("node.trust", name="远") == {**told, "pinned": False}
            code, message = await peer.refusal("node.trust", name="远", fingerprint=OTHER)
            assert code == "conflict"
            assert f"shows {SHOWN.fingerprint}, not {OTHER}: nothing was pinned" in message
            assert lab.driver.known == OTHER
            padded = f" {SHOWN.fingerprint}=\n"  # as some programs show it, and as it is pasted
            assert await peer.call("node.trust", name="远", fingerprint=padded) == {**told, "pinned": True}
            assert lab.driver.known == SHOWN.fingerprint
            again = await peer.call("node.trust", name="远")
            assert (again["known"], again["pinned"]) == (SHOWN.fingerprint, True)

    run(story())


def test_trust_that_cannot_be_says_why(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            await peer.call("node.add", node=SSH)
            lab.driver.disk_full = True
            code, message = await peer.refusal("node.trust", name="远", fingerprint=SHOWN.fingerprint)
            assert (code, "known_hosts" in message) == ("storage", True)
            lab.driver.shown = None
            code, message = await peer.refusal("node.trust", name="远")
            assert (code, "connection refused" in message) == ("conflict", True)
            lab.driver.shown, lab.driver.known = SHOWN, OTHER
            await peer.call("node.edit", name="远", changes={"host_key": OTHER})
            code, message = await peer.refusal("node.trust", name="远", fingerprint=SHOWN.fingerprint)
            assert (code, f"host_key={SHOWN.fingerprint}" in message) == ("conflict", True)
            assert lab.driver.known == OTHER

    run(story())


def test_agents_are_stopped_until_they_are_started_and_all_means_all(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            peer = await lab.peer()
            lab.make_driver = lambda _node: Nowhere()  # its refusal shows that it was asked
            await peer.call("node.add", node={**A, "name": "b"})
            assert await peer.call("agent.stop") == {"done": ["a", "b"], "refused": {}}
            assert all("agents start" in node["reason"] for node in await peer.call("node.list"))
            assert await peer.call("agent.start", nodes=["b", "b"]) == {"done": ["b"], "refused": {}}
            await settled(lambda: "no agent in this test" in str(lab.core.inventory.nodes["b"].reason))
            assert lab.core.inventory.nodes["a"].link_says == Message("agent_stopped_start", by="root", name="a")
            assert await peer.call("agent.restart", nodes=["a"]) == {"done": ["a"], "refused": {}}
            await settled(lambda: "no agent in this test" in str(lab.core.inventory.nodes["a"].reason))

    run(story())


def test_a_restart_is_brought_to_its_end_when_who_asked_for_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            half, gone, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

            async def restart(_name: str) -> None:
                half.set()
                await gone.wait()
                done.set()

            monkeypatch.setattr(lab.place.fleet.agents, "restart", restart)
            peer = await lab.peer()
            peer.ask("agent.restart", nodes=["a"])
            await half.wait()
            peer.writer.close()
            await settled(lambda: not lab.port_server.connections)
            gone.set()
            await done.wait()

    run(story())
