"""The link to an agent that is played by the test, over a real socket."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from master.core.attempts.launching import launch_message
from master.core.effects import Kill, Start
from master.core.nodes.inventory import NodeState
from master.core.tasks.task import TaskState
from master.nodes import backoff, heartbeat, sample_intake
from master.nodes.agent_context import Hooks
from master.nodes.backoff import pause_s
from master.nodes.driver import CannotConnectError, Patience
from master.nodes.heartbeat import BEATS, DOUBT_S, TOGETHER_S, together
from master.nodes.link import Link
from tests.leaps import Leap
from tests.master.executor import played
from tests.master.in_process import SETTINGS, InProcess, Us, run
from tests.waiting import settled
from wire import agent as wire
from wire.framing import encode, strict_loads
from wire.message import Message

WELCOME = {
    "op": "welcome",
    "boot_id": "boot",
    "state_id": "state",
    "cpus": 4,
    "memory_mib": 1000,
    "hostname": "here",
    "python": "3.11",
    "version": "abc",
}
SILENCE_S = BEATS * wire.HEARTBEAT_S


@pytest.fixture(autouse=True)
def _tries_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "BACKOFF_S", dict.fromkeys(("short", "long"), (0.001, 0.001)))


class Agent:
    """The other end, and the driver that leads to it. `refusal`: why it cannot be reached, with `patience`."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "agent.sock")
        self.version = "abc"
        self.refusal: str | None = None
        self.patience: Patience = "short"
        self.trying: asyncio.Event | None = None
        self.tries = 0
        self.sessions: asyncio.Queue[Conversation] = asyncio.Queue()
        self.all: list[Conversation] = []

    async def connect(self, protocol: asyncio.Protocol) -> None:
        self.tries += 1
        if self.trying is not None:
            await self.trying.wait()
        if self.refusal is not None:
            raise CannotConnectError(self.refusal, self.patience)
        await asyncio.get_running_loop().create_unix_connection(lambda: protocol, self.path)

    async def close(self) -> None:
        """The conversations are closed at the end of the test."""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = Conversation(reader, writer)
        self.all.append(conversation)
        self.sessions.put_nowait(conversation)


class Conversation:
    """One connection, as the agent sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> dict[str, Any]:
        line = await self.reader.readline()
        if not line:
            raise EOFError
        message: dict[str, Any] = strict_loads(line.rstrip(b"\n"))
        return message

    def say(self, op: str, **keys: Any) -> None:
        self.writer.write(encode({"op": op, **keys}))

    async def shake_hands(self, *attempts: dict[str, Any], **facts: Any) -> None:
        assert (await self.read())["op"] == "hello"
        self.writer.write(encode({**WELCOME, **facts}))
        self.say("inventory", attempts=list(attempts))
        self.say("sample", at=1.0)


class Turns:
    """The loop, as far as a link tells it whether what comes over its connection can wait."""

    def __init__(self) -> None:
        self.is_hurried = True
        self.hurries = self.unheard = self.looks = 0

    def unhurried(self, fd: int) -> None:
        assert fd >= 0
        self.is_hurried = False

    def hurried(self, fd: int) -> None:
        assert fd >= 0
        self.is_hurried = True
        self.hurries += 1

    def has_said(self, fd: int) -> bool:
        assert fd >= 0
        self.looks += 1
        return self.looks <= self.unheard

    async def looked(self, times: int) -> None:
        await settled(lambda: self.looks == times)


class Linked:
    """A master in this process with a link to a played agent."""

    def __init__(self, folder: Path, hooks: Hooks = Hooks()) -> None:  # noqa: B008  (frozen)
        self.hooks = hooks
        self.turns = Turns()
        self.master = InProcess(folder)
        self.agent = Agent(folder)

    async def __aenter__(self) -> Self:
        await self.master.__aenter__()
        self.server = await asyncio.start_unix_server(self.agent.accept, self.agent.path)
        self.link = Link(
            "a", self.agent, self.master.engine, Us(), self.master.hub, hooks=lambda _: self.hooks, turns=self.turns
        )
        self.master.engine.executor_of = played(self._perform)
        self.job = asyncio.create_task(self.link.run())
        self.node = self.master.core.inventory.nodes["a"]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.job.cancel()
        await asyncio.gather(self.job, return_exceptions=True)
        self.server.close()
        for conversation in self.agent.all:
            conversation.writer.close()
            with suppress(OSError):
                await conversation.writer.wait_closed()
        await self.master.__aexit__()

    def _perform(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Start):
                self.link.send(launch_message(effect.task, effect.task.allocation[0], SETTINGS))
            elif isinstance(effect, Kill):
                self.link.send({"op": "kill", "launch_id": effect.launch_id})
            else:
                self.link.send({"op": "ack", "launch_ids": [effect.launch_id]})

    async def session(self) -> Conversation:
        return await self.agent.sessions.get()

    async def set(self, name: str, value: float) -> None:
        await (await self.master.peer()).call("setting.set", name=f"scheduler.{name}", value=value)


def test_a_node_is_online_after_welcome_and_inventory_and_its_task_goes_through(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            agent = await here.session()
            await agent.shake_hands()
            launch = await agent.read()
            assert (launch["op"], launch["env"]["CUDA_VISIBLE_DEVICES"]) == ("launch", "0")
            assert here.node.state is NodeState.ONLINE
            assert here.node.facts is not None
            assert here.node.facts.hostname == "here"
            now = time.time()
            agent.say("started", launch_id=launch["launch_id"], pid=1, at=now)
            agent.say(
                "exit", launch_id=launch["launch_id"], code=3, cause="exited", error="", started_at=now, at=now + 1
            )
            assert await agent.read() == {"op": "ack", "launch_ids": [launch["launch_id"]]}
            task = here.master.core.tasks[1]
            assert (task.state, task.exit_code, task.started_at, task.ended_at) == (TaskState.FAILED, 3, now, now + 1)

    run(story())


def test_nothing_is_sent_before_the_agent_said_what_it_has(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            assert (await agent.read())["op"] == "hello"
            here.link.send({"op": "kill", "launch_id": "early"})
            agent.writer.write(encode(WELCOME))
            agent.say("inventory", attempts=[])
            await settled(lambda: here.node.state is NodeState.ONLINE)
            here.link.send({"op": "kill", "launch_id": "late"})
            assert (await agent.read())["launch_id"] == "late"

    run(story())


def test_an_attempt_that_nobody_owns_is_ended_and_one_that_ended_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", hold=True)
            await peer.call("task.remove", id=1)  # so it is no attempt that the lab has forgotten
            agent = await here.session()
            ended = {"code": 0, "cause": "exited", "error": "", "started_at": 1.0, "at": 2.0}
            await agent.shake_hands(
                {"launch_id": "1.1.x", "state": "running", "started_at": 1.0},
                {"launch_id": "1.1.y", "state": "ended", **ended},
            )
            assert await agent.read() == {"op": "kill", "launch_id": "1.1.x"}
            assert await agent.read() == {"op": "ack", "launch_ids": ["1.1.y"]}

    run(story())


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "with its last task over"])
def test_a_node_that_left_before_its_agent_said_what_it_has_is_not_told_to_be_up(tmp_path: Path, is_busy: bool) -> None:  # noqa: FBT001
    async def story() -> None:
        up: list[str] = []
        async with Linked(tmp_path, Hooks(on_inventory=lambda: up.append("up"))) as here:
            agent, attempts = await here.session(), []
            if is_busy:
                await (await here.master.peer()).call("task.submit", command="true", gpus=1)
                await agent.shake_hands()
                launch = await agent.read()
                agent.writer.close()
                agent = await here.session()
                ended = {"code": 0, "cause": "exited", "error": "", "started_at": 1.0, "at": 2.0}
                attempts = [{"launch_id": launch["launch_id"], "state": "ended", **ended}]
            agent.writer.write(encode(WELCOME))
            await settled(lambda: here.node.state is NodeState.CONNECTING and here.node.facts is not None)
            up.clear()
            here.master.engine.event(lambda: here.master.core.set_nodes(()))
            agent.say("inventory", attempts=attempts)
            await settled(lambda: here.link.is_up and "a" not in here.master.core.inventory.nodes)
            assert up == []

    run(story())


def test_who_wakes_a_link_while_it_tries_has_it_try_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "BACKOFF_S", dict.fromkeys(("short", "long"), (3600.0, 3600.0)))

    async def story() -> None:
        async with Linked(tmp_path) as here:
            here.agent.refusal = "its key is not known"
            here.agent.trying = asyncio.Event()
            await settled(lambda: here.agent.tries == 1)
            here.link.wake()
            here.agent.trying.set()
            await settled(lambda: here.agent.tries == 2)

    run(story())


def test_each_pause_is_twice_the_one_before_up_to_a_limit_and_longer_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # as they are
    pauses = [pause_s("short", failures, 0.0) for failures in (1, 2, 3, 8, 9, 10_000)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 12.8, 15.0, 15.0])
    assert [pause_s("long", failures, 0.0) for failures in (1, 2, 6, 7, 10_000)] == [15, 30, 480, 600, 600]
    assert [pause_s("long", 1, chance) for chance in (0.5, 1.0)] == [18.75, 22.5]


def test_failures_that_need_a_person_are_counted_apart_and_all_anew_after_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Patience, int]] = []

    def paused(patience: Patience, failures: int, chance: float) -> float:
        assert 0 <= chance < 1
        asked.append((patience, failures))
        return 0.001

    monkeypatch.setattr(backoff, "pause_s", paused)
    monkeypatch.setattr(backoff, "BACKOFF_S", {"short": (0.0, 0.0)})  # every connection is a long one

    async def tried(here: Linked, patience: Patience, count: int) -> None:
        here.agent.refusal, here.agent.patience = "no", patience
        await settled(lambda: asked and asked[-1][0] == patience and asked[-1][1] >= count)

    async def story() -> None:
        async with Linked(tmp_path) as here:
            await tried(here, "short", 3)
            await tried(here, "long", 2)
            assert asked[:3] == [("short", 1), ("short", 2), ("short", 3)]
            assert [failures for patience, failures in asked if patience == "long"][:2] == [1, 2]
            here.agent.refusal = None
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            asked.clear()
            agent.writer.close()
            await settled(lambda: asked)
            assert asked[0] == ("short", 1)

    run(story())


def test_a_link_that_breaks_leaves_the_task_as_it_is_and_comes_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            await peer.call("task.submit", command="true", gpus=1)
            agent = await here.session()
            await agent.shake_hands()
            launch_id = (await agent.read())["launch_id"]
            agent.say("started", launch_id=launch_id, pid=1, at=5.0)
            await settled(lambda: here.master.core.tasks[1].state is TaskState.RUNNING)
            agent.writer.close()
            again = await here.session()
            assert here.node.state is NodeState.UNREACHABLE
            assert here.master.core.tasks[1].state is TaskState.RUNNING
            assert here.node.gpu_holders == {0: {1: None}}
            await again.shake_hands({"launch_id": launch_id, "state": "running", "started_at": 5.0})
            await settled(lambda: here.node.state is NodeState.ONLINE)
            assert here.master.core.tasks[1].allocation[0].launch_id == launch_id

    run(story())


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
            assert (here.node.reason or "").startswith("the agent sent something unreadable")
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
            assert here.node.reason == "its agent refuses us (fenced): it obeys epoch 9"
            assert here.node.link_says == Message("agent_refuses_us", code="fenced", said="it obeys epoch 9")

    run(story())


def test_why_an_agent_cannot_be_reached_is_told_as_the_reason(tmp_path: Path) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            here.agent.refusal = "there is no python3 on it"
            await settled(lambda: here.node.reason == "there is no python3 on it")
            here.agent.refusal = None
            await (await here.session()).shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)

    run(story())


def test_links_look_after_their_agents_in_the_same_moments_and_never_too_soon() -> None:
    due = [1000.0 + number / 100 for number in range(100)]
    looks = [together(at) for at in due]
    assert all(0 <= look - at < TOGETHER_S for at, look in zip(due, looks, strict=True))
    assert len(set(looks)) <= 1 + 1 / TOGETHER_S


def test_an_agent_that_falls_silent_is_noticed(tmp_path: Path, leap: Leap) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            leap(wire.HEARTBEAT_S)
            assert (await agent.read())["op"] == "ping"
            leap(2 * wire.HEARTBEAT_S)
            await here.session()
            assert "said nothing" in (here.node.reason or "")
            assert here.node.link_says is not None
            assert here.node.link_says.key == "agent_silent"

    run(story())


def test_an_agent_that_knows_the_word_is_told_the_pace_and_told_anew_what_an_admin_sets(
    tmp_path: Path, leap: Leap
) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands(keeps_pace=True)
            assert await agent.read() == {"op": "pace", "sample_s": 2.0, "heartbeat_s": 5.0}
            await settled(lambda: here.node.state is NodeState.ONLINE)
            leap(wire.HEARTBEAT_S)
            assert (await agent.read())["op"] == "ping", "what it knows is not said again"
            await here.set("sample_s", 0.5)
            await here.set("heartbeat_s", 1)
            leap(wire.HEARTBEAT_S)
            assert await agent.read() == {"op": "pace", "sample_s": 0.5, "heartbeat_s": 1.0}
            assert (await agent.read())["op"] == "ping"
            agent.say("sample", at=1.0, load=[1.0, 2.0, 3.0])
            await settled(lambda: here.node.load == [1.0, 2.0, 3.0])
            leap(1.0)
            assert (await agent.read())["op"] == "ping"
            leap(BEATS * 1.0)
            again = await here.session()
            assert here.node.link_says == Message("agent_silent", seconds=3.0)
            await again.shake_hands(keeps_pace=True)
            assert (await again.read())["op"] == "pace", "each connection begins anew"

    run(story())


def test_an_agent_of_before_hears_nothing_of_the_pace_and_the_heartbeat_that_it_knows(
    tmp_path: Path, leap: Leap
) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            await here.set("heartbeat_s", 1)
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            leap(2.0)
            here.link.send({"op": "kill", "launch_id": "x"})
            assert (await agent.read())["op"] == "kill", "no ping yet"
            leap(wire.HEARTBEAT_S - 2.0)
            assert (await agent.read())["op"] == "ping"
            leap(2 * wire.HEARTBEAT_S)
            await here.session()
            assert here.node.link_says == Message("agent_silent", seconds=SILENCE_S)

    run(story())


def test_an_agent_has_a_moment_to_show_that_it_is_not_silent(
    tmp_path: Path, leap: Leap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "DOUBT_S", wire.HEARTBEAT_S)

    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            leap(wire.HEARTBEAT_S)
            assert (await agent.read())["op"] == "ping"
            leap(wire.HEARTBEAT_S)
            await settled(lambda: not here.turns.is_hurried)
            assert (await agent.read())["op"] == "ping"
            leap(SILENCE_S)
            await settled(lambda: here.turns.is_hurried)  # in doubt: what it said may lie there unheard
            agent.say("sample", at=1.0, load=[1.0, 2.0, 3.0])
            await settled(lambda: here.node.load == [1.0, 2.0, 3.0])
            leap(wire.HEARTBEAT_S)
            assert (await agent.read())["op"] == "ping"
            assert here.node.state is NodeState.ONLINE

    run(story())


def test_an_agent_whose_words_lie_unheard_is_not_silent(tmp_path: Path, leap: Leap) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            here.turns.unheard, hurries = 2, here.turns.hurries
            leap(SILENCE_S)
            await settled(lambda: here.turns.hurries > hurries)  # in doubt
            for look in (1, 2):
                leap(2 * DOUBT_S)
                await here.turns.looked(look)
                assert here.node.state is NodeState.ONLINE
            leap(2 * DOUBT_S)
            await here.session()
            assert here.node.link_says is not None
            assert here.node.link_says.key == "agent_silent"

    run(story())


def test_what_an_agent_says_can_wait_while_nothing_is_awaited_of_it(tmp_path: Path, leap: Leap) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            peer = await here.master.peer()
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            await beat(agent, leap)
            assert not here.turns.is_hurried
            await peer.call("task.submit", command="true", gpus=1)
            launch_id = (await agent.read())["launch_id"]
            assert here.turns.is_hurried
            agent.say("started", launch_id=launch_id, pid=1, at=5.0)
            await settled(lambda: here.master.core.tasks[1].state is TaskState.RUNNING)
            for _ in range(3):  # it runs, and may end at any time
                await beat(agent, leap)
                assert here.turns.is_hurried
            agent.say("exit", launch_id=launch_id, code=0, cause="exited", error="", started_at=5.0, at=6.0)
            assert (await agent.read())["op"] == "ack"
            await beat(agent, leap)
            assert here.turns.is_hurried  # something was said to it since the last ping
            await beat(agent, leap)
            assert not here.turns.is_hurried

    run(story())


def test_an_agent_that_takes_its_time_to_answer_a_question_is_heard_at_once(tmp_path: Path, leap: Leap) -> None:
    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()
            await settled(lambda: here.node.state is NodeState.ONLINE)
            asked = asyncio.create_task(here.link.questions.ask(["du"], timeout_s=3600.0))
            while (probe := await agent.read())["op"] != "probe":
                pass
            for _ in range(3):
                await beat(agent, leap)
                assert here.turns.is_hurried
            agent.say("probed", probe_id=probe["probe_id"], code=0, output="ok", truncated=False, error="")
            assert (await asked)["output"] == "ok"
            await beat(agent, leap)
            await settled(lambda: not here.turns.is_hurried)

    run(story())


def test_a_clock_is_not_told_to_be_wrong_by_how_late_it_was_heard(
    tmp_path: Path, leap: Leap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_intake, "MOMENT_S", 3600.0)

    async def story() -> None:
        async with Linked(tmp_path) as here:
            agent = await here.session()
            await agent.shake_hands()

            async def shown(offset: float) -> float:
                agent.say("sample", at=time.time() + offset, load=[offset, 0.0, 0.0])
                await settled(lambda: here.node.load == [offset, 0.0, 0.0])
                assert here.node.clock_offset is not None
                return here.node.clock_offset

            assert await shown(7000.0) <= 7000.0
            known = await shown(5000.0)
            await beat(agent, leap)
            await settled(lambda: not here.turns.is_hurried)
            assert await shown(known - 1800.0) == known
            assert known < await shown(known + 1000.0) <= known + 1000.0
            assert await shown(known - 9000.0) < known - 5000.0

    run(story())


async def beat(agent: Conversation, leap: Leap) -> None:
    leap(wire.HEARTBEAT_S)
    assert await agent.read() == {"op": "ping"}
    agent.say("pong")


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
