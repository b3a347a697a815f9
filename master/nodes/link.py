"""The link to an agent: it is connected, and when the connection breaks it is connected again.

Owns the time of each try, and the state of the node meanwhile. The driver makes the connection (`Driver.connect`), the
conversation has its messages. A broken link says nothing about the tasks on the node.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from master.core.executor import CoreReports
from master.core.nodes.accounts import OWN
from master.core.nodes.inventory import NodeState
from master.engine.engine import Engine
from master.nodes.agent_context import AgentContext, Hooks, Identity, SampleSink, label
from master.nodes.backoff import Backoff
from master.nodes.connection import Ending, LoopTurns
from master.nodes.conversation import Conversation
from master.nodes.driver import AwaitedDriver, CannotConnectError, Driver, Patience, UnknownHostKeyError
from master.nodes.pacing import Pace
from master.nodes.questions import Questions
from wire import agent as wire
from wire.message import Message

log = logging.getLogger("muster.link")

LEAVE_S = 5.0
"""A connection that is closed in peace has so long to let out what is still to be said."""
MOST_AWAITED_PAUSE_S = 1.0
"""An agent that dials in again and again, with short sessions, is talked to again after such a pause at most: each of
its inventories may be megabytes. It waits longer by itself."""
ALL_SAMPLES = wire.Sampling(gpus="auto", folders=[])


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


class _Outage(msgspec.Struct, frozen=True):
    """Why a session is over, or none could begin."""

    why: Message
    patience: Patience = "short"
    state: NodeState = NodeState.UNREACHABLE


class Link:
    """The link to one node, to its own agent or that of an account there (`login`). `run` keeps it up until it is
    cancelled; `send` drops what cannot be sent: the inventory after the next handshake sets it right. `hooks` is asked
    once for what its owner wants to know; for the rest see `AgentContext`."""

    def __init__(
        self,
        node: str,
        driver: Driver,
        engine: Engine,
        identity: Identity,
        samples: SampleSink,
        *,
        login: str = OWN,
        sampling: wire.Sampling = ALL_SAMPLES,
        hooks: Callable[[Link], Hooks] = lambda _link: Hooks(),
        pace: Pace | None = None,
        turns: LoopTurns | None = None,
    ) -> None:
        self.node = node
        self.label = label(node, login)
        self.driver = driver
        self.questions = Questions(node, self.send)
        self.tried = asyncio.Event()
        self._woken = asyncio.Event()
        self._leaving = False
        self._heard_at = 0.0
        self._asked_to_retire = ""
        self._over = Ending()
        self._talk: Conversation | None = None
        self._reports = CoreReports(engine.core, node, login, tell=engine.event)
        self._context = AgentContext(
            node=node,
            login=login,
            driver=driver,
            engine=engine,
            identity=identity,
            sampling=sampling,
            samples=samples,
            reports=self._reports,
            questions=self.questions,
            hooks=hooks(self),
            tried=self.tried,
            pace=Pace() if pace is None else pace,
            turns=turns,
        )

    async def run(self) -> None:
        """Connect, talk, and when it breaks wait and connect again."""
        backoff, told = Backoff(), None
        while True:
            self._woken.clear()  # who wakes us while we try has us try once more
            began = time.monotonic()
            outage = await self._try()
            if self._over.by:
                continue  # it ended because we asked for it: the new one is a connection away
            if self._leaving:
                return
            if self._heard_at > began:
                backoff.talked(time.monotonic() - began)
            pause_s = backoff.failed(outage.patience)
            self._tell(outage, is_news=outage.why != told)
            told = outage.why
            if isinstance(self.driver, AwaitedDriver) and outage.patience != "long":
                pause_s = min(pause_s, MOST_AWAITED_PAUSE_S)
            await self._pause(pause_s)

    async def _try(self) -> _Outage:
        try:
            return _Outage(await self._session())
        except CannotConnectError as error:
            is_strange = isinstance(error, UnknownHostKeyError)
            return _Outage(error.why, error.patience, NodeState.UNTRUSTED if is_strange else NodeState.UNREACHABLE)
        except Exception as error:  # whatever is wrong with one node, the others and the queue go on
            log.exception("node %s: connecting met a defect", self.label)
            return _Outage(Message("link_defect", said=repr(error)), "long")

    def _tell(self, outage: _Outage, *, is_news: bool) -> None:
        awaited = self.driver if isinstance(self.driver, AwaitedDriver) else None
        self._reports.gone(outage.state if awaited is None else awaited.away(self._heard_at), outage.why)
        self.tried.set()
        log.log(logging.WARNING if is_news else logging.DEBUG, "node %s: %s", self.label, outage.why)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    async def _session(self) -> Message:
        """One connection from beginning to end; why it ended. Raises CannotConnectError."""
        self.tried.clear()
        over = self._over = Ending()
        line = _Line(self)
        try:
            await self.driver.connect(line)
            if self._talk is not None:
                await self._talk.heartbeat.run()
        finally:
            line.link = None
            self._end_talk()
            self.questions.break_off(over.why)
        return over.why

    def _end_talk(self) -> None:
        talk, self._talk = self._talk, None
        if talk is not None:
            talk.connection.close()
            self._heard_at = talk.connection.heard_at
            self._asked_to_retire = talk.handshake.asked_to_retire

    @property
    def is_up(self) -> bool:
        """Is the conversation with the agent under way?"""
        return self._talk is not None and self._talk.connection.is_ready

    def wake(self) -> None:
        """Try again now, if it waits to try again."""
        self._woken.set()

    def send(self, message: Any) -> bool:
        """Send if the handshake is done, and say whether; messages of one turn of the loop go out together."""
        return self._talk is not None and self._talk.connection.ask(message)

    async def leave(self, *, retire: bool) -> None:
        """Send what waits to be sent, close, and have `run` end. `retire`: the agent shall end, too; attempts on the
        node run on."""
        self._leaving = True
        self._woken.set()
        if self._talk is None or not self._talk.connection.is_ready:
            self._over.end()
            return
        if retire:
            self.send(wire.Retire(op="retire"))
        self._talk.connection.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._over.wait()

    def connected(self, transport: asyncio.Transport) -> None:
        """Say who we are."""
        self._talk = Conversation(
            self._context, transport, self._over, heard_at=self._heard_at, asked_to_retire=self._asked_to_retire
        )
        self._talk.handshake.begin()

    def disconnected(self, error: Exception | None) -> None:
        """Wake `run`."""
        self._over.end(None if error is None else Message("link_broke", said=str(error)))

    def received(self, data: bytes) -> None:
        """Hear what came over the connection."""
        if self._talk is not None:
            self._talk.received(data)
