"""The hooks of a lab: which consumer of the outbox each has, and what serves it."""

from __future__ import annotations

from collections.abc import Mapping

from master.engine.engine import Engine
from master.watchers.deliveries import Deliveries
from master.watchers.gpus_free import GpusFree
from master.watchers.hook_command import HookCommand
from master.watchers.task_hooks import WANTED, TaskHook


class Hooks:
    """The hooks that are set, by event with the words of its command. `close` them."""

    def __init__(self, engine: Engine, commands: Mapping[str, tuple[str, ...]]) -> None:
        self._served = [_served(engine, event, words) for event, words in commands.items()]

    async def close(self) -> None:
        """End them, and the commands that run."""
        for served in self._served:
            await served.close()


def _served(engine: Engine, event: str, words: tuple[str, ...]) -> Deliveries | GpusFree:
    name = f"hooks.{event}"
    command, reader = HookCommand(name, words), engine.store.outbox.reader(name)
    if event in WANTED:
        return Deliveries(engine.observers, reader, TaskHook(event, command))
    return GpusFree(engine, command, reader)
