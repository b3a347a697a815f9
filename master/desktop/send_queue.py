"""The frames that wait to be sent to one desktop client: one at a time, each alone on the wire.

The client's reader loses frames that reach it together. So the next frame leaves only when the kernel has seen the
last byte of the one before acknowledged, and GAP_S later. A pushed frame always holds the complete state, so of two
pushes of the same kind only the newer is sent; it is made when it can be sent, and a client that does not read costs
the memory of one frame.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable

GAP_S = 0.05
"""Between the moment at which everything sent was acknowledged, and the next frame."""
LOOK_AGAIN_S = (0.005, 0.25)
"""How soon we look whether a frame was acknowledged: first and at most, each time twice as late."""

Maker = Callable[[], bytes | None]


class SendQueue:
    """The frames of one connection. `limit` gives the bytes, `count`: number of replies from which on `free` is not
    set; `changed` is called when a frame was given to the kernel, or taken by the client: then `size` changes."""

    def __init__(
        self,
        transport: asyncio.Transport,
        *,
        limit: Callable[[], int],
        count: int = 16,
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self._changed = changed
        self._transport = transport
        self._socket: socket.socket = transport.get_extra_info("socket")
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._count = count
        self._replies: deque[bytes] = deque()
        self._size = 0
        self._pushes: dict[str, Maker] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._in_flight = False
        self._next_at = 0.0
        self._pause = LOOK_AGAIN_S[0]
        self._closed = False
        self.free = asyncio.Event()
        """Set while there is room for another reply."""
        self.free.set()

    def reply(self, frame: bytes) -> None:
        """Send a frame, after all replies before it."""
        if not self._closed:
            self._replies.append(frame)
            self._size += len(frame)
            self._mark()
            self._go_on()

    @property
    def size(self) -> int:
        """Bytes of frames that the kernel has not taken yet."""
        return self._size + self._transport.get_write_buffer_size()

    def push(self, key: str, make: Maker) -> None:
        """Send what `make` returns when it can be sent (None: nothing), in place of an older push of the same key."""
        if not self._closed:
            self._pushes[key] = make
            self._go_on()

    def close(self) -> None:
        """Nothing can be sent any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._replies.clear()
        self._pushes.clear()
        self.free.set()

    def _mark(self) -> None:
        if self._size < self._limit() and len(self._replies) < self._count:
            self.free.set()
        else:
            self.free.clear()

    def _go_on(self) -> None:
        if self._timer is None and not self._closed:
            self._step()

    def _step(self) -> None:
        self._timer = None
        if self._transport.is_closing():
            return
        now = self._loop.time()
        if self._in_flight:
            if self._unacknowledged():
                self._timer = self._loop.call_later(self._pause, self._step)
                self._pause = min(2 * self._pause, LOOK_AGAIN_S[1])
                return
            self._in_flight = False
            self._changed()
            self._next_at = now + GAP_S
        if not (self._replies or self._pushes):
            return
        if now < self._next_at:
            self._timer = self._loop.call_at(self._next_at, self._step)
            return
        frame = self._take()
        if frame is not None:
            self._transport.write(frame)
            self._in_flight, self._pause = True, LOOK_AGAIN_S[0]
            self._changed()
            self._step()

    def _take(self) -> bytes | None:
        if self._replies:
            frame = self._replies.popleft()
            self._size -= len(frame)
            self._mark()
            return frame
        while self._pushes:
            key = next(iter(self._pushes))
            made = self._pushes.pop(key)()
            if made is not None:
                return made
        return None

    def _unacknowledged(self) -> bool:
        if self._transport.get_write_buffer_size():
            return True
        answer = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
        return bool(struct.unpack("i", answer)[0])
