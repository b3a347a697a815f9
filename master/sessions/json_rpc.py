"""JSON-RPC: the sessions that speak it.

A session decodes lines and has its requests answered through `master.verbs.call`, the only entry point to the verbs.
However much a peer asks for at once, no more is answered than its buffer holds, and others are answered in between.

`master.sessions.send_buffer` decides what is sent and when, `master.sessions.streams` has the subscriptions, and
`master.ports` finds out who speaks JSON-RPC and who may connect.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from master.sessions import json_rpc_frames as frames
from master.sessions.send_buffer import SendBuffer
from master.sessions.session import Connection, Session
from master.sessions.streams import Streams
from master.verbs.base import Told
from master.verbs.call import Calls
from wire.client import Request
from wire.errors import LimitError, MusterError, ProtocolError, UnauthenticatedError
from wire.framing import FrameError, LineDecoder
from wire.message import Message

MOST_JOBS = 64
"""Requests of one connection that may be worked on elsewhere at the same time; further ones wait."""


class JsonRpcSession(Session):
    """One peer that speaks JSON-RPC. `tells`: the news that it can subscribe to; `limit`: bytes of a frame;
    `known_limit` gives those of one that begins once we know who it is; `patience_s`: how long it may be nobody; `room`
    gives the bytes that may wait to be sent."""

    transport: asyncio.Transport
    buffer: SendBuffer

    def __init__(
        self,
        connection: Connection,
        calls: Calls,
        streams: Streams,
        *,
        tells: Told | None,
        limit: int,
        known_limit: Callable[[], int],
        patience_s: float,
        room: Callable[[], int],
    ) -> None:
        self._connection = connection
        self._calls = calls
        self._streams = streams
        self._tells = tells
        self._decoder = LineDecoder(limit)
        self._known_limit = known_limit
        self._patience_s = patience_s
        self._unknown: asyncio.TimerHandle | None = None
        """Fires when an unidentified peer has had its time."""
        self._is_known = False
        self._room = room
        self._kept: int | None = None
        """Bytes that are kept for it by the last word; what its arrival kept is not known here."""
        self._waiting: deque[bytes] = deque()
        self._taken = 0
        """Bytes that came in since nothing waited."""
        self._at_work = 0
        """Bytes of the requests that are worked on elsewhere or in slices."""
        self._jobs: set[asyncio.Task[None]] = set()
        self._next_turn: asyncio.Handle | None = None
        self._long: Request | None = None
        """Its answer is being made in slices; what was asked for after it waits."""
        self._long_size = 0
        self._long_stalled = False  # could nothing be written when it began?
        self._begun = False
        """It has said something that can be understood."""
        self._is_over = False

    @property
    def waiting(self) -> int:
        """So many of its requests wait for their turn."""
        return len(self._waiting)

    # -- the transport's events -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to speak; the connection itself is older."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a stream was expected, not {transport!r}")
        self.transport = transport
        port, address = self._connection.port, self._calls.caller.address
        self.buffer = SendBuffer(
            transport,
            self._streams,
            port=port,
            address=address,
            tells=self._tells,
            room=self._room,
            sight=lambda: self._calls.sight,
            freed=self._freed,
            instead=self._instead,
        )
        self._calls.channel = self.buffer
        self._calls.on_known = self._became_known
        if self._calls.caller.user is not None:
            self._is_known = True
            self._decoder.limit = self._known_limit()  # the connection began before the account was looked up
            self._calls.watch(self.look_again)
        else:
            self._unknown = asyncio.get_running_loop().call_later(self._patience_s, self._said_nothing_of_himself)

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget it; what it asked for still happens."""
        if self._unknown is not None:
            self._unknown.cancel()
        self._calls.close()
        for job in self._jobs:
            job.cancel()
        self._decoder = LineDecoder(0)  # what refers to itself in a circle stays for a while, and this may be megabytes
        self.buffer.close()
        self._connection.left()
        self._freed()

    def data_received(self, data: bytes) -> None:
        """Answer each whole frame, after those before it."""
        if self._is_over:
            return
        if self._is_known:
            self._decoder.let(self._known_limit())
        try:
            complete = self._decoder.feed(data)
        except FrameError as error:
            self._end(ProtocolError(Message("bad_frame", said=str(error))))
            return
        if (self._decoder.pending or self._kept != 0) and not self._may_keep():
            return
        self._taken = len(data) + (self._taken if self._waiting else 0)
        self._waiting.extend(complete)
        if self._next_turn is None:
            engine = self._streams.engine
            holds = engine.hold()
            try:
                self._take_turn()
            finally:
                if holds:
                    engine.let_go()

    def keeps(self) -> int:
        """Return how many bytes are kept for it now."""
        waiting = self._taken if self._waiting else self._decoder.pending
        return waiting + self._at_work + self.buffer.kept

    def unread(self) -> int:
        """Return how many bytes of answers are kept for it."""
        return self.buffer.unread

    def _may_keep(self) -> bool:
        """Tell how many bytes are kept for it; False: too many, and the session is over."""
        kept = self.keeps()
        if kept != self._kept:
            self._kept = kept
            if not self._connection.hold(kept):
                self._is_over = True
                return False
        return True

    def pause_writing(self) -> None:
        """The peer does not read: stop asking it for more."""
        self.buffer.pause()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """The peer reads again: go on."""
        self.buffer.resume()
        self._take_turn_soon()

    # -- who is there -----------------------------------------------------------------------------------------

    def _became_known(self) -> None:
        """The peer is identified: it may send larger frames until its token or log-in ends, if a place is free. The
        console is identified before the user for whom it calls."""
        if self._is_over or (self._is_known and not self._calls.caller.is_relayed):
            return
        if self._unknown is not None:
            self._unknown.cancel()
            self._unknown = None
        why = self._connection.settle(self._calls.caller)
        if why is not None:
            self._end(LimitError(why))
            return
        self._is_known = True
        self._decoder.limit = self._known_limit()
        self._calls.watch(self.look_again)

    def look_again(self) -> None:
        """Users or tokens changed, or the token's time is over: a peer that lost access receives nothing more."""
        if self._is_over or not self._is_known:
            return
        if not self._calls.look_again():
            self._end(UnauthenticatedError(self._calls.caller.barred or Message("not_known_any_more")))

    def _said_nothing_of_himself(self) -> None:
        self._unknown = None
        if not self._is_over:
            self._end(UnauthenticatedError(Message("log_in_in_time", seconds=self._patience_s)))

    def finish(self) -> None:
        """Send the answers of this turn of the loop, including the one to the call that ends the master, and close."""
        self.buffer.flush()
        self.transport.close()

    # -- turns ------------------------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        """Handle what waits, in order, until others should have their turn or too much would lie unsent; one request in
        each turn of the loop, however long that is. Nothing more is read meanwhile, so that what waits is never more
        than one reading of the socket. Answers that are ready are sent at the end of the turn."""
        self._next_turn = None
        end = self._streams.turns.ends
        self.buffer.gathers = True
        try:
            while self._waiting and not self._is_full():
                self._handle(self._waiting.popleft())
                if self._waiting and time.monotonic() > end:
                    self._take_turn_soon()
                    break
        finally:
            self.buffer.flush()
        if self._waiting or self.buffer.is_paused:
            self._may_keep()
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _take_turn_soon(self) -> None:
        if self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _freed(self) -> None:
        self._may_keep()
        if self._waiting:
            self._take_turn_soon()

    def _is_full(self) -> bool:
        """Should no further request be answered for now? Sent bytes, a peer that reads again and the end of a job begin
        the next turn. A peer that is gone is sent nothing, but its requests are still carried out."""
        if self._long is not None:
            return True
        if self.transport.is_closing():
            return False
        return self.buffer.is_full or len(self._jobs) >= MOST_JOBS

    # -- requests ---------------------------------------------------------------------------------------------

    def _handle(self, frame: bytes) -> None:
        try:
            request = frames.parse(frame)
        except ProtocolError as error:
            if self._begun:
                self._refuse(None, error)
            else:  # whatever stands behind it was not meant for us: the body of a web page's request, say
                self._end(ProtocolError(Message("bad_frame", said=str(error))))
            return
        self._begun = True
        self._begin(request, len(frame))

    def _begin(self, request: Request, size: int = 0) -> None:
        """`size`: of its frame, whose values are kept while it is worked on."""
        running = self._calls.begin(request.method, request.params, partial(self._answer, request), self._is_there)
        if isinstance(running, asyncio.Task):
            self._jobs.add(running)
            self._at_work += size
            running.add_done_callback(partial(self._job_ended, size))
        elif running is not None:
            self._long, self._long_size = request, size
            self._long_stalled = self._streams.engine.stalled
            self._at_work += size
        if request.method == "subscribe":
            self._may_keep()

    def _is_there(self) -> bool:
        return not self.transport.is_closing()

    def _job_ended(self, size: int, job: asyncio.Task[None]) -> None:
        self._at_work -= size
        self._jobs.discard(job)
        self._freed()

    def _answer(self, request: Request, result: Any, error: MusterError | None) -> None:
        """Encode now, for what is true now; send once it is durable. If the disk began to refuse while it was made,
        it does not tell all that is not saved, and is made anew."""
        if error is None and self._began_before_the_stall(request):
            self._long, self._at_work = None, self._at_work - self._long_size
            self._begin(request, self._long_size)
            self._freed()
            return
        if error is not None:
            self._refuse(request.id, error)
        elif request.id is not None:
            self.buffer.send_durable(frames.answer(request.id, result), request)
        if request.method == "subscribe":
            self.buffer.snapshot_made()
        if self._long is request:
            self._long = None
            self._at_work -= self._long_size
            self._freed()

    def _instead(self, request: Request, error: MusterError) -> list[bytes]:
        """Return the frames that replace an answer whose facts cannot be made durable. A verb that only looks is
        answered anew, because by now the answer can say what is not saved yet; a subscriber asks for a new snapshot."""
        if self._can_begin_anew(request):
            self._begin(request)
            return []
        return [frames.refusal(error, request.id)]

    def _began_before_the_stall(self, request: Request) -> bool:
        is_stalled = self._streams.engine.stalled
        return self._long is request and is_stalled and not self._long_stalled and self._can_begin_anew(request)

    def _can_begin_anew(self, request: Request) -> bool:
        return self._calls.only_looks(request.method) and request.method != "subscribe"

    def _refuse(self, request_id: int | str | None, error: MusterError) -> None:
        self.buffer.send_durable([frames.refusal(error, request_id)])

    def _end(self, error: MusterError) -> None:
        """Send the error, and close; nothing more is read."""
        self._is_over = True
        self._waiting.clear()
        self._calls.close()
        self.buffer.end()

        def leave(_failed: MusterError | None) -> None:
            self.buffer.send(frames.refusal(error))
            self.buffer.flush()
            self._connection.give_up(str(error))

        self._streams.engine.reply(leave)
