"""What every way to run attempts can do. Nothing else of it is known to the engine."""

from __future__ import annotations

from typing import Protocol

from master.core.effects import Effect


class Executor(Protocol):
    """Carries out effects, and tells the core what came of them through its events. It promises what the core builds
    on: an attempt is begun at most once, ever; its end is told until it is acknowledged."""

    def perform(self, effects: list[Effect]) -> None:
        """Carry these out, in this order. The changes that they belong to are durable."""

    def close(self) -> None:
        """Nothing is carried out any more. What runs, runs on."""
