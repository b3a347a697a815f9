"""The send buffer of one connection: answers, as soon as their facts are durable, and notifications.

A reader that does not read is sent nothing more than its buffer holds; what changes meanwhile is remembered by id only
and sent, in its newest version, when it reads again; after a while it is given up. Nobody else notices.

Owns the order of what leaves and how much of it lies unsent. The notifications themselves are made in
`master.sessions.streams`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from itertools import islice

from master.sessions.streams import SLICE, Streams
from master.verbs.base import Told
from master.verbs.turns import Job, Work
from master.views.sight import Sight
from wire.client import Request
from wire.errors import MusterError

log = logging.getLogger("muster.ports")

STALLED_S = 60.0
"""A reader that has taken nothing for so long is given up."""
PIECE = 1 << 18
"""So many bytes at most are copied into a connection's buffer at once."""
TLS_PIECE = 64 << 10
"""The same with TLS, where so many bytes more may wait: OpenSSL keeps the room while the connection is open, also when
its reader has taken all."""

BYTES_OF_AN_ID = 96
"""In the set of those that somebody is told of, or is to be told of."""

Instead = Callable[[Request, MusterError], list[bytes]]
"""Returns the frames that replace an answer whose facts cannot be made durable."""


class SendBuffer:
    """Of one connection, to `address`. `tells`: the news that its session can tell of without being asked, None for
    none. `room` gives how many bytes may wait to be sent now. `sight`: what its user sees. `freed` is called when some
    of them were."""

    def __init__(
        self,
        transport: asyncio.Transport,
        streams: Streams,
        *,
        port: str,
        address: str,
        tells: Told | None,
        room: Callable[[], int],
        sight: Callable[[], Sight],
        freed: Callable[[], None],
        instead: Instead,
    ) -> None:
        self.unsent = 0
        """Bytes that are to be sent, those included that are not durable yet."""
        self._transport = transport
        self._streams = streams
        self.tells = tells
        self._port = port
        self._address = address
        self._room = room
        self._sight = sight
        self._freed = freed
        self._instead = instead
        self._out: list[bytes | memoryview] = []
        self._held: list[tuple[list[bytes], Request | None]] = []
        """Frames that leave with the next commit, in order, each with the request that it answers."""
        self.gathers = False
        """Send nothing before `flush`, which must be called in this turn of the loop."""
        self._only: frozenset[int] | None = None
        self._stalled: asyncio.TimerHandle | None = None
        """Fires when a peer that does not read has had its time; None for one that reads."""
        self._missed: dict[int | str, None] = {}
        self._in_snapshot = False
        self._catches_up = False
        self._is_tls = transport.get_extra_info("ssl_object") is not None
        self._piece = TLS_PIECE if self._is_tls else PIECE
        self._has_room = 0
        self._take_room()

    def _take_room(self) -> int:
        room = self._room()
        if room != self._has_room:
            self._has_room = room
            self._transport.set_write_buffer_limits(high=min(room, TLS_PIECE) if self._is_tls else room)
        return room

    # -- the transport's events -------------------------------------------------------------------------------

    def pause(self) -> None:
        """The peer does not read: it is given up if that lasts."""
        self._stalled = self._stalled or asyncio.get_running_loop().call_later(STALLED_S, self._give_up)

    def resume(self) -> None:
        """The peer reads again: send the newest of what it missed, a piece at a time."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self.flush()
        self._catch_up()

    def close(self) -> None:
        """The connection is gone, and nothing is kept for it."""
        self._streams.forget(self)
        if self._stalled is not None:
            self._stalled.cancel()
        self._missed.clear()
        self.flush()

    def _give_up(self) -> None:
        log.warning("%s on %s has read nothing for %.0f s and is given up", self._address, self._port, STALLED_S)
        self._transport.abort()

    # -- how much there is ------------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Does the peer not read?"""
        return self._stalled is not None

    @property
    def is_full(self) -> bool:
        """Should nothing more be asked for? `freed` is called when that may be over."""
        return self._stalled is not None or self.unsent >= self._room()

    @property
    def kept(self) -> int:
        """About so many bytes are kept: unread answers, and the ids that it subscribed to or has missed news of."""
        ids = len(self._missed) + (0 if self._only is None else len(self._only))
        return self.unread + BYTES_OF_AN_ID * ids

    @property
    def unread(self) -> int:
        """So many bytes of answers and news the peer has not read."""
        return self.unsent + self._transport.get_write_buffer_size()

    @property
    def missed(self) -> int:
        """Of so many tasks or nodes there is news that could not be sent yet."""
        return len(self._missed)

    # -- what is sent without a request -----------------------------------------------------------------------

    def begin(self, only: frozenset[int] | None, *, in_slices: bool) -> None:
        """Tell what changes from now on; behind a snapshot, where one is made `in_slices`."""
        self._only = only
        self._in_snapshot = in_slices
        if self.tells is None:
            raise RuntimeError("nothing can be subscribed to over this connection")
        self._streams.subscribers[self.tells][self] = None

    def end(self) -> None:
        """Tell nothing more without being asked."""
        self._streams.forget(self)
        self._missed.clear()
        self._only = None

    def snapshot_made(self) -> None:
        """The snapshot's answer was given: once it has left, what changed meanwhile follows."""
        if self._in_snapshot:
            self._streams.engine.reply(self._snapshot_left)

    def _snapshot_left(self, _error: MusterError | None) -> None:
        self._in_snapshot = False
        self._catch_up()

    @property
    def sight(self) -> Sight:
        """Return what its user may see of others' tasks, now."""
        return self._sight()

    @property
    def lags(self) -> bool:
        """Does it have updates to come that must go first?"""
        return self._in_snapshot or self._stalled is not None or bool(self._missed)

    def wants(self, key: int | str) -> bool:
        """Did it subscribe to this?"""
        return self._only is None or key in self._only

    def remember(self, key: int | str) -> None:
        """Note that there is news of this, to be looked up when it can be sent."""
        self._missed[key] = None

    def send_if_free(self, frame: bytes) -> None:
        """Send what is worth nothing later."""
        if not self.lags:
            self.send(frame)

    def _catch_up(self) -> None:
        # A snapshot that is being made goes first.
        if self._missed and not self._in_snapshot and not self._catches_up:
            self._catches_up = True
            self._streams.turns.begin(Job(self._newest(), self._caught_up))

    def _newest(self) -> Work:
        while self._missed and self._stalled is None:
            for key in list(islice(self._missed, SLICE)):
                del self._missed[key]
                self._out.append(self._streams.update(key, self._sight()))
                self.unsent += len(self._out[-1])
            self.flush()
            yield
            while not self._streams.engine.is_settled:
                yield

    def _caught_up(self, _result: object, error: Exception | None) -> None:
        self._catches_up = False
        if error is not None:
            raise error

    # -- out --------------------------------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Send a whole frame; frames of one turn of the loop go out together."""
        self.unsent += len(frame)
        self._put([frame])

    def send_durable(self, frames: list[bytes], asked: Request | None = None) -> None:
        """Send what is true now once it is durable. If it cannot be, what is to leave `instead`; without `asked` it
        leaves all the same."""
        self.unsent += len(frames[0]) if len(frames) == 1 else sum(map(len, frames))
        engine = self._streams.engine
        if engine.is_settled:
            self._put(frames)
            return
        self._held.append((frames, asked))
        if len(self._held) == 1:
            engine.reply(self._release)

    def _release(self, failed: MusterError | None) -> None:
        """All that was held until now leaves, or what is to leave instead."""
        held, self._held = self._held, []
        for frames, asked in held:
            if failed is None or asked is None:
                self._put(frames)
            else:
                self.unsent -= sum(map(len, frames))
                for frame in self._instead(asked, failed):
                    self.send(frame)

    def _put(self, frames: list[bytes]) -> None:
        if not (self._out or self.gathers):
            self._streams.send_soon(self)
        self._out += frames

    def flush(self) -> None:
        """Send it now, or as much of it as the buffer takes: the rest goes as the peer reads."""
        self.gathers = False
        if not self._out:
            return
        if self._transport.is_closing():
            self.unsent -= sum(map(len, self._out))
            self._out.clear()
        self._take_room()
        while self._out and self._stalled is None:
            data = self._next_piece()
            self.unsent -= len(data)
            self._transport.write(data)
        self._freed()

    def _next_piece(self) -> bytes | memoryview:
        """Return the bytes of the next write: all of the buffer, unless that is much."""
        first = self._out[0]
        if len(first) > self._piece:  # an answer may be one frame of megabytes
            rest = memoryview(first)
            self._out[0] = rest[self._piece :]
            return rest[: self._piece]
        if len(self._out) == 1:
            return self._out.pop()
        taken = size = 0
        for frame in self._out:
            if size + len(frame) > self._piece:
                break
            taken += 1
            size += len(frame)
        data = b"".join(self._out[:taken])
        del self._out[:taken]
        return data
