"""Attempts are run by agents: each effect becomes a message to its node.

Messages that cannot be sent now are not kept: the inventory after the next handshake corrects what an agent missed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from master.core.attempts.launching import LaunchSettings
from master.core.effects import Ack, Kill, NodeEffect, Pause, Rest, Resume, SeekCheckpoint, Start
from master.core.executor import CoreReports, Reports
from master.core.people.run_as import RunAs
from master.engine.engine import Engine
from master.executors.checkpoints import Ask, Checkpoints
from master.executors.launches import GiveBack, Launches, Ready, Refused
from wire import agent as wire

Send = Callable[[str, wire.Launch | wire.Kill | wire.Pause | wire.Ack, str], None]
"""Takes a message to a node, to the agent of this account there, if there is a link to it now."""


class Agents:
    """The executor of a running master. `settings`, `give_back` and `run_as`: as for `Launches`; `ask`: puts a short
    question to a node."""

    def __init__(
        self,
        engine: Engine,
        settings: Callable[[], LaunchSettings],
        send: Send,
        give_back: GiveBack,
        run_as: RunAs,
        *,
        ask: Ask,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._send = send
        self._launches = Launches(engine.core, settings, give_back, run_as)
        self._checkpoints = Checkpoints(engine, ask, run_as)
        self._rests: set[asyncio.TimerHandle] = set()

    def perform(self, effects: list[NodeEffect]) -> None:
        """See `Executor`."""
        acks: dict[tuple[str, str], list[str]] = {}
        for effect in effects:
            if isinstance(effect, Start):
                self._launch(effect)
            elif isinstance(effect, Kill):
                message = wire.Kill(op="kill", launch_id=effect.launch_id, grace_s=self._settings().grace_s)
                self._send(effect.node, message, effect.login)
            elif isinstance(effect, Pause | Resume):
                op = "pause" if isinstance(effect, Pause) else "resume"
                self._send(effect.node, wire.Pause(op=op, launch_id=effect.launch_id), effect.login)
            elif isinstance(effect, Ack):
                acks.setdefault((effect.node, effect.login), []).append(effect.launch_id)
            elif isinstance(effect, SeekCheckpoint):
                self._checkpoints.seek(effect)
            elif isinstance(effect, Rest):
                self._rest(effect)
        # One for each agent, and behind the rest: a launch does not wait for files to be removed.
        for (node, login), launch_ids in acks.items():
            self._send(node, wire.Ack(op="ack", launch_ids=launch_ids), login)

    def close(self) -> None:
        """See `Executor`."""
        self._checkpoints.close()
        for timer in self._rests:
            timer.cancel()
        self._rests.clear()

    def _launch(self, effect: Start) -> None:
        found = self._launches.of(effect)
        if isinstance(found, Ready):
            self._send(effect.node, found.launch, found.part.login)
        elif isinstance(found, Refused):
            self._refuse(effect.node, found)

    def _refuse(self, node: str, refused: Refused) -> None:
        """As if the node had said so: nothing is sent there."""
        why, login = refused.exit(time.time()), refused.part.login
        # Not before this change is done with.
        asyncio.get_running_loop().call_soon(lambda: self._reports(node, login).exited(why, time.time()))

    def _reports(self, node: str, login: str) -> Reports:
        return CoreReports(self._engine.core, node, login, tell=self._engine.event)

    def _rest(self, effect: Rest) -> None:
        def over() -> None:
            self._rests.discard(timer)
            self._reports(effect.node, effect.login).rested()

        timer = asyncio.get_running_loop().call_later(effect.seconds, over)
        self._rests.add(timer)
