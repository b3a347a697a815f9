"""One connection to an agent: its lines at a bearable pace, and messages of one turn of the loop together.

Owns the transport, and how soon it is read. The conversation owns the meaning of a line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from master.engine.engine import Engine
from master.nodes.pacing import Pace, PacedReader
from wire import agent as wire
from wire.message import Message

AGENT_CLOSED = Message("agent_closed")
MOST_UNSENT = 32 << 20
"""Where more bytes than this wait to be sent already, the agent reads nothing, and its connection ends."""

_encode = msgspec.json.Encoder().encode


class LoopTurns(Protocol):
    """The loop that all of this runs in."""

    def unhurried(self, fd: int) -> None:
        """Let the bytes of this connection wait a moment from now on."""

    def hurried(self, fd: int) -> None:
        """Read this connection at once again."""

    def has_said(self, fd: int) -> bool:
        """Did anything come over it that was not heard yet?"""


class Ending:
    """Whether a connection, or the try to make one, is over, and why. `by`: at the latest then (monotonic seconds),
    since the agent was asked to end for ours; 0: it was not."""

    def __init__(self) -> None:
        self.why = AGENT_CLOSED
        self.by = 0.0
        self._over = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Is it?"""
        return self._over.is_set()

    def end(self, why: Message | None = None) -> None:
        """It is over, for this reason, or for one that was told before."""
        self.why = why or self.why
        self._over.set()

    async def wait(self) -> None:
        """Until it is over."""
        await self._over.wait()


class Connection:
    """`hear` gets each line; `over` learns that it cannot go on. `heard_at`: when the agent was last heard, in
    monotonic seconds. `is_ready`: the handshake is done, and messages may go out. `rests`: what comes may be heard a
    moment later."""

    def __init__(
        self,
        transport: asyncio.Transport,
        engine: Engine,
        hear: Callable[[bytes], None],
        over: Ending,
        *,
        pace: Pace,
        turns: LoopTurns | None,
        heard_at: float,
    ) -> None:
        self.heard_at = heard_at
        self.is_ready = self.rests = False
        self._transport = transport
        self._engine = engine
        self._over = over
        self._turns = turns
        sock = transport.get_extra_info("socket")
        self._fd = -1 if sock is None else sock.fileno()
        self._pace = pace
        self._reader = PacedReader(transport, hear, wire.MAX_FRAME, pace=pace)
        self._out: list[bytes] = []
        self._is_closed = self._has_asked = False
        """`_has_asked`: anything but a ping was sent since the last one."""

    def write(self, message: Any) -> None:
        """Send at once: a word of the handshake."""
        self._transport.write(_encoded(message))

    def ask(self, message: Any) -> bool:
        """Send if the handshake is done, and say whether; what the agent says is heard at once from now on."""
        if self.is_ready:
            self.hurry()
            self.send(message)
        return self.is_ready

    def send(self, message: Any) -> None:
        """Send, if the handshake is done; messages of one turn of the loop go out together."""
        if not self.is_ready:
            return
        if not self._out:
            self._engine.send_soon(self._flush)
        self._out.append(_encoded(message))

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._is_closed:
            return
        if self._transport.get_write_buffer_size() > MOST_UNSENT:
            self._over.end(Message("agent_reads_nothing", mib=MOST_UNSENT >> 20))
        else:
            self._transport.write(b"".join(out))

    def charge(self, seconds: float) -> None:
        """Take so many seconds from the agent's share of our time, besides the time that its message took."""
        self._pace.charge(seconds)

    def feed(self, data: bytes) -> None:
        """Hear each line, those of a flood when others had their turn. Raises FrameError when a line outgrows the
        cap."""
        self.heard()
        self._reader.feed(data)

    def heard(self) -> None:
        """The agent is there now."""
        self.heard_at = time.monotonic()

    @property
    def has_said(self) -> bool:
        """Does something lie there unheard? Where thousands spoke while we stood still, their turn comes late."""
        return self._turns is not None and self._fd >= 0 and self._turns.has_said(self._fd)

    def rest(self, *, can_wait: bool) -> None:
        """Where nothing is awaited from an agent but samples, they can be heard together with those of other nodes."""
        if self._turns is not None and self.is_ready and can_wait and not self._has_asked:
            self._turns.unhurried(self._fd)  # of a connection that is over the number may be another's
            self.rests = True
        self._has_asked = False

    def hurry(self) -> None:
        """Hear it at once again."""
        self._has_asked, self.rests = True, False
        if self._turns is not None:
            self._turns.hurried(self._fd)

    def finish(self) -> None:
        """Let out what is still to be said, and close."""
        self.hurry()
        self._flush()
        self._transport.close()

    def close(self) -> None:
        """Hear and say nothing more."""
        self.is_ready, self._is_closed = False, True
        self._reader.close()
        self._transport.abort()


def _encoded(message: Any) -> bytes:
    """A message as a line."""
    return _encode(message) + b"\n"
