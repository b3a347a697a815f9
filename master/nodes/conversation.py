"""The messages of an agent over one connection: each line is decoded and handed to the part that it concerns.

An agent that says what it may not is not believed: its connection ends.
"""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from master.core.attempts import agent_messages
from master.core.nodes.accounts import OWN
from master.durable import failpoint
from master.nodes.agent_context import AgentContext
from master.nodes.connection import Connection, Ending
from master.nodes.handshake import Handshake
from master.nodes.heartbeat import Heartbeat
from master.nodes.sample_intake import take_in
from wire.framing import FrameError
from wire.message import Message

log = logging.getLogger("muster.link")

REPEATED_S = 0.01
"""Seconds of our time that each message costs its agent which repeats that an attempt runs, or tells of one of unknown
origin. A few bytes may make us write a whole task, or all such attempts of the node, and show them to everybody. By the
share of `pacing` we hear thirty of them a second for long."""


class Conversation:
    """On one connection. `over` is told when it ends; `heard_at`: when the agent was last heard before, in
    monotonic seconds; `asked_to_retire`: the version that was asked before to end for ours."""

    def __init__(
        self,
        context: AgentContext,
        transport: asyncio.Transport,
        over: Ending,
        *,
        heard_at: float,
        asked_to_retire: str,
    ) -> None:
        self.connection = Connection(
            transport, context.engine, self._hear, over, pace=context.pace, turns=context.turns, heard_at=heard_at
        )
        self.heartbeat = Heartbeat(context, self.connection, over)
        self.handshake = Handshake(context, self.connection, self.heartbeat, over, asked_to_retire)
        self._context = context
        self._over = over

    def received(self, data: bytes) -> None:
        """Handle what came; what it changes is written down together."""
        engine = self._context.engine
        holds = engine.hold()
        try:
            self.connection.feed(data)
        except FrameError as error:
            self._unreadable(error)
        finally:
            if holds:
                engine.let_go()

    def _hear(self, line: bytes) -> None:
        if self._over.is_over:
            return
        self.connection.heard()
        try:
            self._handle(line)
        except (agent_messages.UnbelievableError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            self._unreadable(error)

    def _unreadable(self, error: Exception) -> None:
        log.warning("node %s: the agent sent something unreadable: %s", self._context.label, error)
        self._over.end(Message("agent_unreadable", said=str(error)))

    def _handle(self, line: bytes) -> None:
        op = agent_messages.op_of(line).op
        if op == "started":
            self._started(line)
        elif op == "exit":
            self._exited(line)
        elif op == "unproven":
            unproven = agent_messages.as_unproven(line)
            self._context.reports.unproven(unproven.launch_id, unproven.pids)
        elif op == "sample" and self._context.login == OWN:
            take_in(self._context, line, has_rested=self.connection.rests)
        elif op == "welcome":
            self.handshake.welcomed(line)
        elif op == "inventory" and not self._over.by:
            self.handshake.inventoried(line)
        elif op == "probed":
            self._context.questions.answered(agent_messages.as_probed(line))
        elif op == "refused":
            self._over.why = _refusal(agent_messages.as_refused(line))

    def _started(self, line: bytes) -> None:
        started = agent_messages.as_started(line)
        failpoint.reach("started.received")
        context = self._context
        if context.engine.core.was_started(context.node, started.launch_id, started.pid, context.login):
            self.connection.charge(REPEATED_S)
        self._context.reports.started(started, time.time())

    def _exited(self, line: bytes) -> None:
        ended = agent_messages.as_ended(line).exit()
        failpoint.reach("exit.received")
        context = self._context
        if context.engine.core.is_unknown_attempt(context.node, ended.launch_id, context.login):
            self.connection.charge(REPEATED_S)
        self._context.reports.exited(ended, time.time())


def _refusal(refused: agent_messages.Refused) -> Message:
    code, said, folder = refused.code, refused.message, refused.folder
    if folder:
        return Message("agent_refuses_us_in", code=code, said=said, folder=folder)
    return Message("agent_refuses_us", code=code, said=said)
