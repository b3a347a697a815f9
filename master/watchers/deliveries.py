"""Give one consumer the moves that it wants, from the outbox, in order and at least once.

Owns when the outbox is read, how many events go together, and the pauses after a failure. While a delivery fails, later
events wait. The consumer knows what a delivery is, and whether it went well.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from master.core.outcome import Move
from master.core.tasks.transitions import State
from master.durable.outbox import MOST, Event, Reader
from master.engine.engine import Observer

log = logging.getLogger("muster.hooks")

GATHER_S = 0.2
"""So long after a move the outbox is read: moves of the same moment are delivered together."""
RETRY_S, LONGEST_RETRY_S = 1.0, 300.0
"""Seconds until a failed delivery is tried again, and the longest pause; each pause is twice the one before."""


class Consumer(Protocol):
    """Receives moves."""

    def wants(self, before: State, after: State) -> bool:
        """Tell whether it wants the moves between these states."""

    async def deliver(self, events: Sequence[Event]) -> bool:
        """Deliver these. False: it failed, and they come again, one at a time at first."""


class Deliveries:
    """From the commits to one consumer, from where it stopped before. `close` it. `failing_since`: when the first
    delivery failed since the last one that went well, in seconds since the epoch."""

    def __init__(self, observers: list[Observer], reader: Reader, consumer: Consumer) -> None:
        """`observers`: those of the engine, which say that there is something to read."""
        self._observers = observers
        self._reader = reader
        self._consumer = consumer
        self.failing_since: float | None = None
        self._moved = asyncio.Event()
        self._moved.set()  # there may be some from before this start
        observers.append(self)
        self._running = asyncio.create_task(self._run(), name="deliveries of the outbox")

    def published(self, moves: Sequence[Move], _nodes: set[str]) -> None:
        """As `Observer`."""
        if moves:
            self._moved.set()

    async def _run(self) -> None:
        while True:
            await self._moved.wait()
            await asyncio.sleep(GATHER_S)
            self._moved.clear()
            await self._deliver_all()

    async def _deliver_all(self) -> None:
        most, pause = MOST, RETRY_S
        while True:
            if await self._deliver_some(most):
                most, pause = min(2 * most, MOST), RETRY_S
                self.failing_since = None
                if self._reader.is_at_end:
                    return
            else:
                self._reader.back()
                self.failing_since = self.failing_since or time.time()
                await asyncio.sleep(pause)
                most, pause = 1, min(2 * pause, LONGEST_RETRY_S)

    async def _deliver_some(self, most: int) -> bool:
        """Return whether it went well."""
        try:
            events = self._reader.read(self._consumer.wants, most)
            went_well = await self._consumer.deliver(events) if events else True
        except Exception:  # whatever it is, the event must not be lost, and the others wait for it
            log.exception("events could not be delivered, and are tried again")
            return False
        if went_well:
            self._reader.finish()
        await asyncio.sleep(0)  # others have their turn, also while there is much to read and nothing to deliver
        return went_well

    async def close(self) -> None:
        """End it, and a delivery that runs: its events come again."""
        self._observers.remove(self)
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
