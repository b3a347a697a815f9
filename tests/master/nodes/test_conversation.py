"""The messages of an agent that is played by the test, also those that no agent may send."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from master.core.nodes.inventory import NodeState
from master.core.tasks.task import TaskState
from tests.master.in_process import run
from tests.master.nodes.played_agent import Linked
from tests.waiting import settled
from wire.message import Message


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage\n",
        b"[]\n",
        b'"text"\n',
        b"{}\n",
        b'{"op":"exit"}\n',
        b'{"op":"welcome"}\n',
        b'{"op":"inventory","attempts":[{}]}\n',
        b"\xff\xfe\n",
        b"x" * 70_000 + b"\n",
    ],
)
def test_garbage_ends_the_connection_and_changes_nothing(tmp_path: Path, garbage: bytes) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            agent = await here.session()
            await agent.shake_hands()
            await agent.read()
            before = here.master.core.tasks[1].state
            agent.writer.write(garbage)
            await here.session()
            assert here.node.link_says is not None
            assert here.node.link_says.key == "agent_unreadable"
            assert here.master.core.tasks[1].state is before

    run(story())


def test_what_a_newer_agent_says_is_ignored_where_it_is_not_understood(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            agent.say("horoscope", stars=5)
            begun = time.time()
            agent.say("sample", at=1.0, load=[1.0, 2.0, 3.0], unheard_of=1)
            await settled(lambda: here.node.load == [1.0, 2.0, 3.0])
            assert begun <= 1.0 - (here.node.clock_offset or 0.0) <= time.time()
            assert here.node.state is NodeState.ONLINE

    run(story())


def test_an_agent_that_obeys_another_master_is_told_as_the_reason(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            agent.say("refused", code="fenced", message="it obeys epoch 9", epoch=9, incarnation="z")
            agent.writer.close()
            await here.session()
            assert here.node.state is NodeState.UNREACHABLE
            assert here.node.link_says == Message("agent_refuses_us", code="fenced", said="it obeys epoch 9")

    run(story())


HOSTILE = (
    b'{"op":"exit","launch_id":"L","code":"zero","cause":"exited","error":"","started_at":5.0,"at":6.0}',
    b'{"op":"exit","launch_id":"L","code":0,"cause":"exited","error":"\\ud800","started_at":5.0,"at":6.0}',
    b'{"op":"exit","launch_id":"L","code":0,"cause":"exited","error":"","started_at":5.0,"at":1e400}',
    b'{"op":"exit","launch_id":"L","code":0,"cause":["exited"],"error":"","at":6.0}',
    b'{"op":"started","launch_id":"L","pid":1,"at":"now"}',
    b'{"op":"started","launch_id":"L","pid":1,"at":NaN}',
    b'{"op":"welcome","boot_id":"boot","state_id":"state","cpus":"8","memory_mib":1}',
    b'{"op":"inventory","attempts":[{"launch_id":7,"state":"running"}]}',
    b'{"op":"inventory","attempts":{}}',
    b'{"op":"probed","probe_id":"q1"}',
    b'{"op":"sample","at":1,"load":["a"],"gpus":[{"index":"0"}],"gpu_source":"nvml"}',
    b'{"op":"sample","at":1,"cpu_percent":"much"}',
    b'{"op":["exit"]}',
    b"[]",
    b"7",
    b"[" * 200_000,
    b"\xff\xfe",
)


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: line[:60].decode("ascii", "replace"))
def test_what_an_agent_may_not_say_is_not_believed_and_not_written_down(line: bytes, tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            agent = await here.session()
            await agent.shake_hands()
            launch_id = (await agent.read())["launch_id"]
            before = here.master.core.tasks[1].seq
            agent.writer.write(line.replace(b'"L"', f'"{launch_id}"'.encode()) + b"\n")
            agent = await here.session()
            await agent.shake_hands({"launch_id": launch_id, "state": "running", "started_at": 5.0})
            await settled(lambda: here.master.core.tasks[1].state is TaskState.RUNNING)
            assert here.master.core.tasks[1].seq == before + 1
            assert (await peer.call("task.list"))["total"] == 1

    run(story())
