"""The one way in which tests wait: for a condition, with a deadline, and with an error that says what did not come.

Patience costs nothing where all is well, so there is plenty of it: a machine with two cores may have many other things
to do. No test asserts an upper bound in seconds: it counts what is done (`tests/calls.py`), and `bench/` measures.
"""

from __future__ import annotations

import asyncio
import linecache
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

PATIENCE_S = 60.0
_SHORTEST_S, _LONGEST_S = 0.005, 0.1
_FREE_S, _TURN_S = 0.05, 0.002
"""A loop turns freely for so long, for most of what it waits for is a few turns away; then it leaves the processor to
those who have something to do."""

T = TypeVar("T")
Seen = Callable[[], object]


class NeverError(AssertionError):
    """What was waited for did not come."""


def until(
    what: str,
    condition: Callable[[], T | None],
    patience: float = PATIENCE_S,
    *,
    seen: Seen | None = None,
    turn: Callable[[], object] | None = None,
) -> T:
    """Wait for a condition and give its value. `turn` is done between two looks, instead of a pause.

    Raises NeverError after `patience` seconds; it tells `what` was waited for, and what was `seen` last, or else the
    condition's last value.
    """
    deadline = time.monotonic() + patience
    pause = _SHORTEST_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise _never(what, patience, seen, value)
        if turn is None:
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_S)
        else:
            turn()
    return value


async def settled(
    condition: Callable[[], T | None],
    what: str = "",
    patience: float = PATIENCE_S,
    *,
    seen: Seen | None = None,
    turn: Callable[[], Awaitable[object]] | None = None,
) -> T:
    """`until`, while the loop turns. Without `what`, the error shows the line of the condition."""
    began = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - began
        if waited > patience:
            raise _never(what or _line(condition), patience, seen, value)
        await (asyncio.sleep(0.0 if waited < _FREE_S else _TURN_S) if turn is None else turn())
    return value


def run_story(story: Coroutine[Any, Any, T], patience: float = PATIENCE_S) -> T:
    """Run a coroutine in a loop of its own to its end. Raises TimeoutError after `patience` seconds."""
    return asyncio.run(within(patience, story))


async def within(patience: float, story: Awaitable[T]) -> T:
    """What comes of it. Raises TimeoutError after `patience` seconds."""
    async with asyncio.timeout(patience):
        return await story


def _never(what: str, patience: float, seen: Seen | None, value: object) -> NeverError:
    return NeverError(f"not within {patience:.0f} s: {what}; the last was {value if seen is None else seen()!r}")


def _line(condition: Callable[[], Any]) -> str:
    code = getattr(condition, "__code__", None)
    return repr(condition) if code is None else linecache.getline(code.co_filename, code.co_firstlineno).strip()
