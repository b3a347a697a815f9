"""The heartbeat of a link: pings, the pace of an agent, and when a silent one is given up."""

from __future__ import annotations

import asyncio
import time
from math import ceil

from master.nodes.agent_context import AgentContext
from master.nodes.connection import Connection, Ending
from wire import agent as wire
from wire.message import Message

BEATS = 3
"""An agent of which nothing came for so many heartbeats is gone."""
DOUBT_S = 1.0
"""It has so much longer to show that it is not: where we stood still, what was said meanwhile is heard first."""
TOGETHER_S = 0.25
"""Links look after their agents at multiples of this, by the loop's clock: those of a hundred nodes do it in a few
turns of the loop, and what is answered comes together, too."""


def together(at: float) -> float:
    """The time at which what is due then is done: for all links the same few times."""
    return ceil(at / TOGETHER_S) * TOGETHER_S


class Heartbeat:
    """Of one connection; `over` is told when it is to end."""

    def __init__(self, context: AgentContext, connection: Connection, over: Ending) -> None:
        self._context = context
        self._connection = connection
        self._over = over
        self._keeps_pace = False
        self._beat_s = wire.HEARTBEAT_S
        self._pace: wire.Pace | None = None
        """The one that the agent has."""
        self._is_doubted = False
        self._look: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Look after the agent until the connection is over."""
        self._connection.heard()
        self._look_again()
        try:
            await self._over.wait()
        finally:
            if self._look is not None:
                self._look.cancel()

    def told(self, *, keeps_pace: bool) -> None:
        """The handshake is done. An agent that knows the word (`keeps_pace`) is told the pace, and looked after at
        that."""
        self._keeps_pace = keeps_pace
        self._say_pace()
        if self._look is not None:
            self._look.cancel()
            self._look_again()

    def _look_again(self) -> None:
        """When the next ping is due, or the agent may be silent. A timer of the loop's, and no task that waits: a
        hundred idle nodes cost little else."""
        patience = min(self._beat_s, max(self._connection.heard_at + self._silence_s - time.monotonic(), DOUBT_S))
        loop = asyncio.get_running_loop()
        self._look = loop.call_at(together(loop.time() + patience), self._look_after)

    def _look_after(self) -> None:
        is_silent = time.monotonic() - self._connection.heard_at >= self._silence_s
        was_doubted, self._is_doubted = self._is_doubted, is_silent
        if is_silent and was_doubted and not self._connection.has_said:
            self._over.end(Message("agent_silent", seconds=self._silence_s))
        elif is_silent:
            self._connection.hurry()
            self._look_again()
        elif self._over.by and time.monotonic() > self._over.by:
            self._over.end()
        else:
            self._say_pace()
            self._look_again()
            self._connection.rest(can_wait=self._nothing_is_awaited())
            self._connection.send({"op": "ping"})

    @property
    def _silence_s(self) -> float:
        return BEATS * self._beat_s

    def _say_pace(self) -> None:
        """Tell an agent that knows the word how often to sample, and when to take us for gone, unless it was told."""
        rules = self._context.engine.core.settings.scheduler
        pace = wire.Pace(op="pace", sample_s=rules.sample_s, heartbeat_s=rules.heartbeat_s)
        if self._connection.is_ready and self._keeps_pace and pace != self._pace:
            self._pace, self._beat_s = pace, rules.heartbeat_s
            self._connection.send(pace)

    def _nothing_is_awaited(self) -> bool:
        node = self._context.entry
        return node is not None and not node.active and not self._context.questions.are_open and not self._over.is_over
