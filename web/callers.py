"""Callers: for each log-in, and each address that it is used from, one connection to the master that all its calls
share, open as long as it is used.

The master ends the connection as soon as the log-in is none any more, and it is the only one who says what somebody may
do: nothing of that is remembered here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from web import shares
from web.settings import Settings
from web.upstream import Upstream
from wire.errors import BadRequestError, LimitError
from wire.message import Message
from wire.routes import NOT_OVER_HTTP

IDLE_S = 60.0
"""Seconds that an unused connection stays open for a caller that returns."""
MOST = 1000
SEEN_S = 3600.0
"""So often the console tells the master that a log-in is used; the master notes it as seldom."""


class Shown(NamedTuple):
    """The credentials of a call: a token of the master's, and the call's address and `account` of this machine (by its
    uid)."""

    token: str
    origin: str
    account: int | None = None

    def __repr__(self) -> str:
        return f"Shown({self.origin})"


class Line:
    """A connection to the master in somebody's name. `used`: by how many at the moment; `seen_at`: when the master last
    heard activity of this user."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.used = 0
        self.left_at = self.seen_at = time.monotonic()

    async def call(self, verb: str, params: Any, shown: Shown) -> msgspec.Raw:
        """Call a verb. Raises what the master answers."""
        if verb in NOT_OVER_HTTP:  # the connection would be somebody else's from then on
            raise BadRequestError(Message("verb_of_connections", verb=verb))
        if time.monotonic() - self.seen_at > SEEN_S:
            self.seen_at = time.monotonic()
            await self.upstream.call("auth.token", {"token": shown.token})
        return await self.upstream.call(verb, params)


class Callers:
    """The lines of all who call."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lines: dict[Shown, Line] = {}
        self._opening: dict[Shown, asyncio.Task[Line]] = {}

    @asynccontextmanager
    async def line(self, shown: Shown) -> AsyncIterator[Line]:
        """The connection of a user, for as long as it is needed. Raises UnauthenticatedError, UnreachableError."""
        line = self._lines.get(shown)
        if line is None or not line.upstream.is_open:
            line = await self._opened(shown)
        shares.settle(line.upstream.user)
        line.used += 1
        try:
            yield line
        finally:
            line.used -= 1
            line.left_at = time.monotonic()

    async def user(self, shown: Shown) -> str:
        """Return the name of the user, however many log-ins and tokens they have. Raises as `line`."""
        async with self.line(shown) as line:
            return line.upstream.user

    async def call(self, shown: Shown, verb: str, params: Any) -> msgspec.Raw:
        """Call a verb in somebody's name. Raises what the master answers, or UnreachableError."""
        async with self.line(shown) as line:
            return await line.call(verb, params, shown)

    async def _opened(self, shown: Shown) -> Line:
        """Those who come at the same time wait for the same connection; that one of them leaves ends it for none."""
        opening = self._opening.get(shown)
        if opening is None:
            opening = asyncio.create_task(self._open(shown))
            self._opening[shown] = opening
            opening.add_done_callback(lambda _done: self._opening.pop(shown, None))
        return await asyncio.shield(opening)

    async def _open(self, shown: Shown) -> Line:
        await self._make_room()
        token, origin, account = shown
        line = Line(await Upstream.open(self.settings, "calls", shown=token, origin=origin, account=account))
        self._lines[shown] = line
        line.upstream.closed.add_done_callback(lambda _why: self._forget(shown, line))
        return line

    async def _make_room(self) -> None:
        if len(self._lines) < MOST:
            return
        free = min((one for one in self._lines.values() if not one.used), key=lambda one: one.left_at, default=None)
        if free is None:
            raise LimitError(Message("console_full", most=MOST))
        await free.upstream.close()

    def _forget(self, shown: Shown, line: Line) -> None:
        if self._lines.get(shown) is line:
            del self._lines[shown]

    async def tend(self) -> None:
        """Close what nobody uses, for ever."""
        while True:
            await asyncio.sleep(IDLE_S / 4)
            now = time.monotonic()
            for line in list(self._lines.values()):
                if not line.used and now - line.left_at > IDLE_S:
                    await line.upstream.close()

    async def close(self) -> None:
        """End all of them."""
        for line in list(self._lines.values()):
            await line.upstream.close()
