"""Attempts are run by agents: each effect becomes a message to its node.

What cannot be sent now is not kept: the inventory after the next handshake sets right what an agent has not heard.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from master.core.attempt import Part, part_on
from master.core.effects import Ack, Effect, Kill, Rest, Start
from master.core.exits import NODE, Exit
from master.core.launching import LaunchSettings, launch_message
from master.core.run_as import RunAs, WouldBeRootError, account_on, as_the_agent
from master.core.task import TaskState
from master.engine import Engine
from wire import agent as wire

Send = Callable[[str, wire.Launch | wire.Kill | wire.Ack], None]
"""Takes a message to a node, if there is a link to it now."""


class Agents:
    """The executor of a running master. `run_as`: which account a task's owner has."""

    def __init__(self, engine: Engine, settings: LaunchSettings, send: Send, run_as: RunAs = as_the_agent) -> None:
        self._engine = engine
        self._settings = settings
        self._send = send
        self._run_as = run_as
        self._rests: set[asyncio.TimerHandle] = set()

    def perform(self, effects: list[Effect]) -> None:
        """See `Executor`."""
        for effect in effects:
            if isinstance(effect, Start):
                self._launch(effect)
            elif isinstance(effect, Kill):
                message = wire.Kill(op="kill", launch_id=effect.launch_id, grace_s=self._settings.grace_s)
                self._send(effect.node, message)
            elif isinstance(effect, Ack):
                self._send(effect.node, wire.Ack(op="ack", launch_ids=[effect.launch_id]))
            elif isinstance(effect, Rest):
                self._rest(effect)

    def close(self) -> None:
        """See `Executor`."""
        for timer in self._rests:
            timer.cancel()
        self._rests.clear()

    def _launch(self, effect: Start) -> None:
        part = _due(effect)
        if part is None:
            return
        node = self._engine.core.inventory.nodes.get(effect.node)
        names = node.watch.names() if node is not None else {}
        facts = node.facts if node is not None else None
        try:
            account = account_on(effect.node, facts, self._run_as(effect.task.owner))
        except WouldBeRootError as error:
            self._refuse(effect.node, part, error)
            return
        self._send(effect.node, launch_message(effect.task, part, self._settings, names, account))

    def _refuse(self, node: str, part: Part, error: WouldBeRootError) -> None:
        """As if the node had said so: nothing is sent there."""
        why = Exit(part.launch_id, "not_started", time.time(), error=str(error), fault=NODE)
        core = self._engine.core
        # Not before this change is done with.
        asyncio.get_running_loop().call_soon(lambda: self._engine.event(lambda: core.exited(node, why, time.time())))

    def _rest(self, effect: Rest) -> None:
        def over() -> None:
            self._rests.discard(timer)
            self._engine.event(lambda: self._engine.core.rested(effect.node))

        timer = asyncio.get_running_loop().call_later(effect.seconds, over)
        self._rests.add(timer)


def _due(effect: Start) -> Part | None:
    """The part that is to be started; None if that is over: while the disk refused writes, its task may have come to
    its end."""
    task = effect.task
    return part_on(task.allocation, effect.node) if task.state is TaskState.STARTING else None
