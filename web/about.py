"""Calls that the console itself makes to the master: whether it answers, and what it tells of itself to a program
beside it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from web.settings import Settings
from web.upstream import Upstream

FRESH_S = 2.0
"""Seconds for which an answer is used again, for any number of callers."""


class About:
    """Over one connection, in the console's own name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._upstream: Upstream | None = None
        self._told: dict[str, tuple[float, dict[str, Any]]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def info(self) -> dict[str, Any]:
        """`server.info`, as it was a moment ago. Raises UnreachableError."""
        return await self._ask("server.info")

    async def privacy(self) -> str:
        """Return how much people see of others' tasks: `open` or `own`. Raises UnreachableError."""
        return str((await self._ask("server.info")).get("privacy", "own"))

    async def is_shared(self) -> bool:
        """Was any user ever added? Before, nobody can sign in. Raises UnreachableError."""
        return bool((await self._ask("auth.whoami"))["is_shared"])

    async def _ask(self, verb: str) -> dict[str, Any]:
        async with self._one_at_a_time:
            at, answer = self._told.get(verb, (0.0, {}))
            if self._upstream is not None and self._upstream.is_open and time.monotonic() - at < FRESH_S:
                return answer
            if self._upstream is None or not self._upstream.is_open:
                self._upstream = await Upstream.open(self._settings, "calls")
            answer = msgspec.json.decode(await self._upstream.call(verb, {}), type=dict[str, Any])
            self._told[verb] = time.monotonic(), answer
            return answer

    async def close(self) -> None:
        """End it."""
        if self._upstream is not None:
            await self._upstream.close()
