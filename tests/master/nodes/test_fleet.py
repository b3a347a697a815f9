"""The links of all nodes while the registry changes under them, with agents that are played by the test."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from master.core.nodes.gpu_watch import UNSEEN
from master.core.nodes.inventory import NodeState
from master.core.tasks.task import TaskState
from master.watchers import shared_folders
from tests.master.in_process import run
from tests.master.nodes.played_fleet import Field, ssh
from tests.waiting import settled
from wire.errors import BadRequestError, NodeUnreachableError, NotFoundError
from wire.message import Message


def test_nodes_come_and_go_with_the_registry(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"),))
            await here.online("n")
            here.fleet.apply((ssh("n"), ssh("m", "10.0.0.2")))
            await here.online("m")
            here.fleet.apply((ssh("m", "10.0.0.2"),))
            assert here.node("n") is None
            await settled(lambda: "retire" in here.one.ops())
            with pytest.raises(NotFoundError, match="no node 'n'"):
                here.fleet.agents.wake("n")

    run(story())


@pytest.mark.parametrize(("probe", "left"), [("declared", {}), ("gputil", dict.fromkeys(range(2), UNSEEN))])
def test_what_one_way_of_asking_for_gpus_found_says_nothing_once_there_is_another(
    tmp_path: Path, probe: Literal["declared", "gputil"], left: dict[int, str]
) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"),))
            await here.online("n")
            here.one.say(op="sample", at=1.0, gpu_source="nvml", gpu_fault="it hangs")
            await settled(lambda: {str(why) for why in here.node("n").kept_back.values()} == {"it hangs"})
            here.one.tells_of_gpus = False
            here.fleet.apply((ssh("n", gpu_probe=probe),))
            await settled(lambda: here.one.ops().count("hello") == 2)
            await settled(lambda: here.node("n").kept_back == left)

    run(story())


def test_a_busy_node_leaves_when_its_last_task_has_ended_and_been_acknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"),))
            launch_id = await here.busy()
            here.fleet.apply(())
            assert here.node("n").active
            here.one.end(launch_id)
            await settled(lambda: here.node("n") is None)
            await settled(lambda: "retire" in here.one.ops())
            assert here.one.ops().index("ack") < here.one.ops().index("retire")

    run(story())


def test_a_busy_node_whose_address_changes_goes_there_when_its_tasks_have_ended(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"),))
            launch_id = await here.busy()
            here.fleet.apply((ssh("n", "10.0.0.2"),))
            assert "its ip changed" in here.node("n").closed_because
            assert here.two.heard == []
            here.one.end(launch_id)
            await settled(lambda: here.two.heard)
            await here.online("n")
            assert here.node("n").takes_tasks

    run(story())


def test_an_unreachable_node_goes_to_its_new_address_at_once_and_a_stranger_there_gets_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"),))
            await here.busy()
            assert here.one.server is not None
            assert here.one.writer is not None
            here.one.server.close()
            here.one.writer.close()
            await settled(lambda: here.node("n").state is not NodeState.ONLINE)
            here.fleet.apply((ssh("n", "10.0.0.2"),))
            await settled(lambda: "is not where" in (here.node("n").reason or ""))
            assert here.master.core.tasks[1].state is TaskState.RUNNING
            assert set(here.two.ops()) == {"hello"}

    run(story())


def test_tasks_that_wait_are_not_planned_for_the_old_machine_while_the_way_changes(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"),))
            peer = await here.master.peer()
            await peer.call("task.submit_batch", commands=["true"] * 3, gpus=2)
            launch_id = await here.running(1)
            here.fleet.apply((ssh("n", "10.0.0.2"),))
            here.one.end(launch_id)
            second = await here.running(2)
            assert second in here.two.running
            assert {task.state for task in here.master.core.tasks.values()} == {
                TaskState.SUCCEEDED, TaskState.RUNNING, TaskState.WAITING,
            }  # fmt: skip

    run(story())


def test_an_idle_node_with_a_queue_changes_its_way_without_losing_a_task(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"),))
            await here.online("n")
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1, hold=True)
            here.master.engine.event(lambda: here.master.core.release(1))
            here.fleet.apply((ssh("n", "10.0.0.2"),))
            assert await here.running(1) in here.two.running

    run(story())


def test_no_node_has_a_word_in_the_attempts_of_another(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"), ssh("m", "10.0.0.2")))
            await here.online("m")
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1, node="n")
            launch_id = await here.running(1)
            here.two.say(op="exit", launch_id=launch_id, code=0, cause="exited", error="", started_at=5.0, at=6.0)
            await settled(lambda: "ack" in here.two.ops())
            assert here.master.core.tasks[1].state is TaskState.RUNNING
            assert here.node("n").gpu_holders == {0: {1: None}}

    run(story())


def test_a_node_that_is_renamed_while_busy_gives_no_gpu_out_twice(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"),))
            peer = await here.master.peer()
            await peer.call("task.submit_batch", commands=["true"] * 2, gpus=2)
            launch_id = await here.running(1)
            here.one.running.clear()  # the agent of another name knows nothing of it
            here.fleet.apply((ssh("renamed"),))
            await here.online("renamed")
            assert "the machine that n was" in here.node("renamed").closed_because
            assert here.master.core.tasks[2].state is TaskState.WAITING
            newest, here.one.writer = here.one.writer, here.one.first
            here.one.end(launch_id)
            here.one.writer = newest
            await settled(lambda: here.master.core.tasks[2].state is TaskState.RUNNING)

    run(story())


def test_a_node_without_a_shared_folder_says_so_and_takes_no_task_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_folders, "AGAIN_MISSING_S", 0.001)

    async def story() -> None:
        async with Field(tmp_path, ("/data",)) as here:
            here.one.says = "missing"
            here.fleet.apply((ssh("n"),))
            await settled(lambda: "/data" in (here.node("n").closed_because or ""))
            assert here.node("n").state is NodeState.ONLINE
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            assert "mount it there" in (await peer.call("task.show", id=1))["reason"]
            here.one.says = "ok"
            await here.running(1)

    run(story())


def test_folders_that_another_machine_lacked_do_not_close_the_masters_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path, ("/data",)) as here:
            here.one.says = "missing"
            here.fleet.apply((ssh("n"),))
            await settled(lambda: "/data" in (here.node("n").closed_because or ""))
            here.fleet.apply((ssh("n", "10.0.0.2", driver="local"),))
            await here.online("n")
            assert here.node("n").takes_tasks
            assert "probe" not in here.two.ops()

    run(story())


def test_a_broken_registry_changes_nothing_and_is_told_until_it_is_mended(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"),))
            await here.online("n")
            garbage = Message("not_utf8_at", line=3)
            here.fleet.refuse(garbage)
            assert here.fleet.registry_fault == garbage
            assert here.node("n").takes_tasks
            here.fleet.apply((ssh("n"),))
            assert here.fleet.registry_fault is None
            assert here.one.ops().count("hello") == 1

    run(story())


def test_a_question_is_answered_or_breaks_off_with_the_connection(tmp_path: Path) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.fleet.apply((ssh("n"), ssh("m", "10.0.0.9")))
            await here.online("n")
            assert (await here.fleet.probe("n", ["true"]))["output"] == "ok\n"
            with pytest.raises(NodeUnreachableError, match="not connected"):
                await here.fleet.probe("m", ["true"])
            assert here.node("m").state is NodeState.UNTRUSTED
            here.one.says = ""
            question = asyncio.create_task(here.fleet.probe("n", ["true"]))
            await settled(lambda: here.one.ops().count("probe") == 2)
            assert here.one.writer is not None
            here.one.writer.close()
            with pytest.raises(NodeUnreachableError, match="node n"):
                await question
            with pytest.raises(BadRequestError, match="no host key"):
                await here.fleet.host_keys.offered("n")

    run(story())


ROOT = {"protocol": 3, "uid": 0, "account": "root", "can_run_as": True}


SHARED = {"protocol": 3, "uid": 1500, "account": "lab", "can_run_as": False}


EARLIER = {"protocol": 2, "uid": 0}


@pytest.mark.parametrize(("facts", "account"), [(ROOT, "wang.wei"), (SHARED, None), ({"protocol": 2, "uid": 7}, None)])
def test_an_agent_that_is_root_runs_tasks_and_probes_as_their_owners_and_others_as_themselves(
    tmp_path: Path, facts: dict[str, Any], account: str | None
) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.one.more_facts = facts
            here.fleet.apply((ssh("n"),))
            await here.online("n")
            await here.busy()
            here.accounts[here.master.core.tasks[1].owner] = "wang.wei"
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            await here.running(2)
            await here.fleet.probe("n", ["true"], run_as="wang.wei")
            first, second = (message for message in here.one.heard if message["op"] == "launch")
            assert not {"run_as", "run_as_allowed", "log_folder"} & set(first)
            probe = next(message for message in here.one.heard if message["op"] == "probe")
            assert (second.get("run_as"), probe.get("run_as")) == (account, account)
            if account is not None:
                assert second["run_as_allowed"] == probe["run_as_allowed"] == ["svc"]
                assert second["log_folder"] == str(tmp_path / "logs")
            told = await peer.call("node.show", name="n")
            assert (told["account"], told["can_run_as"]) == (facts.get("account"), facts.get("can_run_as", False))

    run(story())


@pytest.mark.parametrize(
    ("facts", "cure"), [(EARLIER, "muster agents restart n"), ({**ROOT, "can_run_as": False}, "CAP_SETUID")]
)
def test_what_would_run_as_root_is_not_sent_to_an_agent_that_cannot_become_the_owner(
    tmp_path: Path, facts: dict[str, Any], cure: str
) -> None:
    async def story() -> None:
        async with Field(tmp_path) as here:
            here.one.more_facts = facts
            here.fleet.apply((ssh("n"),))
            await here.online("n")
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            await here.running(1)
            here.accounts[here.master.core.tasks[1].owner] = "wang.wei"
            await peer.call("task.submit", command="true", gpus=1)
            task = here.master.core.tasks[2]
            await settled(lambda: bool(task.unstarted))
            assert cure in task.unstarted[0].why
            with pytest.raises(NodeUnreachableError, match=cure):
                await here.fleet.probe("n", ["true"], run_as="wang.wei")
            assert [message["op"] for message in here.one.heard].count("launch") == 1
            assert "probe" not in here.one.ops()

    run(story())
