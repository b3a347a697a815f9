"""The consumers of the outbox that a lab has, each with its name.

The store keeps the moves for those names before anything runs; later each consumer begins with the reader of its name.
Owns that both are the same; what a consumer does with its moves is its own matter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec

from wire.message import Message

if TYPE_CHECKING:
    from master.durable.outbox import Reader
    from master.engine.engine import Engine


class Running(Protocol):
    """A consumer that runs."""

    def troubles(self, name: str) -> list[Message]:
        """Return what to tell admins of it, by its name."""

    async def close(self) -> None:
        """End it. Unfinished events come again."""


class DurableConsumer(msgspec.Struct, frozen=True):
    """A consumer by the `name` under which the store knows how far it has come. `begin` starts it."""

    name: str
    begin: Callable[[Engine, Reader], Running]


class Consumers:
    """Those of a lab; `running` begins them."""

    def __init__(self, consumers: Sequence[DurableConsumer]) -> None:
        self._consumers = tuple(consumers)
        self._running: dict[str, Running] = {}

    @property
    def names(self) -> list[str]:
        """The names for `Store.serve`."""
        return [one.name for one in self._consumers]

    def troubles(self) -> list[Message]:
        """Return what to tell admins of those that do not get what is theirs."""
        return [trouble for name, running in self._running.items() for trouble in running.troubles(name)]

    @asynccontextmanager
    async def running(self, engine: Engine) -> AsyncIterator[None]:
        """Let each have its moves until the body ends."""
        try:
            for one in self._consumers:
                self._running[one.name] = one.begin(engine, engine.store.outbox.reader(one.name))
            yield
        finally:
            running, self._running = self._running, {}
            for one_running in running.values():
                await one_running.close()
