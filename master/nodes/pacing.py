"""The lines of an agent's connection, heard no faster than everybody else can bear.

A machine that talks without end is read a slice at a time, and beyond its share of our time not read on: then it waits
to send, and nobody else does. Owns the pace; what a line means is the link's.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from wire.framing import LineDecoder

SLICE_S = 0.005
"""So long lines of one node are handled without a turn for others."""
SHARE, BURST_S = 0.3, 0.1
"""Of the loop's time so much may be one agent's for long, and so many seconds in a row: thousands of exits after a
night without a master are heard at once. It is the processor's time: a machine that stops for seconds just then is no
node's doing, and who is not read for long is taken for silent."""


class Pace:
    """The share of the loop's time that the connections have together to which it is given: all of an account, on
    whichever nodes, and all that a node's agent makes one after the other. Times are seconds."""

    def __init__(self) -> None:
        self._busy = self._last = 0.0

    def worked(self, seconds: float, began: float, now: float) -> None:
        """Note that lines were heard from `began` until `now`, with so much work."""
        self._busy = max(0.0, self._busy - SHARE * (began - self._last)) + seconds
        self._last = now

    def charge(self, seconds: float) -> None:
        """Note more work than was seen."""
        self._busy += seconds

    @property
    def rest_s(self) -> float:
        """For how long nothing more is to be heard."""
        return max(0.0, self._busy - BURST_S) / SHARE


class PacedReader:
    """`hear` gets each line. `limit`: the size cap of one, in bytes; `pace`: what it may use, with others. `clock`:
    monotonic seconds; `work`: those of the processor that were spent in this thread."""

    def __init__(
        self,
        transport: asyncio.Transport,
        hear: Callable[[bytes], None],
        limit: int,
        *,
        pace: Pace,
        clock: Callable[[], float] = time.monotonic,
        work: Callable[[], float] = time.thread_time,
    ) -> None:
        self._transport = transport
        self._hear: Callable[[bytes], None] | None = hear
        self._share = pace
        self._clock = clock
        self._work = work
        self._decoder = LineDecoder(limit)
        self._lines: deque[bytes] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False

    def feed(self, data: bytes) -> None:
        """Take what was received, or drop it after `close`. Raises FrameError when a line outgrows the cap."""
        if self._hear is None:
            return
        self._lines.extend(self._decoder.feed(data))
        if self._timer is None:  # else this was under way when reading was paused
            self._go_on()

    def close(self) -> None:
        """Read nothing more, and look at no clock again."""
        self._lines.clear()
        self._hear = None  # whose it is refers to this one, and what refers to itself in a circle stays for a while
        if self._timer is not None:
            self._timer.cancel()

    def _go_on(self) -> None:
        self._timer = None
        began = now = self._clock()
        before = self._work()
        try:
            while self._lines and self._hear is not None and now < began + SLICE_S:
                self._hear(self._lines.popleft())
                now = self._clock()
        except BaseException:
            self._transport.abort()  # asyncio does it only where the data came just now
            raise
        self._share.worked(self._work() - before, began, now)
        if self._hear is not None:
            self._pace(self._share.rest_s)

    def _pace(self, rest_s: float) -> None:
        waits = bool(self._lines or rest_s)
        if waits:
            self._timer = asyncio.get_running_loop().call_later(rest_s, self._go_on)
        if waits is not self._paused:
            self._paused = waits
            (self._transport.pause_reading if waits else self._transport.resume_reading)()
