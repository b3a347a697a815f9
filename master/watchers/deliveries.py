"""Give one consumer the moves that it wants, from the outbox, in order and at least once.

Owns when the outbox is read, how many events go together, and the pauses after a failure. While a delivery fails, later
events wait; one that is refused for good is passed over. The consumer knows what a delivery is, and what came of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, Protocol

import msgspec

from master.core.outcome import Move
from master.core.tasks.transitions import State
from master.durable.outbox import MOST, Event, Reader
from master.engine.engine import Observer
from master.watchers.refusals import RefusedForGoodError
from wire.message import Message

log = logging.getLogger("muster.hooks")

GATHER_S = 0.2
"""So long after a move the outbox is read: moves of the same moment are delivered together."""
RETRY_S, LONGEST_RETRY_S = 1.0, 300.0
"""Seconds until a failed delivery is tried again, and the longest pause; each pause is twice the one before."""


class Refused(msgspec.Struct, frozen=True):
    """The events that were refused for good since a delivery went well last. `since`: when the first was, in seconds
    since the epoch."""

    since: float
    count: int
    why: str


class Consumer(Protocol):
    """Receives moves."""

    def wants(self, before: State, after: State) -> bool:
        """Tell whether it wants the moves between these states."""

    async def deliver(self, events: Sequence[Event]) -> bool:
        """Deliver these. False: it failed, and they come again, one at a time at first. Raises RefusedForGoodError if
        one of them is: then they come one at a time, and the one that is refused alone does not come again."""


class Deliveries:
    """From the commits to one consumer, from where it stopped before. `close` it. `failing_since`: when the first
    delivery failed since the last one that went well, in seconds since the epoch."""

    def __init__(self, observers: list[Observer], reader: Reader, consumer: Consumer) -> None:
        """`observers`: those of the engine, which say that there is something to read."""
        self._observers = observers
        self._reader = reader
        self._consumer = consumer
        self.failing_since: float | None = None
        self.refused: Refused | None = None
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
            went = await self._deliver_some(most)
            if went == "on":
                most, pause = min(2 * most, MOST), RETRY_S
                self.failing_since = None
                if self._reader.is_at_end:
                    return
                continue
            self._reader.back()
            most = 1
            if went == "again":
                self.failing_since = self.failing_since or time.time()
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_RETRY_S)

    async def _deliver_some(self, most: int) -> Literal["on", "again", "apart"]:
        """Return how to go on: with what comes next, with the same events after a pause, or with each of them alone."""
        events: list[Event] = []
        try:
            events = self._reader.read(self._consumer.wants, most)
            if events and not await self._consumer.deliver(events):
                return "again"
        except RefusedForGoodError as error:
            if len(events) > 1:
                return "apart"
            self._pass_over(events[0], str(error))
        except Exception:  # whatever it is, the event must not be lost, and the others wait for it
            log.exception("events could not be delivered, and are tried again")
            return "again"
        else:
            self.refused = None if events else self.refused
        self._reader.finish()
        await asyncio.sleep(0)  # others have their turn, also while there is much to read and nothing to deliver
        return "on"

    def _pass_over(self, event: Event, why: str) -> None:
        """Note that an event is lost to the consumer. The log has it once for as long as the reason stays the same."""
        before = self.refused
        if before is None or before.why != why:
            log.warning("event %s was refused for good and is not delivered again: %s", event.id, why)
        since, count = (time.time(), 0) if before is None else (before.since, before.count)
        self.refused = Refused(since, count + 1, why)

    def troubles(self, name: str) -> list[Message]:
        """Return what to tell admins of the deliveries to this consumer, by its name."""
        told = []
        if self.failing_since is not None:
            told.append(Message("hook_fails", hook=name, since=self.failing_since))
        if self.refused is not None:
            told.append(Message("hook_refuses", hook=name, since=self.refused.since, count=self.refused.count))
        return told

    async def close(self) -> None:
        """End it, and a delivery that runs: its events come again."""
        self._observers.remove(self)
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
