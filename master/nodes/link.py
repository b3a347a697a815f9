"""One line of conversation with the agent of a node: bytes to events, and the way back in after it broke.

Owns the handshake, the heartbeat and the back-off. How a connection is made is the driver's (`Driver.connect`); what
an event means is the core's. A broken link says nothing about the tasks on the node.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from typing import Any, Protocol

import msgspec

from master.core.attempts import agent_messages
from master.core.attempts.exits import Seen
from master.core.executor import CoreReports, Reports
from master.core.nodes.accounts import OWN
from master.core.nodes.inventory import Facts, NodeState
from master.core.nodes.node_clock import sane
from master.durable import failpoint
from master.engine.engine import Engine
from master.loop.selector import MOMENT_S
from master.nodes.driver import AwaitedDriver, CannotConnectError, Driver, Patience, UnknownHostKeyError
from master.nodes.pacing import PacedReader
from master.nodes.questions import Questions
from wire import agent as wire
from wire.framing import FrameError
from wire.message import Message

log = logging.getLogger("muster.link")

BACKOFF_S: dict[Patience, tuple[float, float]] = {"short": (0.1, 15.0), "long": (15.0, 600.0)}
"""The first pause after a failure and the longest, by the patience of the error; each pause is twice the one before,
with up to half of it at random. Long: what only a person can mend, and where trying often does harm (a wrong password
locks accounts)."""
AGENT_CLOSED = Message("agent_closed")
BEATS = 3
"""An agent of which nothing came for so many heartbeats is gone."""
DOUBT_S = 1.0
"""It has so much longer to show that it is not: where we stood still, what was said meanwhile is heard first."""
TOGETHER_S = 0.25
"""Links look after their agents at multiples of this, by the loop's clock: those of a hundred nodes do it in a few
turns of the loop, and what is answered comes together, too."""
RETIRE_S = 5.0
"""An agent that was asked to end for a newer one and is still there after this long is kept as it is."""


def pause_s(patience: Patience, failures: int, chance: float) -> float:
    """Seconds from the last of so many failures in a row to the next try. `chance`: from 0 to 1."""
    first, longest = BACKOFF_S[patience]
    # Without the inner limit the power would be too large for a float, some hours after a node went away.
    return min(first * 2.0 ** min(failures - 1, 32), longest) * (1 + chance / 2)


def together(at: float) -> float:
    """The time at which what is due then is done: for all links the same few times."""
    return ceil(at / TOGETHER_S) * TOGETHER_S


_encode = msgspec.json.Encoder().encode


def _encoded(message: Any) -> bytes:
    """A message as a line."""
    return _encode(message) + b"\n"


class Identity(Protocol):
    """Which master this is: what `hello` says."""

    def hello(self) -> wire.Hello:
        """The first line to every agent."""


class SampleSink(Protocol):
    """Where samples go."""

    def sample(self, node: str, sample: agent_messages.EncodedSample) -> None:
        """A sample of a node arrived."""


class LoopTurns(Protocol):
    """The loop that all of this runs in."""

    def unhurried(self, fd: int) -> None:
        """Let the bytes of this connection wait a moment from now on."""

    def hurried(self, fd: int) -> None:
        """Read this connection at once again."""

    def has_said(self, fd: int) -> bool:
        """Did anything come over it that was not heard yet?"""


class _Line(asyncio.Protocol):
    """One connection of a link. Once the link has another connection, this one's data is ignored."""

    def __init__(self, link: Link) -> None:
        self.link: Link | None = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a stream was expected, not {transport!r}")
        if self.link is None:
            transport.abort()
        else:
            self.link.connected(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self.link is not None:
            self.link.disconnected(error)

    def data_received(self, data: bytes) -> None:
        if self.link is not None:
            self.link.received(data)


class Link:
    """The link to one node, to its own agent or that of an account there (`login`). `run` keeps it up until it is
    cancelled; `send` drops what cannot be sent: the inventory after the next handshake sets it right. `on_welcome` is
    given what an agent says of its machine, before it gets a task; `on_inventory` is called between the inventory and
    the node being online; `on_same` when what answers is the machine of another entry, with that one's name.
    `objection`: why an account's agent that says so of itself is not talked to, None if it is; `tried`: the
    conversation is under way, or the last try to begin it has failed. `turns`: the loop, where it can be told that
    nothing urgent is awaited."""

    def __init__(
        self,
        node: str,
        driver: Driver,
        engine: Engine,
        identity: Identity,
        samples: SampleSink,
        *,
        login: str = OWN,
        turns: LoopTurns | None = None,
    ) -> None:
        self.node = node
        self.login = login
        self.label = node if login == OWN else f"{node} as {login}"
        self.driver = driver
        self.objection: Callable[[Facts], Message | None] = lambda _facts: None
        self.on_welcome: Callable[[Facts], None] = lambda _facts: None
        self.on_inventory: Callable[[], None] = lambda: None
        self.on_same: Callable[[str], None] = lambda _other: None
        self.sampling = wire.Sampling(gpus="auto", folders=[])
        self.questions = Questions(node, self.send)
        self._engine = engine
        self._reports: Reports = CoreReports(engine.core, node, login, tell=engine.event)
        self._identity = identity
        self._samples = samples
        self._turns = turns
        self._fd = -1
        self._has_asked = self._rests = False
        """Whether anything but a ping was sent since the last one; whether what it says may be heard a moment later."""
        self._transport: asyncio.Transport | None = None
        self._reader: PacedReader | None = None
        self._greeted = False
        self._ready = False
        self._facts: Facts | None = None
        self._adopting: Facts | None = None
        self._has_told = False
        """Of attempts that the agent did not know, or was in doubt of."""
        self._inventories_to_skip = 0
        self.tried = asyncio.Event()
        self._closed = asyncio.Event()
        self._woken = asyncio.Event()
        self._why_closed = AGENT_CLOSED
        self._heard_at = self._hello_at = 0.0
        self._keeps_pace = False
        self._heartbeat_s = wire.HEARTBEAT_S
        self._pace: wire.Pace | None = None
        """The one that the agent was told on this connection."""
        self._is_doubted = False
        self._look: asyncio.TimerHandle | None = None
        self._out: list[bytes] = []
        self._asked_to_retire = ""
        self._retire_by = 0.0
        self._leaving = False

    async def run(self) -> None:
        """Connect, talk, and when it breaks wait and connect again."""
        failures: Counter[Patience] = Counter()
        told: Message | None = None
        while True:
            state: NodeState = NodeState.UNREACHABLE
            patience: Patience = "short"
            began = time.monotonic()
            self._woken.clear()  # who wakes us while we try has us try once more
            try:
                why = await self._session()
            except CannotConnectError as error:
                why, patience = error.why, error.patience
                state = NodeState.UNTRUSTED if isinstance(error, UnknownHostKeyError) else state
            except Exception as error:  # whatever is wrong with one node, the others and the queue go on
                log.exception("node %s: connecting met a defect", self.label)
                why, patience = Message("link_defect", said=repr(error)), "long"
            if self._retire_by:
                self._retire_by = 0.0
                continue  # it ended because we asked for it: the new one is a connection away
            if self._leaving:
                return
            awaited = self.driver if isinstance(self.driver, AwaitedDriver) else None
            if awaited is not None:
                state = awaited.away(self._heard_at)
            lasted = time.monotonic() - began > BACKOFF_S["short"][1]
            if lasted and self._heard_at > began:
                failures.clear()
            # Each kind for itself: a machine that was off for a night and refuses log-ins while it boots is not left
            # alone for ten minutes then.
            failures[patience] += 1
            self._reports.gone(state, why)
            self.tried.set()
            log.log(logging.WARNING if why != told else logging.DEBUG, "node %s: %s", self.label, why)
            told = why
            if awaited is None or patience == "long":
                await self._pause(patience, failures[patience])

    @property
    def is_up(self) -> bool:
        """Is the conversation with the agent under way?"""
        return self._ready

    def wake(self) -> None:
        """Try again now, if it waits to try again."""
        self._woken.set()

    async def leave(self, *, retire: bool) -> None:
        """Send what waits to be sent, close, and have `run` end. `retire`: the agent shall end, too; attempts on the
        node run on."""
        self._leaving = True
        self._woken.set()
        if self._transport is None or not self._ready:
            self._closed.set()
            return
        if retire:
            self.send(wire.Retire(op="retire"))
        self._hurry()
        self._flush()
        self._transport.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(RETIRE_S):
                await self._closed.wait()

    async def _pause(self, patience: Patience, failures: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s(patience, failures, random.random())):  # noqa: S311  (jitter)
                await self._woken.wait()

    async def _session(self) -> Message:
        """One connection from beginning to end; why it ended. Raises CannotConnectError."""
        self._closed.clear()
        self.tried.clear()
        self._adopting, self._has_told = None, False
        self._why_closed = AGENT_CLOSED
        line = _Line(self)
        try:
            await self.driver.connect(line)
            self._heard_at = time.monotonic()
            await self._keep_alive()
        finally:
            line.link = None
            self._ready = False
            if self._reader is not None:
                self._reader.close()
            if self._transport is not None:
                self._transport.abort()
                self._transport = None
            self.questions.break_off(self._why_closed)
        return self._why_closed

    async def _keep_alive(self) -> None:
        self._is_doubted = False
        self._look_again()
        try:
            await self._closed.wait()
        finally:
            if self._look is not None:
                self._look.cancel()

    def _look_again(self) -> None:
        """When the next ping is due, or the agent may be silent. A timer of the loop's, and no task that waits: a
        hundred idle nodes cost little else."""
        patience = min(self._heartbeat_s, max(self._heard_at + self._silence_s - time.monotonic(), DOUBT_S))
        loop = asyncio.get_running_loop()
        self._look = loop.call_at(together(loop.time() + patience), self._look_after)

    def _look_after(self) -> None:
        was_doubted, self._is_doubted = self._is_doubted, time.monotonic() - self._heard_at >= self._silence_s
        if self._is_doubted and was_doubted and not self._has_said():
            self._why_closed = Message("agent_silent", seconds=self._silence_s)
            self._closed.set()
        elif self._is_doubted:
            self._hurry()
            self._look_again()
        elif self._retire_by and time.monotonic() > self._retire_by:
            self._closed.set()
        else:
            self._say_pace()
            self._look_again()
            self._rest()
            self._send({"op": "ping"})

    @property
    def _silence_s(self) -> float:
        return BEATS * self._heartbeat_s

    def _say_pace(self) -> None:
        """Tell an agent that knows the word how often to sample, and when to take us for gone, unless it was told."""
        rules = self._engine.core.settings.scheduler
        pace = wire.Pace(op="pace", sample_s=rules.sample_s, heartbeat_s=rules.heartbeat_s)
        if self._ready and self._keeps_pace and pace != self._pace:
            self._pace, self._heartbeat_s = pace, rules.heartbeat_s
            self._send(pace)

    def _has_said(self) -> bool:
        """Does something lie there unheard? Where thousands spoke while we stood still, their turn comes late."""
        return self._turns is not None and self._fd >= 0 and self._turns.has_said(self._fd)

    def _rest(self) -> None:
        """Where nothing is awaited from an agent but samples, they can be heard together with those of other nodes."""
        node = self._engine.core.inventory.nodes.get(self.node)
        is_idle = node is not None and not node.active and not self._has_asked and not self.questions.are_open
        if self._turns is not None and self._ready and is_idle and not self._closed.is_set():
            self._turns.unhurried(self._fd)  # of a connection that is over the number may be another's
            self._rests = True
        self._has_asked = False

    def _hurry(self) -> None:
        self._has_asked, self._rests = True, False
        if self._turns is not None:
            self._turns.hurried(self._fd)

    # -- out --------------------------------------------------------------------------------------------------

    def send(self, message: Any) -> bool:
        """Send if the handshake is done, and say whether; messages of one turn of the loop go out together."""
        if not self._ready:
            return False
        self._hurry()
        self._send(message)
        return True

    def _send(self, message: Any) -> None:
        if not self._ready:
            return
        if not self._out:
            self._engine.send_soon(self._flush)
        self._out.append(_encoded(message))

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None:
            self._transport.write(b"".join(out))

    # -- in ---------------------------------------------------------------------------------------------------

    def connected(self, transport: asyncio.Transport) -> None:
        """Say who we are."""
        self._transport = transport
        sock = transport.get_extra_info("socket")
        self._fd = -1 if sock is None else sock.fileno()
        self._reader = PacedReader(transport, self._hear, wire.MAX_FRAME)
        self._greeted = self._ready = self._rests = self._keeps_pace = False
        self._heartbeat_s, self._pace = wire.HEARTBEAT_S, None
        self._out.clear()
        hello = self._identity.hello()
        hello["sampling"] = self.sampling
        self._hello_at = time.monotonic()
        transport.write(_encoded(hello))

    def disconnected(self, error: Exception | None) -> None:
        """Wake `run`."""
        if error is not None:
            self._why_closed = Message("link_broke", said=str(error))
        self._closed.set()

    def received(self, data: bytes) -> None:
        """Handle each line, those of a flood when others had their turn."""
        self._heard_at = time.monotonic()
        holds = self._engine.hold()
        try:
            if self._reader is not None:
                self._reader.feed(data)
        except FrameError as error:
            self._unreadable(error)
        finally:
            if holds:
                self._engine.let_go()

    def _hear(self, line: bytes) -> None:
        if self._closed.is_set():
            return
        self._heard_at = time.monotonic()
        try:
            self._handle(line)
        except (agent_messages.UnbelievableError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            self._unreadable(error)

    def _unreadable(self, error: Exception) -> None:
        log.warning("node %s: the agent sent something unreadable: %s", self.label, error)
        self._why_closed = Message("agent_unreadable", said=str(error))
        self._closed.set()

    def _handle(self, line: bytes) -> None:
        op = agent_messages.op_of(line).op
        if op == "started":
            started = agent_messages.as_started(line)
            failpoint.reach("started.received")
            self._reports.started(started, time.time())
        elif op == "exit":
            ended = agent_messages.as_ended(line).exit()
            failpoint.reach("exit.received")
            self._reports.exited(ended, time.time())
        elif op == "unproven":
            unproven = agent_messages.as_unproven(line)
            self._reports.unproven(unproven.launch_id, unproven.pids)
        elif op == "sample" and self.login == OWN:
            self._sampled(line)
        elif op == "welcome":
            agent_messages.check_due(op, due=not self._greeted)
            self._greeted = True
            welcome = agent_messages.as_welcome(line)
            self._keeps_pace = welcome.keeps_pace
            self._welcomed(welcome.facts(), welcome.now)
        elif op == "inventory" and not self._retire_by:
            agent_messages.check_due(op, due=self._greeted and not self._ready)
            self._inventoried(self._inventory_of(line))
        elif op == "probed":
            self.questions.answered(agent_messages.as_probed(line))
        elif op == "refused":
            refused = agent_messages.as_refused(line)
            self._why_closed = _refusal(refused)

    def _inventory_of(self, line: bytes) -> list[Seen]:
        agent_messages.check_inventory(line)
        attempts = agent_messages.as_inventory(line).attempts
        node = self._engine.core.inventory.nodes.get(self.node)
        agent_messages.check_attempts(len(attempts), len(node.active) if node is not None else 0)
        return [attempt.seen() for attempt in attempts]

    def _sampled(self, line: bytes) -> None:
        if len(line) > agent_messages.SAMPLE_BYTES:
            raise agent_messages.UnbelievableError(f"a sample of {len(line)} bytes")
        core, sample = self._engine.core, agent_messages.as_sample(line)
        now = time.time()
        core.node_load(self.node, sample.load, self._ahead(sample.at - now))
        core.clock_told(self.node, sample.at, None, now)
        sample.at = sane(sample.at, now, now, core.clock_of(self.node))
        if self.sampling["gpus"] == "declared" or (sample.gpu_source == "none" and not sample.gpu_fault):
            self._engine.event(lambda: core.gpus_unseen(self.node))
        else:
            self._engine.event(lambda: core.gpus_seen(self.node, sample.gpus, time.time(), sample.gpu_fault))
        self._samples.sample(self.node, agent_messages.EncodedSample(sample))

    def _ahead(self, seen: float) -> float:
        """By how many seconds its clock is ahead of ours, where it is seen so: what lay there while nobody was in a
        hurry to hear it is from up to a moment ago, and says nothing against what is known that fits to it."""
        node = self._engine.core.inventory.nodes.get(self.node)
        known = node.clock_offset if node is not None and self._rests else None
        return seen if known is None else min(max(known, seen), seen + MOMENT_S)

    def _reconcile(self, seen: list[Seen]) -> None:
        core = self._engine.core
        self._ready = True
        self._say_pace()
        if self._look is not None:
            self._look.cancel()
            self._look_again()
        self._reports.joined(seen, time.time())
        if self.node not in core.inventory.nodes:
            return  # it left the registry meanwhile, or now, with the last of its tasks; the fleet gives the link up
        if self.login == OWN and self.sampling["gpus"] != "declared":
            self._engine.event(lambda: core.gpus_expected(self.node))
        self.on_inventory()
        self._reports.online()
        self.tried.set()
        failpoint.reach("start.reconciled")

    def _measure(self, told: float) -> None:
        """In its answer to our hello the node's clock showed this. That ours may be set meanwhile is no matter. The
        agent of a user's account is not asked: by the node's clock the times of everybody's tasks are corrected."""
        now = time.time()
        if told and self.login == OWN:
            sent = now - (time.monotonic() - self._hello_at)
            self._engine.core.clock_told(self.node, told, sent, now)

    def _welcomed(self, facts: Facts, told_at: float) -> None:
        core = self._engine.core
        stranger = core.stranger(self.node, facts, self.login)
        lost = core.adoptable(self.node, facts, self.login)
        objection = self.objection(facts)
        if objection is not None or (stranger is not None and not lost):
            self._why_closed = objection or stranger or AGENT_CLOSED
            self._closed.set()
        elif self.login == OWN and self._is_served_as_another(facts):
            self._closed.set()
        elif facts.version not in (self.driver.version, self._asked_to_retire):
            self._retire(facts.version)
        else:
            failpoint.reach("start.welcomed")
            if self.login == OWN and (late := core.late_machine(self.node)) is not None:
                log.warning("node %s: %s", self.label, late)
            if facts.login_fault:
                log.warning("node %s: %s", self.label, facts.login_fault)
            self.on_welcome(facts)
            self._reports.connecting(facts)
            self._measure(told_at)
            self._facts = facts
            if lost:
                self._have_adopted(facts, lost)

    def _have_adopted(self, facts: Facts, lost: list[Seen]) -> None:
        """Its state folder is another one, and what runs there may be alive: the agent is told what we know of it, and
        what it answers counts, not what it says before."""
        log.warning("node %s: its agent has a new state folder and is told of %d attempts", self.label, len(lost))
        self._adopting, self._inventories_to_skip = facts, 1
        self._tell_of(lost)

    def _tell_of(self, lost: list[Seen]) -> None:
        """It answers with an inventory."""
        self._has_told = True
        entries = [_as_lost(one) for one in lost]
        if self._transport is not None:
            self._transport.write(_encoded(wire.Adopt(op="adopt", attempts=entries)))

    def _inventoried(self, seen: list[Seen]) -> None:
        facts = self._adopting
        if facts is None:
            self._account_for(seen)
        elif self._inventories_to_skip:
            self._inventories_to_skip -= 1
        else:
            self._adopting = None
            core = self._engine.core
            self._engine.event(lambda: core.adopted(self.node, facts, seen, self.login))
            stranger = core.stranger(self.node, facts, self.login)
            if stranger is None:
                self._account_for(seen)
            else:
                self._why_closed = stranger
                self._closed.set()

    def _account_for(self, seen: list[Seen]) -> None:
        """Before what it has is believed to be all there is: of what ran there and is not among it, and of what it
        knows too little of, it is told what we know."""
        facts = self._facts
        missing = [] if facts is None else self._engine.core.unaccounted(self.node, facts, seen, self.login)
        if not missing and not any(one.doubt for one in seen):
            self._reconcile(seen)
        elif not self._has_told:
            log.warning(
                "node %s: records of attempts are lost there, its agent is told of %d", self.label, len(missing)
            )
            self._tell_of(missing)
        else:
            self._why_closed = Message("attempts_unaccounted", count=len(missing), name=self.node)
            self._closed.set()

    def _is_served_as_another(self, facts: Facts) -> bool:
        same = self._engine.event(lambda: self._engine.core.same_machine(self.node, facts))
        if same is None:
            return False
        other, self._why_closed = same
        self.on_same(other)
        return True

    def _retire(self, version: str) -> None:
        # Asked once only: an agent that does not know the word goes on as it is, and is understood.
        log.info("node %s: its agent is of version %s and is asked to end for ours", self.label, version)
        self._asked_to_retire = version
        self._retire_by = time.monotonic() + RETIRE_S
        if self._transport is not None:
            self._transport.write(_encoded(wire.Retire(op="retire")))


def _refusal(refused: agent_messages.Refused) -> Message:
    code, said, folder = refused.code, refused.message, refused.folder
    if folder:
        return Message("agent_refuses_us_in", code=code, said=said, folder=folder)
    return Message("agent_refuses_us", code=code, said=said)


def _as_lost(seen: Seen) -> wire.Lost:
    told = wire.Lost(launch_id=seen.launch_id, pid=seen.pid, pid_start=seen.pid_start, started_at=seen.started_at)
    if seen.run_as:
        told["run_as"], told["log_path"] = seen.run_as, seen.log_path
    return told
