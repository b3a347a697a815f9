"""The hooks of a lab: a durable consumer for each, and what serves it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from master.durable.outbox import Reader
from master.engine.engine import Engine
from master.watchers.consumers import DurableConsumer, Running
from master.watchers.deliveries import Deliveries
from master.watchers.gpus_free import GpusFree
from master.watchers.hook_command import HookCommand
from master.watchers.task_hooks import WANTED, TaskHook


def hooks_of(commands: Mapping[str, tuple[str, ...]]) -> tuple[DurableConsumer, ...]:
    """Return the consumers of the hooks that are set, by event with the words of its command. Each has the name of its
    key in conf.json."""
    hooks = ((f"hooks.{event}", event, words) for event, words in commands.items())
    return tuple(DurableConsumer(key, partial(_begin, key, event, words)) for key, event, words in hooks)


def _begin(key: str, event: str, words: tuple[str, ...], engine: Engine, reader: Reader) -> Running:
    command = HookCommand(key, words)
    if event in WANTED:
        return Deliveries(engine.observers, reader, TaskHook(event, command))
    return GpusFree(engine, command, reader)
