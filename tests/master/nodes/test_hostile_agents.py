"""Whatever speaks for a node: what it says of times, GPUs and attempts holds nobody up but itself."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from master.core.attempts import agent_messages
from master.core.nodes.inventory import NodeState
from master.core.tasks.task import TaskState
from master.durable import history
from master.nodes import connection, link
from master.nodes.backoff import BACKOFF_S
from master.nodes.conversation import REPEATED_S
from master.nodes.pacing import BURST_S
from master.ports.port_server import NODES
from tests.master.in_process import run
from tests.master.nodes.played_agent import WELCOME, Agent, Conversation, Linked, StillPace
from tests.waiting import settled
from wire.framing import encode
from wire.message import Message

HUGE = "1" + "0" * 400
HOSTILE = {
    "bad UTF-8 under unknown keys": b'"x\xff\xfe":"\xfe\xff"',
    "a number that no reader takes": b'"x":' + HUGE.encode(),
    "900 levels": b'"x":' + b"[" * 900 + b"]" * 900,
    "an unknown key of a GPU": b'"gpus":[{"index":0,"x":{"y":' + HUGE.encode() + b"}}]",
}
REFUSED = {
    "memory of 10^400 MiB": b'"memory_total_mib":' + HUGE.encode(),
    "GPU memory of 10^400 MiB": b'"gpus":[{"index":0,"memory_used_mib":' + HUGE.encode() + b"}]",
    "a process of user 1000000 letters": b'"gpus":[{"index":0,"processes":[{"pid":1,"user":"' + b"x" * 10**6 + b'"}]}]',
    "a load of a text": b'"load":"high"',
    "100,000 levels": b'"x":' + b"[" * 100_000 + b"]" * 100_000,
    "3 MiB": b'"cpu_percents":[' + b"1," * 1_500_000 + b"1]",
}


def sample(more: bytes, **keys: Any) -> bytes:
    told = json.dumps({"op": "sample", "at": time.time(), "gpu_source": "nvml", **keys}).encode()
    return told[:-1] + b"," + more + b"}\n"


@pytest.mark.parametrize("what", HOSTILE)
def test_only_what_was_typed_of_a_sample_goes_on(tmp_path: Path, what: str) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            watcher = await here.master.peer(NODES)
            await watcher.call("subscribe")
            agent = await here.session()
            await agent.shake_hands()
            agent.writer.write(sample(HOSTILE[what], cpu_percent=7.0))
            while (told := await watcher.notification())["params"].get("cpu_percent") != 7.0:
                pass
            assert "x" not in str(told["params"].keys())
            assert len(json.dumps(told)) < 2000
            assert here.node.state is NodeState.ONLINE

    run(story())


@pytest.mark.parametrize("what", REFUSED)
def test_a_sample_that_cannot_be_believed_ends_its_own_connection_only(tmp_path: Path, what: str) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            watcher = await here.master.peer(NODES)
            await watcher.call("subscribe")
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            agent.writer.write(sample(REFUSED[what]))
            await settled(lambda: here.node.state is NodeState.UNREACHABLE)
            assert "unreadable" in (here.node.reason or "")
            assert len(here.node.reason or "") < 300
            again = await here.session()
            await again.shake_hands()
            again.writer.write(sample(b'"cpu_percent":9.0'))
            while (await watcher.notification())["params"].get("cpu_percent") != 9.0:
                pass

    run(story())


@pytest.mark.parametrize("count", [5_000, 60_000, 200_000])
def test_an_inventory_of_more_than_a_machine_can_run_is_not_gone_through(tmp_path: Path, count: int) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands(*({"launch_id": f"x{number}", "state": "running"} for number in range(count)))
            await settled(lambda: "its inventory has" in (here.node.reason or ""))
            assert not here.node.orphaned

    run(story())


@pytest.mark.parametrize("what", ["welcome", "inventory"])
def test_a_greeting_is_heard_once(tmp_path: Path, what: str) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            again = encode(WELCOME) if what == "welcome" else encode({"op": "inventory", "attempts": []})
            agent.writer.write(again)
            await settled(lambda: f"its {what} comes when none is due" in (here.node.reason or ""))
            await (await here.session()).shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)

    run(story())


def test_a_flood_of_words_leaves_the_others_their_turn_and_is_heard_to_its_end(tmp_path: Path) -> None:
    count = 20_000

    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            ghosts = (encode({"op": "exit", "launch_id": f"x{n}", "cause": "exited", "at": 1.0}) for n in range(count))
            agent.writer.write(b"".join(ghosts))
            acknowledged = 0
            for asked in range(10):
                await peer.call("server.info")
                assert acknowledged < count or asked > 2, "nobody was answered before all of it was heard"
                acknowledged += await acks(agent)
            while acknowledged < count:
                acknowledged += await acks(agent)

    run(story())


async def acks(agent: Conversation) -> int:
    return len((await agent.read()).get("launch_ids", []))


def test_of_what_an_agent_says_in_words_the_beginning_is_kept(tmp_path: Path) -> None:
    words = "no room " * 8000

    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true")
            agent = await here.session()
            await agent.shake_hands()
            launch = await agent.read()
            agent.say("exit", launch_id=launch["launch_id"], cause="unknown", error=words, at=time.time())
            task = here.master.core.tasks[1]
            await settled(lambda: task.state is TaskState.LOST)
            assert (task.reason or "").startswith("no room no room")
            assert len(task.reason or "") < 1100

    run(story())
    refused = agent_messages.as_refused(encode({"op": "refused", "code": "unwritable", "message": words}))
    assert len(refused.message) < 1100
    said = agent_messages.as_sample(encode({"op": "sample", "at": 1.0, "gpu_fault": words}))
    assert len(said.gpu_fault) < 1100
    welcome = agent_messages.as_welcome(encode({**WELCOME, "login_fault": words}))
    assert len(welcome.login_fault) < 1100


def test_an_exit_at_an_absurd_time_keeps_nobody_from_compacting(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true")
            agent = await here.session()
            await agent.shake_hands()
            launch = await agent.read()
            before = time.time()
            agent.say("started", launch_id=launch["launch_id"], pid=1, at=-9e14)
            agent.say("exit", launch_id=launch["launch_id"], code=0, cause="exited", error="", started_at=9e14, at=9e14)
            task = here.master.core.tasks[1]
            await settled(lambda: task.state is TaskState.SUCCEEDED)
            assert before <= (task.started_at or 0) <= (task.ended_at or 0) <= time.time()
            here.master.engine.store.archive([task])

    run(story())


def test_a_time_that_an_earlier_master_believed_has_a_month(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true")
            task = here.master.core.tasks[1]
            for at in (1e15, -1e15, float("inf")):
                task.ended_at = at
                assert history.month_of(task) == "1970-01"

    run(story())


def test_what_a_probe_prints_beyond_what_was_asked_for_is_cut(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            asked = here.link.questions.ask(["true"], output_limit=100)
            question = asyncio.create_task(asked)
            while (message := await agent.read())["op"] != "probe":
                pass
            agent.say("probed", probe_id=message["probe_id"], code=0, output="x" * 10**6)
            answer = await question
            assert (len(answer["output"]), answer["truncated"]) == (100, True)

    run(story())


def test_the_limits_leave_room_for_what_machines_are() -> None:
    process = {"pid": 4194304, "user": "somebody-long", "memory_mib": 80000, "launch_id": "123456.10.abcdef01"}
    gpus = [{"index": i, "uuid": "GPU-" + "x" * 36, "model": "m" * 40, "processes": [process] * 40} for i in range(16)]
    network = [
        {"name": f"veth{i:08}", "received_ps": 1234567.1, "sent_ps": 1.5, "bandwidth": 1e10} for i in range(2000)
    ]
    line = encode({"op": "sample", "at": 1.0, "gpus": gpus, "network": network, "cpu_percents": [99.9] * 1024})
    assert len(line) < agent_messages.SAMPLE_BYTES
    assert agent_messages.as_sample(line).gpus[15].processes[39].launch_id == process["launch_id"]


def test_an_agent_that_reads_nothing_is_given_up_before_it_fills_our_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MOST_UNSENT", 1 << 20)

    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            [transport] = here.agent.transports
            most = 0
            while here.node.state is NodeState.ONLINE:
                for number in range(100):
                    agent.say("exit", launch_id=f"{number:0200}", cause="exited", at=1.0)
                await asyncio.sleep(0.001)
                most = max(most, transport.get_write_buffer_size())
            assert here.node.reason == str(Message("agent_reads_nothing", mib=1))
            assert most < 2 << 20

    run(story())


@pytest.mark.parametrize("keys", [{"log_limit": 1}, {"paused": True}])
def test_an_agent_that_tells_of_a_running_task_without_end_is_read_no_faster_than_it_may_be_written(
    tmp_path: Path, keys: dict[str, Any]
) -> None:
    pace = StillPace()

    async def story() -> None:
        async with Linked(tmp_path, pace=pace) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            await (await here.master.peer()).call("task.submit", command="true", gpus=1)
            task = here.master.core.tasks[1]
            await settled(lambda: task.allocation)
            [transport] = here.agent.transports
            told = {"launch_id": task.allocation[0].launch_id, "at": 1.0, "pid": 7}
            agent.say("started", **told)
            await settled(lambda: task.state is TaskState.RUNNING)

            async def say_again(number: int) -> None:
                before = pace.turns
                agent.say("started", **told, **keys, log_bytes=number)
                await settled(lambda: pace.turns > before)

            most = int(BURST_S / REPEATED_S) + 1
            for number in range(most):
                assert transport.is_reading(), f"not read any more after {number} messages"
                await say_again(number)
            assert not transport.is_reading(), f"still read after {most} messages"

    run(story())


def test_nothing_is_kept_of_a_conversation_that_is_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            talk = weakref.ref(here.link._talk)
            agent.writer.close()
            await settled(lambda: here.node.state is NodeState.UNREACHABLE)
            await settled(lambda: talk() is None)

    gc.disable()
    try:
        run(story())
    finally:
        gc.enable()


class Returning(Agent):
    """One that dials in."""

    def away(self, _heard_at: float) -> NodeState:
        return NodeState.CONNECTING

    def look_at_token(self) -> None: ...


def test_an_agent_that_dials_in_again_and_again_is_not_always_talked_to_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BACKOFF_S, "short", (1000.0, 1000.0))
    monkeypatch.setattr(link, "MOST_AWAITED_PAUSE_S", 1000.0)

    async def story() -> None:
        async with Linked(tmp_path, agent=Returning(tmp_path)) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            agent.writer.close()
            await settled(lambda: here.node.state is NodeState.CONNECTING)
            for _ in range(20):
                await asyncio.sleep(0)
            assert here.agent.tries == 1
            here.link.wake()
            await (await here.session()).shake_hands()

    run(story())
