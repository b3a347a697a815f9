"""Notifications, fanned out: one subscription at the master for all clients that see the same, however many there are.

Where conf.json's `privacy` is `open`, all who are signed in receive the same, which the console subscribes to itself;
else each log-in has a subscription of its own. A new client's snapshot is requested from the master over the connection
of the notifications, and takes its place in their stream: nothing is lost between the two. Each news has a number
(`seq`), by which a client that returns after a break receives the missed ones, once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from web.about import About
from web.callers import Shown
from web.settings import Settings
from web.upstream import Upstream
from wire.errors import MusterError
from wire.numbers import whole_number

RECENT_BYTES = 1 << 20
"""Bytes of recent news that each feed keeps, for clients that return."""
LINGER_S = 30.0
"""Seconds that a feed without clients continues, for clients that return."""


class News(NamedTuple):
    """A notification: what it is about, and its `params`, JSON with `seq`: by that it is known which comes after it."""

    seq: str
    method: str
    params: bytes

    @property
    def frame(self) -> bytes:
        """As JSON-RPC has it."""
        return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (self.method.encode(), self.params)


Hear = Callable[[News], None]
"""Is given each notification."""


class Kind(NamedTuple):
    """Of which feed somebody is told: of `tasks` or `nodes`; `ids`: of these tasks alone, None for all; `shown`: in
    whose eyes, None for what all see."""

    stream: str
    ids: tuple[int, ...] | None
    shown: Shown | None


class Joined(NamedTuple):
    """A `snapshot`, JSON with `seq`, as of the news of which it is; `begin` is called when it was handed on, and from
    then on what changes is told."""

    snapshot: bytes
    seq: str
    begin: Callable[[], None]


class _Told(msgspec.Struct):
    """A notification of the master."""

    method: str
    params: msgspec.Raw


class _Asked(NamedTuple):
    """A snapshot that is under way, and how many news there were when it was asked for."""

    answer: asyncio.Task[msgspec.Raw]
    since: int


class _Feed:
    """One subscription. `hearers` are called with what comes after their snapshot."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.hearers: dict[object, Hear] = {}
        self.joining = 0
        self._epoch = secrets.token_hex(6)
        self._last = 0
        self._recent: deque[News] = deque()
        self._recent_bytes = 0
        self._snapshots: dict[bytes, _Asked] = {}
        upstream.on_frame = self._tell

    def _tell(self, frame: bytes) -> None:
        told = msgspec.json.decode(frame, type=_Told)
        self._last += 1
        seq = self._seq(self._last)
        news = News(seq, told.method, numbered(bytes(told.params), seq))
        self._recent.append(news)
        self._recent_bytes += len(news.params)
        while self._recent_bytes > RECENT_BYTES:
            self._recent_bytes -= len(self._recent.popleft().params)
        for hear in list(self.hearers.values()):
            hear(news)

    def _seq(self, number: int) -> str:
        return f"{self._epoch}-{number}"

    def since(self, who: object, hear: Hear, last: str) -> list[News] | None:
        """Return the news after this number; `hear` is called with later ones. None if they are no longer known."""
        epoch, _, number = last.partition("-")
        seq = whole_number(number) if epoch == self._epoch else None
        missed = None if seq is None else self._after(seq)
        if missed is not None:
            self.hearers[who] = hear
        return missed

    def _after(self, number: int) -> list[News] | None:
        oldest = self._last - len(self._recent)
        return list(self._recent)[number - oldest :] if oldest <= number <= self._last else None

    async def join(self, who: object, hear: Hear, params: dict[str, Any]) -> Joined:
        """Be told from now on. Raises what the master answers."""
        key = msgspec.json.encode(params, order="sorted")
        asked = self._snapshots.get(key)
        # The answer may have come already, and news after it: a client that shares it gets all news since the request.
        # News from before the snapshot do no harm after it, because the newest state always follows.
        waiting = None if asked is None else self._after(asked.since)
        if asked is None or waiting is None:
            asked, waiting = self._ask(key, params), []
        self.hearers[who] = waiting.append
        try:
            snapshot = await asyncio.shield(asked.answer)
        except BaseException:
            self.hearers.pop(who, None)
            raise

        def begin() -> None:
            if who in self.hearers:
                self.hearers[who] = hear
                for news in waiting:
                    hear(news)

        seq = self._seq(asked.since)
        return Joined(numbered(bytes(snapshot), seq), seq, begin)

    def _ask(self, key: bytes, params: dict[str, Any]) -> _Asked:
        asked = _Asked(asyncio.create_task(self.upstream.call("subscribe", params)), self._last)
        self._snapshots[key] = asked

        def forget(_done: object) -> None:
            if self._snapshots.get(key) is asked:
                del self._snapshots[key]

        asked.answer.add_done_callback(forget)
        return asked


def numbered(params: bytes, seq: str) -> bytes:
    """A JSON object with its number, and nothing in it read: it may be megabytes."""
    rest = params.strip()[1:]
    return b'{"seq":"%b"%b%b' % (seq.encode(), b"" if rest.lstrip().startswith(b"}") else b",", rest)


class Feeds:
    """All subscriptions."""

    def __init__(self, settings: Settings, about: About) -> None:
        self._settings = settings
        self._about = about
        self._feeds: dict[Kind, _Feed] = {}
        self._opening: dict[Kind, asyncio.Task[_Feed]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def kind(self, stream: str, ids: list[int] | None, shown: Shown, scopes: list[str]) -> Kind:
        """Return the feed for this client, which has these scopes. A client that may read gets the feed that all share;
        for any other the master decides whether it gets something, and what. A feed of some tasks is always a log-in's
        own, so that the master counts its connection as that user's. Raises UnreachableError."""
        is_one_of_all = ids is None and "read" in scopes and await self._about.privacy() == "open"
        return Kind(stream, None if ids is None else tuple(sorted(set(ids))), None if is_one_of_all else shown)

    async def join(self, kind: Kind, who: object, hear: Hear, params: dict[str, Any]) -> Joined:
        """Tell somebody of a feed from now on. Raises what the master answers, UnreachableError."""
        feed = self._feeds.get(kind)
        if feed is None or not feed.upstream.is_open:
            feed = await self._opened(kind)
        feed.joining += 1
        try:
            return await feed.join(who, hear, params)
        finally:
            feed.joining -= 1
            self._linger(kind, feed)

    def since(self, kind: Kind, who: object, hear: Hear, last: str) -> list[News] | None:
        """Return the news after `last`, for a client that returns; None if they are no longer known."""
        feed = self._feeds.get(kind)
        return None if feed is None or not feed.upstream.is_open else feed.since(who, hear, last)

    def leave(self, kind: Kind, who: object) -> None:
        """Send nothing more."""
        feed = self._feeds.get(kind)
        if feed is not None:
            feed.hearers.pop(who, None)
            self._linger(kind, feed)

    def closed(self, kind: Kind) -> asyncio.Future[MusterError] | None:
        """Done when there is no more of this feed, with why."""
        feed = self._feeds.get(kind)
        return None if feed is None else feed.upstream.closed

    def _linger(self, kind: Kind, feed: _Feed) -> None:
        """Nobody may hear it any more: end it, unless somebody comes."""
        if not feed.hearers and not feed.joining:
            ending = asyncio.create_task(self._end_unheard(kind, feed))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def _end_unheard(self, kind: Kind, feed: _Feed) -> None:
        if kind.ids is None:  # a user could ask for any number of the others
            await asyncio.wait([feed.upstream.closed], timeout=LINGER_S)
        if not feed.hearers and not feed.joining:
            self._forget(kind, feed)
            await feed.upstream.close()

    async def _opened(self, kind: Kind) -> _Feed:
        opening = self._opening.get(kind)
        if opening is None:
            opening = self._opening[kind] = asyncio.create_task(self._open(kind))
            opening.add_done_callback(lambda _done: self._opening.pop(kind, None))
        return await asyncio.shield(opening)

    async def _open(self, kind: Kind) -> _Feed:
        token, origin, account = kind.shown or ("", "", None)
        opened = await Upstream.open(self._settings, kind.stream, shown=token, origin=origin, account=account)
        feed = _Feed(opened)
        self._feeds[kind] = feed
        feed.upstream.closed.add_done_callback(lambda _why: self._forget(kind, feed))
        return feed

    def _forget(self, kind: Kind, feed: _Feed) -> None:
        if self._feeds.get(kind) is feed:
            del self._feeds[kind]

    async def close(self) -> None:
        """End all of them."""
        for ending in list(self._ending):
            ending.cancel()
        for feed in list(self._feeds.values()):
            with suppress(OSError):
                await feed.upstream.close()
