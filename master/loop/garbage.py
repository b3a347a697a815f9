"""Looking for garbage, a little at a time.

Only the interpreter's collections find objects that refer to each other in a circle, such as a connection and its
transport. A full collection looks at all objects: with ten thousand connections, or the tasks of a week, everybody
waits for a tenth of a second and longer. So objects that survived two small collections are no longer looked at
(`gc.freeze`), and there are no full collections. Circles that become garbage after that stay in memory. Once memory has
grown, for that reason or any other, all objects are looked through in a quiet moment.

Freed memory stays with the process, between memory that is in use: a tenth after a long queue was read. The system gets
it back after the start, and after each look through all objects (`give_back`).

Owns when the interpreter collects. The interpreter decides which objects are garbage.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

log = logging.getLogger("muster.garbage")

MIDDLE = 1
"""The generation of the collections that see what the last few hundred things left behind; behind it is all else."""
FIRST_S, LOOK_S = 5.0, 60.0
LARGE = 100 << 20
"""Bytes of a process that may have a tenth of it to give back."""
QUIET_S, QUIET_TURNS = 1.0, 20
"""A moment is quiet if the loop has made no more turns in it."""
PATIENCE = 60
"""So many looks are waited for a quiet moment, but none where memory has grown by LEAST_GROWTH once more."""
LEAST_GROWTH = 128 << 20
"""Bytes that memory has grown by, or half of what it was, before all is looked through."""


def resident_bytes() -> int:
    """How much memory this process has in RAM."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def give_back() -> None:
    """Give the system the memory back that is free. It takes a millisecond."""
    import ctypes  # noqa: PLC0415  (it takes five to load, and most masters are small)

    with suppress(AttributeError):  # a C library other than GNU's
        ctypes.CDLL(None).malloc_trim(0)


class Garbage:
    """The collections of this process. `turns`: how many turns the loop has made; `memory`: bytes."""

    def __init__(
        self,
        turns: Callable[[], int],
        memory: Callable[[], int] = resident_bytes,
        give: Callable[[], None] = give_back,
    ) -> None:
        self._turns = turns
        self._memory = memory
        self._give = give
        self._most = 0
        self._turns_then = 0
        self._patience = PATIENCE
        self._next: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Keep all present objects out of collections: they stay, so looking through them would only cost time."""
        gc.freeze()
        gc.callbacks.append(self._collected)
        gc.enable()
        self._remember()
        self._next = asyncio.get_running_loop().call_later(FIRST_S, self._look_first)

    def stop(self) -> None:
        """Let the interpreter do as it pleases."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
            gc.callbacks.remove(self._collected)

    def look_through_all(self) -> int:
        """How many objects were garbage."""
        gc.unfreeze()
        found = gc.collect()
        self._give()
        self._remember()
        return found

    @staticmethod
    def _collected(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] >= MIDDLE:
            gc.freeze()

    def _remember(self) -> None:
        memory = self._memory()
        self._most = memory + max(LEAST_GROWTH, memory // 2)
        self._patience = PATIENCE

    def _look_first(self) -> None:
        if self._memory() > LARGE:
            self._give()
        self._next = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if self._memory() > self._most:
            self._turns_then = self._turns()
            self._next = loop.call_later(QUIET_S, self._look_again)
        else:
            self._next = loop.call_later(LOOK_S, self._look)

    def _look_again(self) -> None:
        self._patience -= 1
        before = self._memory()
        # A client that makes garbage on purpose leaves no quiet moments.
        is_much = before > self._most + LEAST_GROWTH
        is_quiet = self._turns() - self._turns_then <= QUIET_TURNS
        if is_quiet or is_much or self._patience <= 0:
            found = self.look_through_all()
            log.info("memory had grown to %d MiB; of it %d objects were garbage", before >> 20, found)
        self._next = asyncio.get_running_loop().call_later(LOOK_S, self._look)
