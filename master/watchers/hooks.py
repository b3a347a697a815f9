"""The hooks of a lab: which consumer of the outbox each has, and what serves it."""

from __future__ import annotations

from collections.abc import Mapping

from master.engine.engine import Engine
from master.watchers.deliveries import Deliveries
from master.watchers.gpus_free import GpusFree
from master.watchers.hook_command import HookCommand
from master.watchers.task_hooks import WANTED, TaskHook
from wire.message import Message


class Hooks:
    """The hooks that are set, by event with the words of its command. `close` them."""

    def __init__(self, engine: Engine, commands: Mapping[str, tuple[str, ...]]) -> None:
        self._served = {event: _served(engine, event, words) for event, words in commands.items()}

    def failing(self) -> list[Message]:
        """Return what is wrong with the commands that do not hear of their events, by their names in conf.json."""
        retried = [(name(event), one) for event, one in self._served.items() if isinstance(one, Deliveries)]
        return [trouble for key, one in retried for trouble in one.troubles(key)]

    async def close(self) -> None:
        """End them, and the commands that run."""
        for served in self._served.values():
            await served.close()


def name(event: str) -> str:
    """Return the key of conf.json for the hook of this event."""
    return f"hooks.{event}"


def _served(engine: Engine, event: str, words: tuple[str, ...]) -> Deliveries | GpusFree:
    key = name(event)
    command, reader = HookCommand(key, words), engine.store.outbox.reader(key)
    if event in WANTED:
        return Deliveries(engine.observers, reader, TaskHook(event, command))
    return GpusFree(engine, command, reader)
