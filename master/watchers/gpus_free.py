"""Tells a command of the lab's when GPUs have fallen free that nobody who waits takes.

Looks when something was published and the plan that follows from it is made. `free_gpus` says which GPUs have fallen
free, `hook_command` how the command runs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from contextlib import suppress

from master.core.outcome import Move
from master.core.tasks.task import ACTIVE
from master.core.tasks.transitions import State
from master.durable.outbox import Gap, Reader
from master.engine.engine import Engine
from master.watchers.free_gpus import FreeGpus, free_and_taken
from master.watchers.hook_command import HookCommand
from master.watchers.refusals import RefusedForGoodError
from wire.message import Message

log = logging.getLogger("muster.hooks")

LOOK_S = 1.0
"""Between what was published and the look: who ends and who begins are seen together."""
LONG_S = 60.0


def _gives_back(before: State, after: State) -> bool:
    return before in ACTIVE and after not in ACTIVE


class GpusFree:
    """Over one engine; `command` hears of it. Made when the core has loaded, so what runs by then is taken; and so is
    what tasks gave back that the last master could not tell, by the cursor of `reader`."""

    def __init__(self, engine: Engine, command: HookCommand, reader: Reader) -> None:
        self._engine = engine
        self._command = command
        self._reader = reader
        self._owed: dict[str, set[int]] = {}
        """GPUs that tasks gave back, of which nobody knows yet how they are: until then the cursor stays."""
        self._gpus = FreeGpus()
        self._changed = set(engine.core.inventory.nodes)
        self._with_holds: set[str] = set()
        self._looking: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None
        self._look_at_changed()
        engine.observers.append(self)
        self._look_in(LOOK_S)

    def published(self, _moves: Sequence[Move], nodes: set[str]) -> None:
        """As `Observer`."""
        self._changed |= nodes
        for name in nodes:
            if (node := self._engine.core.inventory.nodes.get(name)) is not None:
                self._gpus.took(name, node.gpu_holders)
        if self._looking is None:
            self._look_in(LOOK_S)

    def _look_in(self, seconds: float) -> None:
        self._looking = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        if self._engine.core.plan_needed or not self._engine.is_saved:
            self._look_in(LOOK_S)
            return
        try:
            self._read_some()
        except OSError as error:
            log.warning("hooks.gpus_free: the journal cannot be read now: %s", error.strerror)
            self._look_in(LONG_S)
            return
        if not self._reader.is_at_end:
            self._look_in(0.0)
            return
        self._looking = None
        self._look_at_changed()
        is_telling = self._telling is not None and not self._telling.done()
        if self._gpus.due_at is not None and not is_telling:
            self._telling = asyncio.create_task(self._tell(), name="the hook gpus_free")
        elif not (is_telling or self._owed):
            self._reader.finish()

    def _read_some(self) -> None:
        """Take the GPUs that tasks gave back for taken until now."""
        for event in self._reader.read(_gives_back):
            task = None if isinstance(event, Gap) else event.task
            for part in task.attempts[-1].parts if task is not None and task.attempts else ():
                self._changed.add(part.node)
                self._gpus.took(part.node, part.gpus)
                self._owed.setdefault(part.node, set()).update(part.gpus)

    def _look_at_changed(self) -> None:
        core = self._engine.core
        holds = {name: hold.gpus for name, hold in core.holds.items()}
        changed, self._changed = self._changed | self._with_holds | holds.keys(), set()
        self._with_holds = set(holds)
        for name in changed:
            node = core.inventory.nodes.get(name)
            if node is None:
                self._gpus.gone(name)
                self._owed.pop(name, None)
                continue
            free, taken = free_and_taken(node, holds.get(name, ()))
            self._gpus.seen(name, free, taken)
            if name in self._owed:
                self._owed[name] -= free | taken
                if not self._owed[name]:
                    del self._owed[name]

    async def _tell(self) -> None:
        """All that there is to tell, one after the other; what falls free meanwhile goes into the next."""
        while (due_at := self._gpus.due_at) is not None:
            await asyncio.sleep(max(0.0, due_at - time.monotonic()))
            if told := self._gpus.tell(time.monotonic()):
                gpus = [{"node": name, "gpus": fallen} for name, fallen in told.items()]
                said = {"event": "gpus_free", "at": time.time(), "gpus": gpus, "free": self._gpus.count}
                reached = None if self._owed else self._reader.reached
                with suppress(RefusedForGoodError):  # no failure is tried again here
                    await self._command.run(json.dumps(said, ensure_ascii=False).encode() + b"\n")
                if reached is not None:
                    self._reader.finish(reached)

    def troubles(self, _name: str) -> list[Message]:
        """As `Running`: none, for nothing of it is tried again."""
        return []

    async def close(self) -> None:
        """End it, and a command that runs."""
        self._engine.observers.remove(self)
        if self._looking is not None:
            self._looking.cancel()
        if self._telling is not None:
            self._telling.cancel()
            with suppress(asyncio.CancelledError):
                await self._telling
