"""Whether a task has a checkpoint: asks its node, in the task's folder and with its rights, and reports to the core.

A node that does not answer counts as having none; the core asks again when it wants to.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from master.core.effects import SeekCheckpoint
from master.core.executor import CoreReports
from master.core.people.run_as import RunAs
from master.engine.engine import Engine
from master.nodes.checkpoint_question import question, read_answer
from wire.agent import Probed
from wire.errors import MusterError

Ask = Callable[..., Awaitable[Probed]]
"""`Fleet.probe`."""
PATIENCE_S = 10.0
"""So long a disk may take to say what is on it."""


class Checkpoints:
    """The questions under way. `run_as`: which account a task's owner has."""

    def __init__(self, engine: Engine, ask: Ask, run_as: RunAs) -> None:
        self._engine = engine
        self._ask = ask
        self._run_as = run_as
        self._looks: set[asyncio.Task[None]] = set()

    def seek(self, effect: SeekCheckpoint) -> None:
        """Ask, and tell the core what came of it."""
        look = asyncio.create_task(self._look(effect), name=f"checkpoint of task {effect.task.id}")
        self._looks.add(look)
        look.add_done_callback(self._looks.discard)

    def close(self) -> None:
        """Report nothing more."""
        for look in self._looks:
            look.cancel()

    async def _look(self, effect: SeekCheckpoint) -> None:
        newest = await self._newest(effect)
        reports = CoreReports(self._engine.core, effect.node, effect.login, tell=self._engine.event)
        reports.checkpoint_seen(effect.launch_id, newest, time.time())

    async def _newest(self, effect: SeekCheckpoint) -> float | None:
        task = effect.task
        account = self._run_as(task.owner)
        argv = question(task.checkpoint)
        try:
            said = await self._ask(
                effect.node, argv, cwd=task.cwd, timeout_s=PATIENCE_S, run_as=account, asker=task.owner
            )
        except MusterError:
            return None
        return read_answer(said["output"])
