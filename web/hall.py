"""The shared parts of all the console's answers: its settings, the check of callers, and the connections to the
master."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.requests import Request

from web.about import About
from web.bodies import read_json
from web.callers import Callers, Shown
from web.certificates import Certificates
from web.feeds import Feeds
from web.settings import Settings
from web.shares import Shares
from web.whence import SAFE, Gate


class Hall(NamedTuple):
    """One for the process."""

    settings: Settings
    certificates: Certificates
    gate: Gate
    about: About
    callers: Callers
    feeds: Feeds
    shares: Shares

    @classmethod
    def of(cls, settings: Settings, certificates: Certificates) -> Hall:
        """With no connection to anybody yet."""
        about = About(settings)
        gate = Gate(settings.hosts, settings.web.proxies)
        return cls(settings, certificates, gate, about, Callers(settings), Feeds(settings, about), Shares())

    def check_asker(self, request: Request) -> None:
        """Raise ForbiddenError where a page of another origin asks for a change. A program that shows a token says of
        none; a browser always does, and sends its half of a log-in along whoever asks."""
        if request.method not in SAFE:
            needed = "authorization" not in request.headers
            self.gate.check_origin(request.scope["muster"], request.headers, needed=needed)

    async def body(self, request: Request, shown: Shown) -> dict[str, Any]:
        """Return the JSON of a request of a user that the master knows. Nobody else's is read, for a few thousand of
        them would fill the memory. Raises UnauthenticatedError, ForbiddenError, BadRequestError."""
        self.check_asker(request)
        await self.callers.user(shown)
        return await read_json(request)

    async def close(self) -> None:
        """End all ways to the master."""
        await self.feeds.close()
        await self.callers.close()
        await self.about.close()
