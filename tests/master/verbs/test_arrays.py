"""Arrays over real connections: what is filed, what is refused, whose they are, and that a restart keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from master.core.nodes.inventory import Facts, NodeState
from master.core.tasks.task import TaskState
from tests.master.in_process import InProcess, comes_as, run
from tests.waiting import settled
from wire.message import Message

FACTS = Facts(boot_id="boot", state_id="state", cpus=8, memory_mib=1000)


def online(master: InProcess) -> None:
    master.engine.event(lambda: master.core.node_state("a", NodeState.ONLINE, None, FACTS))


def test_an_array_is_filed_with_ids_without_a_gap_and_each_task_has_its_index(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            online(master)
            peer = await master.peer()
            asked: dict[str, Any] = {"command": ["echo", "{index}"], "array": "1-5:2%2", "name": "n{index}", "gpus": 1}
            filed = await peer.call("task.submit_array", **asked, request_id="x")
            assert filed == {"first": 1, "count": 3}
            assert await peer.call("task.submit_array", **asked, request_id="x") == filed
            assert (await peer.refusal("task.submit_array", **{**asked, "array": "1-4"}, request_id="x"))[
                0
            ] == "conflict"
            # Where a plan took long, the next one comes a little later.
            await settled(lambda: master.core.counts[TaskState.STARTING] == 2)
            tasks = (await peer.call("task.list", array=1))["tasks"]
            assert [(one["array"], one["command"], one["name"]) for one in tasks] == [
                ({"id": 1, "index": 1}, ["echo", "1"], "n1"),
                ({"id": 1, "index": 3}, ["echo", "3"], "n3"),
                ({"id": 1, "index": 5}, ["echo", "5"], "n5"),
            ]
            assert len({one["log_path"] for one in tasks}) == 3
            assert [one["state"] for one in tasks] == ["starting", "starting", "waiting"]
            why = await peer.call("task.why", id=3)
            assert why["details"][0] == str(Message("array_runs_enough", id=1, used=2, most=2))
            told = await peer.call("task.edit_array", id=1, cap=3)
            assert told == {"id": 1, "count": 3, "cap": 3, "max_fails": None, "failed": []}
            await settled(lambda: master.core.tasks[3].state is TaskState.STARTING)

    run(story())


def test_a_sweep_puts_its_values_into_words_and_is_told_per_task(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            sweep = {"lr": ["0.1", "a b; $(id)"], "bs": ["32", "64"]}
            await peer.call("task.submit_array", command=["t", "--lr={lr}", "{bs}"], sweep=sweep)
            tasks = (await peer.call("task.list", array=1))["tasks"]
            assert [one["sweep"] for one in tasks[1:3]] == [{"lr": "0.1", "bs": "64"}, {"lr": "a b; $(id)", "bs": "32"}]
            assert tasks[3]["command"] == ["t", "--lr=a b; $(id)", "64"]
            for wrong, code in (
                ({"command": "t {lr}", "sweep": sweep}, "bad_request"),
                ({"command": "t"}, "bad_request"),
                ({"command": "t", "array": "0-3", "sweep": {"a": ["1"]}}, "bad_request"),
                ({"command": "t", "array": "0-3%2", "cap": 3}, "bad_request"),
                ({"command": "t", "array": "0-3", "log": "x"}, "bad_request"),
                ({"command": "t", "array": "0-300000"}, "bad_request"),
                ({"command": "x" * 100_000, "array": "0-9999"}, "limit"),
                ({"command": ["t", "{a}" * 10_000], "sweep": {"a": ["y" * 4000]}}, "limit"),
            ):
                assert (await peer.refusal("task.submit_array", **wrong))[0] == code, wrong
            assert (await peer.refusal("task.edit_array", id=2, cap=1))[0] == "not_found"
            assert (await peer.refusal("task.edit_array", id=1))[0] == "bad_request"
            assert (await peer.refusal("task.list", array=3))[0] == "not_found"

    run(story())


def test_the_cap_of_another_ones_array_is_his_and_outlives_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            with comes_as("chen", master.core, "admin"):
                chen = await master.peer()
                await chen.call("user.add", name="ann")
                await chen.call("user.add", name="bob")
            with comes_as("ann", master.core):
                await (await master.peer()).call("task.submit_array", command="true", array="0-3%2", max_fails=1)
            with comes_as("bob", master.core):
                bob = await master.peer()
                assert (await bob.refusal("task.edit_array", id=1, cap=9))[0] == "forbidden"
        async with InProcess(tmp_path) as master:
            known = master.core.arrays.known[1]
            assert (known.cap, known.max_fails, known.count) == (2, 1, 4)

    run(story())
