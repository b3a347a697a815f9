"""Tells a command of the lab's when GPUs have fallen free that nobody who waits takes.

Looks when something was published and the plan that follows from it is made. `free_gpus` says which GPUs have fallen
free, `hook_command` how the command runs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress

from master.core.outcome import Move
from master.engine.engine import Engine
from master.watchers.free_gpus import FreeGpus, free_and_taken
from master.watchers.hook_command import HookCommand

LOOK_S = 1.0
"""Between what was published and the look: who ends and who begins are seen together."""


class GpusFree:
    """Over one engine; `command` hears of it. Made when the core has loaded, so what runs by then is taken."""

    def __init__(self, engine: Engine, command: HookCommand) -> None:
        self._engine = engine
        self._command = command
        self._gpus = FreeGpus()
        self._changed = set(engine.core.inventory.nodes)
        self._with_holds: set[str] = set()
        self._looking: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None
        self._look_at_changed()
        engine.observers.append(self)

    def published(self, _moves: Sequence[Move], nodes: set[str]) -> None:
        """As `Observer`."""
        self._changed |= nodes
        for name in nodes:
            if (node := self._engine.core.inventory.nodes.get(name)) is not None:
                self._gpus.took(name, node.gpu_holders)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        if self._engine.core.plan_needed or not self._engine.is_saved:
            self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)
            return
        self._looking = None
        self._look_at_changed()
        if self._gpus.due_at is not None and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._tell(), name="the hook gpus_free")

    def _look_at_changed(self) -> None:
        core = self._engine.core
        holds = {name: hold.gpus for name, hold in core.holds.items()}
        changed, self._changed = self._changed | self._with_holds | holds.keys(), set()
        self._with_holds = set(holds)
        for name in changed:
            node = core.inventory.nodes.get(name)
            if node is None:
                self._gpus.gone(name)
            else:
                self._gpus.seen(name, *free_and_taken(node, holds.get(name, ())))

    async def _tell(self) -> None:
        """All that there is to tell, one after the other; what falls free meanwhile goes into the next."""
        while (due_at := self._gpus.due_at) is not None:
            await asyncio.sleep(max(0.0, due_at - time.monotonic()))
            if told := self._gpus.tell(time.monotonic()):
                gpus = [{"node": name, "gpus": fallen} for name, fallen in told.items()]
                said = {"event": "gpus_free", "at": time.time(), "gpus": gpus, "free": self._gpus.count}
                await self._command.run(json.dumps(said, ensure_ascii=False).encode() + b"\n")

    async def close(self) -> None:
        """End it, and a command that runs."""
        self._engine.observers.remove(self)
        if self._looking is not None:
            self._looking.cancel()
        if self._telling is not None:
            self._telling.cancel()
            with suppress(asyncio.CancelledError):
                await self._telling
