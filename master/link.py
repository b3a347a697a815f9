"""One line of conversation with the agent of a node: bytes to events, and the way back in after it broke.

Owns the handshake, the heartbeat and the back-off. How a connection is made is the driver's (`Driver.connect`); what
an event means is the core's. A broken link says nothing about the tasks on the node.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from functools import partial
from typing import Any, Protocol

from master import failpoint
from master.core import Exit, Seen
from master.engine import Engine
from master.inventory import Facts, NodeState
from wire import agent as wire
from wire.framing import FrameError, LineDecoder, encode

log = logging.getLogger("muster.link")

BACKOFF_S = (0.1, 15.0)
"""The first pause after a failure and the longest; each is twice the one before, with up to half of it at random."""


class Identity(Protocol):
    """Which master this is: what `hello` says."""

    def hello(self) -> wire.Hello:
        """The first line to every agent."""


class CannotConnectError(Exception):
    """The driver cannot reach the agent; the message is for the admin, with the cure."""


class Driver(Protocol):
    """How a connection to a node's agent is made."""

    async def connect(self, protocol: asyncio.Protocol) -> None:
        """Connect, starting the agent if it does not run. Raises CannotConnectError."""


class SampleSink(Protocol):
    """Where samples go."""

    def sample(self, node: str, sample: dict[str, Any]) -> None:
        """A sample of a node arrived."""


class Link(asyncio.Protocol):
    """The link to one node. `run` keeps it up until it is cancelled; `send` drops what cannot be sent: the inventory
    after the next handshake sets it right."""

    def __init__(self, node: str, driver: Driver, engine: Engine, identity: Identity, samples: SampleSink) -> None:
        self.node = node
        self._driver = driver
        self._engine = engine
        self._identity = identity
        self._samples = samples
        self._transport: asyncio.Transport | None = None
        self._decoder = LineDecoder(wire.MAX_FRAME)
        self._ready = False
        self._closed = asyncio.Event()
        self._why_closed = ""
        self._heard_at = 0.0
        self._out: list[bytes] = []

    async def run(self) -> None:
        """Connect, talk, and when it breaks wait and connect again."""
        pause = BACKOFF_S[0]
        while True:
            began = time.monotonic()
            why = await self._session()
            if time.monotonic() - began > BACKOFF_S[1]:
                pause = BACKOFF_S[0]
            self._engine.event(partial(self._engine.core.node_state, self.node, NodeState.UNREACHABLE, why))
            log.warning("node %s: %s", self.node, why)
            await asyncio.sleep(pause * (1 + random.random() / 2))  # noqa: S311  (jitter, not a secret)
            pause = min(pause * 2, BACKOFF_S[1])

    async def _session(self) -> str:
        """One connection from beginning to end; why it ended."""
        self._closed.clear()
        self._decoder = LineDecoder(wire.MAX_FRAME)
        try:
            await self._driver.connect(self)
        except CannotConnectError as error:
            return str(error)
        self._why_closed = "the agent closed the connection"
        self._heard_at = time.monotonic()
        try:
            await self._keep_alive()
        finally:
            self._ready = False
            if self._transport is not None:
                self._transport.abort()
                self._transport = None
        return self._why_closed

    async def _keep_alive(self) -> None:
        while not self._closed.is_set():
            try:
                await asyncio.wait_for(self._closed.wait(), wire.HEARTBEAT_S)
            except TimeoutError:
                if time.monotonic() - self._heard_at > 3 * wire.HEARTBEAT_S:
                    self._why_closed = f"the agent said nothing for {3 * wire.HEARTBEAT_S:.0f} s"
                    return
                self.send({"op": "ping"})

    # -- out --------------------------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Send if the handshake is done; messages of one turn of the loop go out together."""
        if not self._ready:
            return
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(encode(message))

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None:
            self._transport.write(b"".join(out))

    # -- in ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say who we are."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a stream was expected, not {transport!r}")
        self._transport = transport
        self._ready = False
        self._out.clear()
        transport.write(encode(self._identity.hello()))

    def connection_lost(self, error: Exception | None) -> None:
        """Wake `run`."""
        if error is not None:
            self._why_closed = f"the connection broke: {error}"
        self._closed.set()

    def data_received(self, data: bytes) -> None:
        """Handle each line."""
        self._heard_at = time.monotonic()
        try:
            for line in self._decoder.feed(data):
                self._handle(json.loads(line))
        except (FrameError, ValueError, KeyError, TypeError) as error:
            log.exception("node %s: the agent sent something unreadable", self.node)
            self._why_closed = f"the agent sent something unreadable: {error}"
            self._closed.set()

    def _handle(self, message: dict[str, Any]) -> None:
        core, op = self._engine.core, message["op"]
        if op == "started":
            failpoint.reach("started.received")
            self._engine.event(lambda: core.started(message["launch_id"], message["at"]))
        elif op == "exit":
            failpoint.reach("exit.received")
            self._engine.event(lambda: core.exited(self.node, _exit(message), time.time()))
        elif op == "sample":
            core.node_load(self.node, message.get("load"))
            self._samples.sample(self.node, {key: value for key, value in message.items() if key != "op"})
        elif op == "welcome":
            self._welcomed(message)
        elif op == "inventory":
            self._ready = True
            seen = [_seen(attempt) for attempt in message["attempts"]]
            self._engine.event(lambda: core.reconcile(self.node, seen, time.time()))
            self._engine.event(lambda: core.node_state(self.node, NodeState.ONLINE))
        elif op == "refused":
            self._why_closed = f"its agent refuses us ({message['code']}): {message['message']}"

    def _welcomed(self, message: dict[str, Any]) -> None:
        facts = Facts(
            boot_id=message["boot_id"],
            state_id=message["state_id"],
            cpus=message["cpus"],
            memory_mib=message["memory_mib"],
            hostname=message["hostname"],
            python=message["python"],
            version=message["version"],
        )
        core = self._engine.core
        self._engine.event(lambda: core.node_state(self.node, NodeState.CONNECTING, None, facts))


def _exit(message: dict[str, Any]) -> Exit:
    return Exit(
        launch_id=message["launch_id"],
        cause=message["cause"],
        at=message["at"] or 0.0,
        code=message["code"],
        error=message.get("error") or "",
        started_at=message.get("started_at"),
    )


def _seen(attempt: dict[str, Any]) -> Seen:
    if attempt["state"] == "ended":
        return Seen(attempt["launch_id"], exit=_exit(attempt))
    started_at = attempt.get("started_at") if attempt["state"] == "running" else None
    return Seen(attempt["launch_id"], started_at)
