"""JSON-RPC: the sessions that speak it.

A session decodes lines, has its requests answered by the verbs, and lets answers out only after what they tell is
durable (`Engine.reply`). A reader that does not read is sent nothing more than its buffer holds; what changes meanwhile
is remembered by id only and sent, in its newest version, when it reads again; after a while it is given up. However
much it asks for at once, no more is answered than its buffer holds, and not for long without letting others have their
turn. Nobody else notices.

What it is told without asking is the business of `master.ports.streams`; who may connect, and who turns out to speak
JSON-RPC at all, that of `master.ports.hub`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import deque
from typing import Any, Literal, Protocol

import msgspec

from master.explain import explain
from master.peer import Peer
from master.ports.streams import NODES, TASKS, Streams
from master.verbs.base import Context
from master.verbs.table import VERBS
from wire.client import Request
from wire.errors import BadRequestError, MusterError, ProtocolError, UnauthenticatedError, UnknownMethodError
from wire.framing import FrameError, LineDecoder, strict_loads

log = logging.getLogger("muster.ports")

STALLED_S = 60.0
"""A reader that has taken nothing for so long is given up."""
CATCH_UP = 200
"""How many superseded updates are sent at a time to a reader that reads again."""
TURN_S = 0.02
"""How long one connection's requests are handled before the others have a turn; what one request takes comes on top."""
MOST_JOBS = 64
"""Requests of one connection that may be worked on elsewhere at the same time; further ones wait."""
ONLY_TELL = frozenset({"task.list", "task.show", "task.why", "node.list", "node.show", "server.info"})
"""What need not be worked out any more for a peer that is gone."""

_encode = msgspec.json.Encoder().encode


class Subscribe(msgspec.Struct, forbid_unknown_fields=True):
    """subscribe: to some tasks or to all; `snapshot` says whether what is there now comes first."""

    ids: list[int] | None = None
    snapshot: Literal["active", "none"] = "active"


class Door(Protocol):
    """The connection as `master.ports.hub` sees it."""

    port: str
    peer: Peer

    def give_up(self, why: str) -> None:
        """Close it, saying why in the log."""

    def left(self, session: Connection) -> None:
        """It is gone."""


class Connection(asyncio.Protocol):
    """One peer that speaks JSON-RPC. `limit`: bytes of a frame; `outbox`: bytes that may wait to be sent."""

    transport: asyncio.Transport

    def __init__(self, door: Door, streams: Streams, *, limit: int, outbox: int) -> None:
        self._door = door
        self._streams = streams
        self._decoder = LineDecoder(limit)
        self._outbox = outbox
        self._out: list[bytes] = []
        self._only: frozenset[int] | None = None
        self._paused_at: float | None = None
        self._missed: dict[int | str, None] = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._waiting: deque[bytes] = deque()
        self._unsent = 0
        self._next_turn: asyncio.Handle | None = None

    @property
    def peer(self) -> Peer:
        """Who speaks."""
        return self._door.peer

    # -- the transport's events -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to speak; the connection itself is older."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a stream was expected, not {transport!r}")
        self.transport = transport
        transport.set_write_buffer_limits(high=self._outbox)

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget it; what it asked for still happens."""
        for job in self._jobs:
            job.cancel()
        self._streams.forget(self)
        self._door.left(self)
        if self._waiting:
            self._take_turn_soon()

    def data_received(self, data: bytes) -> None:
        """Answer each whole frame, after those before it."""
        try:
            frames = self._decoder.feed(data)
        except FrameError as error:
            self._answer(None, error=ProtocolError(f"{error}; the connection is closed"))
            self.flush()
            self._door.give_up(str(error))
            return
        self._waiting.extend(frames)
        if self._next_turn is None:
            self._take_turn()

    def pause_writing(self) -> None:
        """The peer does not read: stop asking it for more, and remember since when."""
        self._paused_at = time.monotonic()
        self.transport.pause_reading()
        asyncio.get_running_loop().call_later(STALLED_S, self._give_up_if_stalled, self._paused_at)

    def resume_writing(self) -> None:
        """The peer reads again: send the newest of what it missed, a piece at a time."""
        self._paused_at = None
        self._catch_up()
        self._take_turn_soon()

    # -- subscriptions ----------------------------------------------------------------------------------------

    @property
    def lags(self) -> bool:
        """Does it have updates to come that must go first?"""
        return self._paused_at is not None or bool(self._missed)

    def wants(self, key: int | str) -> bool:
        """Did it subscribe to this?"""
        return self._only is None or key in self._only

    def remember(self, key: int | str) -> None:
        """Note that there is news of this, to be looked up when it can be sent."""
        self._missed[key] = None

    def send(self, frame: bytes) -> None:
        """Send a whole frame; frames of one turn of the loop go out together."""
        self._out.append(frame)
        self._unsent += len(frame)
        self._streams.send_soon(self)

    def send_if_free(self, frame: bytes) -> None:
        """Send what is worth nothing later."""
        if not self.lags:
            self.send(frame)

    def _catch_up(self) -> None:
        for key in list(self._missed)[:CATCH_UP]:
            del self._missed[key]
            self._out.append(self._streams.update(key))
            self._unsent += len(self._out[-1])
        self.flush()
        if self._missed and self._paused_at is None:
            asyncio.get_running_loop().call_soon(self._catch_up)

    def flush(self) -> None:
        """Send it now."""
        out, self._out = self._out, []
        if not out:
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        self._unsent -= len(data)
        if not self.transport.is_closing():
            self.transport.write(data)
        if self._waiting:
            self._take_turn_soon()

    def _give_up_if_stalled(self, since: float) -> None:
        if self._paused_at == since:
            log.warning(
                "%s on %s has read nothing for %.0f s and is given up", self.peer.address, self._door.port, STALLED_S
            )
            self.transport.abort()

    # -- requests ---------------------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        """Handle what waits, in order, until others should have their turn or too much would lie unsent. Nothing more
        is read meanwhile, so that what waits is never more than one reading of the socket."""
        self._next_turn = None
        end = time.monotonic() + TURN_S
        while self._waiting and not self._is_full():
            self._handle(self._waiting.popleft())
            if self._waiting and time.monotonic() > end:
                self._take_turn_soon()
                break
        if self._waiting or self._paused_at is not None:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _take_turn_soon(self) -> None:
        if self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _is_full(self) -> bool:
        """Should no further request be answered for now? Whatever frees it takes the next turn: `flush`, the reader
        that reads again, the end of a job. Who is gone is sent nothing, but what he asked for still happens."""
        if self.transport.is_closing():
            return False
        return self._paused_at is not None or self._unsent >= self._outbox or len(self._jobs) >= MOST_JOBS

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        self._jobs.discard(job)
        if self._waiting:
            self._take_turn_soon()

    def _handle(self, frame: bytes) -> None:
        request_id: int | str | None = None
        try:
            request = _parse(frame)
            request_id = request.id
            result = self._call(request)
        except MusterError as error:
            self._answer(request_id, error=error)
        except Exception:
            log.exception("a request of %s failed: %.300r", self.peer.address, frame)
            self._answer(request_id, error=MusterError("the master met a defect; its log has the details"))
        else:
            if inspect.isawaitable(result):
                job = asyncio.ensure_future(self._answer_later(request_id, result))
                self._jobs.add(job)
                job.add_done_callback(self._job_ended)
            else:
                self._answer(request_id, result)

    def _call(self, request: Request) -> Any:
        self._streams.rates.check(request.method, self.peer.address)
        if self.transport.is_closing() and request.method in ONLY_TELL:
            return None
        if self.peer.user is None:
            raise UnauthenticatedError(
                "there are no log-ins yet: only the user who runs the master may come in, and root, from its own "
                "machine (so from another one, `ssh` there)"
            )
        if request.method == "subscribe":
            return self._subscribe(_convert(request.params, Subscribe))
        verb = VERBS.get(request.method)
        if verb is None:
            raise UnknownMethodError(f"there is no verb {request.method!r}; this master knows {', '.join(VERBS)}")
        return verb.handle(self._context(), _convert(request.params, verb.params))

    def _context(self) -> Context:
        return Context(self._streams.engine, self._streams.master, self.peer, time.time())

    def _subscribe(self, params: Subscribe) -> dict[str, Any]:
        subscribers = self._streams.subscribers.get(self._door.port)
        if subscribers is None:
            raise BadRequestError("tasks are streamed on the train-state port and nodes on the monitor port")
        context = self._context()
        self._only = frozenset(params.ids) if params.ids is not None and self._door.port == TASKS else None
        # The snapshot is taken and the deltas begin in one turn of the loop; both leave through one buffer, in order.
        subscribers[self] = None
        if params.snapshot == "none":
            return {}
        if self._door.port == NODES:
            return {"nodes": VERBS["node.list"].handle(context, None)}
        wanted = {} if self._only is None else {"ids": sorted(self._only & context.core.tasks.keys())}
        return {"tasks": VERBS["task.list"].handle(context, _convert(wanted, VERBS["task.list"].params))["tasks"]}

    async def _answer_later(self, request_id: int | str | None, result: Any) -> None:
        try:
            value = await result
        except MusterError as error:
            self._answer(request_id, error=error)
        except Exception:
            log.exception("a request of %s failed", self.peer.address)
            self._answer(request_id, error=MusterError("the master met a defect; its log has the details"))
        else:
            self._answer(request_id, value)

    def _answer(self, request_id: int | str | None, result: Any = None, *, error: MusterError | None = None) -> None:
        """Encode now, for what is true now; send once it is durable."""
        if error is not None:
            frame = _error_frame(request_id, error)
        elif request_id is None:
            return
        else:
            frame = _encode({"jsonrpc": "2.0", "id": request_id, "result": result}) + b"\n"

        self._unsent += len(frame)

        def leave(failed: MusterError | None) -> None:
            self._unsent -= len(frame)
            self.send(frame if failed is None or error is not None else _error_frame(request_id, failed))

        self._streams.engine.reply(leave)


def _parse(frame: bytes) -> Request:
    try:
        value = strict_loads(frame)
        request = msgspec.convert(value, Request)
    except (FrameError, msgspec.ValidationError) as error:
        raise ProtocolError(f"not a JSON-RPC request: {error}") from None
    if request.jsonrpc != "2.0":
        raise ProtocolError(f"not a JSON-RPC request: jsonrpc is {request.jsonrpc!r}, allowed is '2.0'")
    return request


def _convert(params: dict[str, Any], kind: type[Any]) -> Any:
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as error:
        raise BadRequestError(explain(str(error), params, kind)) from None


def _error_frame(request_id: int | str | None, error: MusterError) -> bytes:
    told = {"code": error.rpc_code, "message": str(error), "data": {"code": error.code}}
    return _encode({"jsonrpc": "2.0", "id": request_id, "error": told}) + b"\n"
